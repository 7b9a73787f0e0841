"""What exactly-once costs of a checkpoint, and how much of that is the database's: pure, from what `timed` wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

_WHOLE, _JOB, _COMMITS = "Checkpoint", "RunWriters", "Commit"
_PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "acknowledgements": ("Acknowledgements",),
    "permits": ("Permit", "Revoke"),
    "counts": ("Count",),
    "state": ("AwaitState",),
    "record": ("PutRecord",),
    "head": ("DrawNonce", "Swap decide", "Swap committed"),
    "listing": ("ListPrepared", "AbortPrepared"),
    "pruning": ("Prune",),
    "offsets": ("CommitBack",),
    "telling": ("Emit",),
}
"""Of the protocol, R5 to R10, by the driver's actions. Permits, the listing and pruning are statements in the database;
record, head and records that are pruned are files; offsets go to Kafka, and what is told to the history."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one checkpoint, the median of several; seconds."""

    of_s: float  # from one checkpoint's end to the next one's
    commits_s: float  # the database commits what is prepared, transaction by transaction
    parts_s: Mapping[str, float]  # of all else that the driver does: see _PARTS, and "steps", what lies between those

    @property
    def protocol_s(self) -> float:
        """All parts."""
        return sum(self.parts_s.values())

    def facts(self) -> dict[str, Any]:
        """For a line of JSON: milliseconds, and parts of the checkpoint's time."""
        return {
            "exactly_once_share": round((self.protocol_s + self.commits_s) / self.of_s, 4),
            "protocol_ms": _ms(self.protocol_s),
            "protocol_share": round(self.protocol_s / self.of_s, 4),
            "commits_ms": _ms(self.commits_s),
            "commits_share": round(self.commits_s / self.of_s, 4),
            "protocol_parts_ms": {name: _ms(took_s) for name, took_s in self.parts_s.items()},
        }


def cost(lines: Sequence[Mapping[str, float]], of_s: float) -> Cost:
    """Of these checkpoints. Raises ValueError for one that was not straight: tried again, replayed, at-least-once."""
    known = {_WHOLE, _JOB, _COMMITS, "checkpoint_id", *(name for names in _PARTS.values() for name in names)}
    if strange := sorted({name for line in lines for name in line} - known):
        raise ValueError(f"a checkpoint was not straight: {', '.join(strange)}")
    parts = {part: [sum(line.get(name, 0.0) for name in names) for line in lines] for part, names in _PARTS.items()}
    parts["steps"] = [_between_s(line) for line in lines]
    return Cost(of_s, median(line[_COMMITS] for line in lines), {part: median(took) for part, took in parts.items()})


def _between_s(line: Mapping[str, float]) -> float:
    """Neither in an action nor before the job's end: planning, the protocol's own steps, and reports."""
    actions = (took_s for name, took_s in line.items() if name not in {_WHOLE, "Acknowledgements", "checkpoint_id"})
    return line[_WHOLE] - sum(actions)


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 2)

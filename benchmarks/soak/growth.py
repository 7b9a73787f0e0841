"""Whether what a pipeline holds grows: pure, and in figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import linear_regression
from typing import Any, Final

from benchmarks.soak.sampled import Sample

FEWEST_SAMPLES: Final = 4
"""A quarter of them is left out, and no line is fitted through less than three."""

LIMITS: Final[Mapping[str, tuple[float, float]]] = {
    "driver_mb": (0.10, 16),
    "jvm_mb": (0.15, 64),
    "workers_mb": (0.15, 64),
    "threads": (0.05, 6),
    "open_files": (0.05, 10),
    "connections": (0.0, 4),
    "files": (0.10, 40),
    "files_mb": (0.15, 8),
    "ledger_rows": (0.0, 40),
}
"""By quantity of a Sample, by how much it may grow: as a part of what it was, or this much, whichever is more."""


class TooFewSamplesError(ValueError):
    """They say nothing of growth."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Of one quantity, along the line that lies nearest to its samples."""

    name: str
    was: float  # where the line begins, after warming up
    grew: float  # up to its end; negative: it shrank
    limit: float
    checkpoints: int  # between the two

    @property
    def within(self) -> bool:
        """Whether it counts as flat."""
        return self.grew <= self.limit

    def __str__(self) -> str:
        return (
            f"{self.name} grew by {self.grew:.1f} from {self.was:.1f} in {self.checkpoints} checkpoints, "
            f"{self.limit:.1f} may be"
        )

    def facts(self) -> dict[str, Any]:
        """Plain data."""
        return {"was": round(self.was, 2), "grew": round(self.grew, 2), "limit": round(self.limit, 2)}


def growths(samples: Sequence[Sample]) -> list[Growth]:
    """Of every quantity. The first quarter of the samples is for warming up, and left out.

    Raises TooFewSamplesError.
    """
    if len(samples) < FEWEST_SAMPLES:
        message = f"{len(samples)} samples say nothing of growth, {FEWEST_SAMPLES} would: run more checkpoints"
        raise TooFewSamplesError(message)
    warm = samples[len(samples) // 4 :]
    return [_growth(name, warm) for name in LIMITS]


def flat_means() -> str:
    """What counts as flat, for people: a line for each quantity."""
    parts = {name: f"{part:.0%} of what it was, or " if part else "" for name, (part, _) in LIMITS.items()}
    return "\n".join(f"{name}: {parts[name]}{least:g}" for name, (_, least) in LIMITS.items())


def _growth(name: str, warm: Sequence[Sample]) -> Growth:
    checkpoints = [each.checkpoints for each in warm]
    slope, at_none = linear_regression(checkpoints, [getattr(each, name) for each in warm])
    passed, was = checkpoints[-1] - checkpoints[0], at_none + slope * checkpoints[0]
    part, least = LIMITS[name]
    return Growth(name, was, slope * passed, max(part * was, least), passed)

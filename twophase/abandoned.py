"""What a reset cannot bring to its end and gives up only on purpose: named one by one, and never in silence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twophase.head_value import HeadValue
from twophase.ids import TransactionId
from twophase.positions import least
from twophase.values import CheckpointRecord, OffsetRange


@dataclass(frozen=True, slots=True)
class Abandoned:
    """Work of one checkpoint that can be neither committed nor rolled back, in some sinks or in all of them."""

    checkpoint_id: int
    sinks: tuple[str, ...]
    why: str
    transactions: tuple[TransactionId, ...]  # as far as they are known
    ranges: Mapping[str, tuple[OffsetRange, ...]]  # by source: its records
    is_exact: bool = True  # False: its records lie somewhere within `ranges`

    def __str__(self) -> str:
        """One line for people."""
        ranges = ", ".join(f"{r.split}[{r.start}, {r.end})" for each in self.ranges.values() for r in each)
        transactions = ", ".join(map(str, self.transactions))
        parts = [f"checkpoint {self.checkpoint_id} in {', '.join(self.sinks)}: {self.why}"]
        if ranges:
            parts.append(f"its records {'are' if self.is_exact else 'lie within'} {ranges}")
        parts.append(f"transactions: {transactions or '(none known)'}")
        return "; ".join(parts)


def add_given_up(message: str, abandoned: Sequence[Abandoned]) -> str:
    """Return the message with what the end of an incarnation gave up, for the history."""
    return "; ".join([message, *(f"given up: {each}" for each in abandoned)])


def enclosing_ranges(
    head: HeadValue, checkpoint_id: int, others: Sequence[CheckpointRecord]
) -> Mapping[str, tuple[OffsetRange, ...]]:
    """Where the records of a checkpoint lie whose own record cannot be read: between those that can (R6).

    Args:
        head: initial positions, and where the newest completed checkpoint ends.
        checkpoint_id: the one that cannot be read.
        others: what is readable, ascending; ranges of one split follow one another without gaps.
    """
    starts = {(source, split): at for source, splits in head.initial.items() for split, at in splits.items()}
    ends = {(source, split): at for source, splits in head.positions.items() for split, at in splits.items()}
    for record in (each for each in others if each.checkpoint_id < checkpoint_id):
        starts |= {(source, r.split): r.end for source, ranges in record.ranges.items() for r in ranges}
    for record in reversed([each for each in others if each.checkpoint_id > checkpoint_id]):
        ends |= {(source, r.split): r.start for source, ranges in record.ranges.items() for r in ranges}
    within = [
        (source, OffsetRange(split, starts.get((source, split), least(end)), end))
        for (source, split), end in sorted(ends.items(), key=lambda each: each[0])
    ]
    return {name: tuple(r for source, r in within if source == name and not r.is_empty) for name in head.positions}

"""What a start from a savepoint writes that the sinks hold already: records that were read after it was taken. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from twophase.head_value import HeadValue
from twophase.positions import Position, distance, is_before, total
from twophase.status import Status
from twophase.values import SinkState


@dataclass(frozen=True, slots=True)
class RepeatedSplit:
    """Records of one split: `[start, end)`. Offsets count: with gaps there are fewer records."""

    source: str
    split: str
    start: Position
    end: Position

    @property
    def records(self) -> int | None:
        """At the most. None: the source does not count."""
        return distance(self.start, self.end)

    def __str__(self) -> str:
        return f"{self.split}[{self.start}, {self.end})"


@dataclass(frozen=True, slots=True)
class Repeated:
    """Records and rows that a start from a savepoint writes twice."""

    splits: tuple[RepeatedSplit, ...] = ()
    rows: Mapping[str, int] = field(
        default_factory=dict
    )  # by sink, where the records of all those checkpoints are kept
    beyond: Mapping[str, int] = field(
        default_factory=dict
    )  # sink -> its newest checkpoint, where no head tells offsets
    other_life: bool = False  # of head, or of a sink: what the savepoint's own life wrote later is not known any more

    @property
    def any(self) -> bool:
        """Whether anything is, or may be."""
        return bool(self.splits or self.beyond) or self.other_life

    @property
    def records(self) -> int | None:
        """Over all splits. None: a source does not count."""
        return total(each.records for each in self.splits)

    def __str__(self) -> str:
        told = []
        if self.splits:
            ranges = ", ".join(map(str, self.splits))
            records = f"{self.records:,} records" if self.records is not None else "records"
            told.append(f"{records} were read after the savepoint was written: {ranges}")
        if self.beyond:
            beyond = ", ".join(f"{name} has checkpoints up to {number}" for name, number in self.beyond.items())
            told.append(f"checkpoints are in the sinks that the savepoint does not have ({beyond})")
        if self.other_life:
            told.append("later positions of the savepoint's incarnation are not known any more")
        return "; ".join(told)


def is_of(head: HeadValue, incarnation: str, savepoint: str) -> bool:
    """Whether a savepoint is of this life, or this life began from it."""
    return head.incarnation == incarnation or (head.origin is not None and head.origin.savepoint == savepoint)


def repeated(
    at: HeadValue, savepoint: str, status: Status | None, sinks: Mapping[str, SinkState], sources: Mapping[str, object]
) -> Repeated:
    """What is read again.

    Args:
        at: head of the savepoint.
        savepoint: its id.
        status: head as it is, and its records; None: the location is empty.
        sinks: as they stand to the life of that head, or to the savepoint's where there is none.
        sources: those that the new spec reads.
    """
    if status is None:
        others = {each.claim_incarnation for each in sinks.values()} - {None, at.incarnation}
        return Repeated(beyond=_beyond(at, sinks), other_life=bool(others))
    head = status.head
    splits, beyond = tuple(_splits(at, head, sources)), _beyond(head, sinks)  # head may have been set back
    other_life = not is_of(head, at.incarnation, savepoint)
    return Repeated(splits, _rows(at, status) if splits else {}, beyond, other_life)


def repeated_by_job(at: HeadValue, savepoint: str, status: Status | None, sinks: Mapping[str, SinkState]) -> Repeated:
    """Return the rows that a restored job would write twice, by checkpoint: its offsets are in Spark, not in head.

    For the arguments see `repeated`.
    """
    found = repeated(at, savepoint, status, sinks, {})
    if status is None or found.other_life or status.head.completed <= at.completed:
        return found
    beyond = {**dict.fromkeys(status.head.sinks, status.head.completed), **found.beyond}
    return Repeated(rows=_rows(at, status), beyond=beyond)


def _beyond(head: HeadValue, sinks: Mapping[str, SinkState]) -> dict[str, int]:
    """Return the sinks that show a checkpoint of head's incarnation which head has not completed, with its number."""
    return {
        name: each.highest_witness
        for name, each in sinks.items()
        if each.claim_incarnation == head.incarnation and each.highest_witness > head.completed
    }


def _splits(at: HeadValue, head: HeadValue, sources: Mapping[str, object]) -> Iterator[RepeatedSplit]:
    for source, positions in sorted(head.positions.items()):
        for split, end in sorted(positions.items()):
            began = head.initial.get(source, {}).get(split, end)
            start = at.position(source, split)  # one that was found later begins where it was found
            first = began if start is None or is_before(start, began) else start
            if source in sources and is_before(first, end):
                yield RepeatedSplit(source, split, first, end)


def _rows(at: HeadValue, status: Status) -> dict[str, int]:
    later = [each for each in status.checkpoints if each.checkpoint_id > at.completed]
    known = status.head.incarnation == at.incarnation and len(later) == status.head.completed - at.completed
    rows: dict[str, int] = {}
    for record in later if known else ():
        for sink, group in record.committables.items():
            rows[sink] = rows.get(sink, 0) + sum(each.rows for each in group)
    return rows

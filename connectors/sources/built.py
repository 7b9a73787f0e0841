"""The full source that the framework builds from a `SplitSource`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import pyarrow as pa

from connectors.api.contracts import Finding, Horizon
from connectors.foreign import foreign
from connectors.sources.split_source import SplitSource
from eos.errors import BadRecordError, HeadFormatError, IdentityError, OffsetOutOfRangeError, SourceError, SpecError
from twophase.positions import Position, Positions, check_position, check_positions, is_before
from twophase.values import OffsetRange, StartingPoint

_CORRECT = "correct the source: docs/tutorial/plugins.md lists the results and errors of its calls"
_END: Final = object()
"""The end of the batches. None would be a batch: a source that yields it stops the pipeline."""

_REMEDY = "restore the input as it was; or begin anew with what there is now by `eos reset --to earliest`"


@dataclass(frozen=True)
class BuiltSource:
    """A source (`connectors.api.contracts.Source`) over a `SplitSource`.

    A bad record is an error here: `SplitSource.read` raises BadRecordError, and the pipeline stops.
    """

    name: str
    source: SplitSource
    chosen: tuple[str, ...] | None = None  # columns of the schema, in its order; None: all
    split_above: int | None = None
    join_below: int = 1_000
    withheld_by: ClassVar[str] = ""
    withheld_remedy: ClassVar[str] = ""
    rejects_bad_records: ClassVar[bool] = False
    skips_bad_records: ClassVar[bool] = False

    @property
    def schema(self) -> pa.Schema:
        whole = self.source.schema
        return whole if self.chosen is None else pa.schema([field for field in whole if field.name in self.chosen])

    def select(self, columns: Sequence[str]) -> BuiltSource:
        missing = set(columns) - set(self.schema.names)
        if missing:
            raise SpecError(f"source {self.name}: no such column: {', '.join(sorted(missing))}")
        return replace(self, chosen=tuple(name for name in self.schema.names if name in columns))

    def starting_point(self, known: StartingPoint) -> StartingPoint:
        """See Source. Every split begins at its first record."""
        first = self._splits()
        return StartingPoint({split: at for split, at in first.items() if split not in known.positions})

    def horizon(self, known: StartingPoint) -> Horizon:
        """See Source. Raises OffsetOutOfRangeError if a split that is known is not there any more."""
        first = self._splits_with(known)
        starts = {**first, **known.positions}
        ends = {split: self._end(split, start) for split, start in starts.items()}
        return Horizon(ends, StartingPoint({split: at for split, at in first.items() if split not in known.positions}))

    def current_ends(self, known: StartingPoint) -> Horizon | None:
        """See MeasuredSource. None if the end of one split is not known: the total would be too small."""
        first = self._splits_with(known)
        ends: dict[str, Position] = {}
        for split, start in {**first, **known.positions}.items():
            with self._calling("current_end", split):
                found: object = self.source.current_end(split, start)
            if found is None:
                return None
            ends[split] = check_position(found, f"source {self.name}, split {split}: `current_end`")
        return Horizon(ends, StartingPoint({split: at for split, at in first.items() if split not in known.positions}))

    def limit(self, offsets: OffsetRange, max_records: int) -> Position:
        with self._calling("limit", offsets.split):
            found = self.source.limit(offsets.split, offsets.start, offsets.end, max_records)
        return check_position(found, f"source {self.name}, split {offsets.split}: `limit`")

    def witnesses(self, ranges: Sequence[OffsetRange]) -> Mapping[str, str]:
        """See Source. A stored witness has the position that it is of: the next plan compares it there."""
        found = ((each, self._witness(each.split, each.end)) for each in ranges)
        return {each.split: json.dumps([each.end, witness]) for each, witness in found if witness is not None}

    def check_witnesses(self, witnesses: Mapping[str, str]) -> None:
        for split, stored in witnesses.items():
            position, before = _parsed(split, stored)
            if self._witness(split, position) != before:
                message = (
                    f"source {self.name}: the records of {split} before {position!r} are not those that were read: "
                    "they were replaced, or removed, or others were put between them"
                )
                raise OffsetOutOfRangeError(message, remedy=_REMEDY)

    def lost_ranges(self, ranges: Sequence[OffsetRange]) -> Sequence[OffsetRange]:
        """See Source. Loss is an error."""
        return []

    def read(
        self, ranges: Sequence[OffsetRange], on_bad_records: Callable[[int], None] = lambda _count: None
    ) -> Iterator[pa.RecordBatch]:
        """See Source. Raises SourceError for a batch of another schema than the source declares, BadRecordError for a
        NULL that it excludes."""
        whole, names = self.source.schema, self.schema.names
        for each in ranges:
            if each.is_empty:
                continue
            for batch in self._batches(each):
                if not isinstance(batch, pa.RecordBatch):
                    message = f"source {self.name}, split {each.split}: `read` yields a {type(batch).__name__}"
                    raise SourceError(message, remedy="correct the source: `read` yields record batches of `schema`")
                if not batch.schema.equals(whole):
                    message = f"source {self.name}: a batch of {each.split} does not have the schema of the source"
                    raise SourceError(message, remedy="correct the source: `read` yields batches of `schema`")
                self._check_nulls(each, batch)
                if batch.num_rows:
                    yield batch.select(names) if self.chosen is not None else batch

    def bad_records(self, offsets: OffsetRange) -> Iterator[pa.RecordBatch]:
        """See Source. There are none: `read` raises for them."""
        yield from ()

    def records(self, split: str, offsets: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """See Source. A dead letter of this source keeps the row."""
        yield from ()

    def commit_back(self, positions: Positions) -> None:
        """See Source. The service is not told."""

    def _splits(self) -> Mapping[str, Position]:
        """Return the splits of now. Raises IdentityError before head stores what is not a position."""
        with self._calling("splits"):
            found = self.source.splits()
        return check_positions(found, f"source {self.name}")

    def _splits_with(self, known: StartingPoint) -> Mapping[str, Position]:
        """Return `_splits`. Raises OffsetOutOfRangeError if a split of `known` is missing."""
        first = self._splits()
        if gone := sorted(known.positions.keys() - first.keys()):
            message = f"source {self.name}: {', '.join(gone)} is gone, and the pipeline has begun to read it"
            raise OffsetOutOfRangeError(message, remedy=_REMEDY)
        return first

    def _calling(self, method: str, split: str = "") -> AbstractContextManager[None]:
        """Name the source, the split and the call in an error that the framework does not know."""
        where = f"source {self.name}, split {split}" if split else f"source {self.name}"
        return foreign(f"{where}: `{method}`", SourceError, _CORRECT)

    def _batches(self, each: OffsetRange) -> Iterator[object]:
        with self._calling("read", each.split):
            batches: Iterator[object] = iter(self.source.read(each.split, each.start, each.end))
        while True:
            with self._calling("read", each.split):
                batch = next(batches, _END)
            if batch is _END:
                return
            yield batch

    def _end(self, split: str, start: Position) -> Position:
        """Return the end of a split. Raises IdentityError for another kind of position, and for one before `start`."""
        where = f"source {self.name}, split {split}"
        with self._calling("end", split):
            found = self.source.end(split, start)
        end = check_position(found, where)
        try:
            is_shorter = is_before(end, start)
        except IdentityError as error:
            raise IdentityError(f"{where}: {error.message}", remedy=error.remedy) from None
        if is_shorter:
            message = f"{where} ends at {end!r}, and its next position is {start!r}: the input was replaced or cut off"
            raise OffsetOutOfRangeError(message, remedy=_REMEDY)
        return end

    def _witness(self, split: str, position: Position) -> str | None:
        with self._calling("witness", split):
            found: object = self.source.witness(split, position)
        if found is not None and not isinstance(found, str):
            message = f"source {self.name}, split {split}: the witness is a {type(found).__name__}, not a text"
            raise SourceError(message, remedy="correct the source: `witness` returns a str, or None")
        return found

    def _check_nulls(self, offsets: OffsetRange, batch: pa.RecordBatch) -> None:
        """Refuse NULL in a column that the schema calls NOT NULL: Spark does not look there, and reads a 0 (R4)."""
        for at, column in enumerate(batch.schema):
            if not column.nullable and batch.column(at).null_count:
                message = f"source {self.name}, {offsets.split}: a record has no {column.name}, which is NOT NULL"
                raise BadRecordError(message, remedy="correct the record, or let the schema of the source allow NULL")

    def check(self) -> Sequence[Finding]:
        return [replace(each, check=f"{self.name}: {each.check}") for each in self.source.check()]


def _parsed(split: str, stored: str) -> tuple[Position, str]:
    try:
        position, witness = json.loads(stored)
    except (ValueError, TypeError) as error:
        message = f"the witness of {split} in Spark's plan is damaged: {stored!r}"
        remedy = "restore the checkpoint location from a backup, or `eos reset --to`"
        raise HeadFormatError(message, remedy=remedy) from error
    return position, witness

"""The records that refused rows were made of, read again from their sources as they were, for the dead letters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from connectors.api.contracts import Source
from connectors.dead_letters import RECORD, append_row
from spark_jobs.session.failures import carried
from twophase.values import OffsetRange

_ORIGINAL: Final = frozenset({"source", "timestamp", "key", "value", "headers"})
"""What a letter has of its record; the rest it has of the row."""


@dataclass(frozen=True, slots=True)
class SourceRecords:
    """The function that Spark runs on all letters of refused rows, in one task: they are few. As many come out."""

    ranges: Sequence[tuple[Source, OffsetRange]]  # all that the checkpoint reads
    token: str  # see failures.carried

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of dead_letters.RECORD. A source that does not answer is an error: the checkpoint is tried again."""
        given = pa.concat_tables([RECORD.empty_table(), *(_named(each) for each in batches)]).combine_chunks()
        if given.num_rows == 0:
            return
        (letters,) = given.to_batches()
        places = letters.select(["topic", "partition", "offset"]).to_pylist()
        records = {row: found for row, place in enumerate(places) if (found := self._record(place)) is not None}
        left = dict.fromkeys(range(letters.num_rows))  # as a set that keeps its order
        with carried(self.token):
            for name, split in dict.fromkeys((source.name, split) for source, split in records.values()):
                rows = [row for row, (source, of) in records.items() if (source.name, of) == (name, split)]
                source, _ = records[rows[0]]
                for found in source.records(split, sorted({places[row]["offset"] for row in rows})):
                    at = {offset: number for number, offset in enumerate(found.column("offset").to_pylist())}
                    there = [row for row in rows if places[row]["offset"] in at]
                    yield _as_it_was(_taken(letters, there), _taken(found, [at[places[r]["offset"]] for r in there]))
                    for row in there:
                        del left[row]
        kept = _taken(letters, [*left])
        errors = [
            error + "; its record is gone, the value is the row" * (row in records)
            for row, error in zip(left, kept.column("error").to_pylist(), strict=True)
        ]
        yield _with(kept, {"error": pa.array(errors, pa.string())})

    def _record(self, place: Mapping[str, Any]) -> tuple[Source, str] | None:
        """The source and split of a record that the checkpoint has read there; None where that is not certain.

        A step may have put something else into these columns, and topics of two clusters may have one name.
        """
        split, offset = f"{place['topic']}/{place['partition']}", place["offset"]
        if offset is None:
            return None
        found = [(source, each) for source, each in self.ranges if each.split == split]
        found = [(source, each) for source, each in found if each.start <= offset < each.end]
        return (found[0][0], split) if len(found) == 1 else None


def _as_it_was(letters: pa.RecordBatch, records: pa.RecordBatch) -> pa.RecordBatch:
    """Each letter with what the record has that stands beside it, and with the row in its error."""
    parts = (letters.column("error"), records.column("error"), letters.column("value"))
    told = zip(*(part.to_pylist() for part in parts), strict=True)
    errors = pa.array([append_row(error + "; " * bool(more) + more, row) for error, more, row in told], pa.string())
    return _with(letters, {name: records.column(name) for name in _ORIGINAL} | {"error": errors})


def _named(batch: pa.RecordBatch) -> pa.Table:
    """Spark may have other names (columns.numbered)."""
    return pa.Table.from_batches([batch]).rename_columns(RECORD.names).cast(RECORD)


def _taken(rows: pa.RecordBatch, numbers: Sequence[int]) -> pa.RecordBatch:
    return rows.take(pa.array(numbers, pa.int64()))


def _with(letters: pa.RecordBatch, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    return pa.record_batch([columns.get(name, letters.column(name)) for name in RECORD.names], schema=RECORD)

"""Bisection of a batch, to find the rows that a sink refuses, after an attempt that has met such a row."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Protocol

import pyarrow as pa

from connectors.dead_letters import PLACE, RECORD, encode_refused_row
from eos.errors import BadRowError, TooManyBadRowsError
from twophase.values import Committable


class WritesWhole(Protocol):
    """A writer that takes a batch or nothing of it."""

    def write_atomic(self, batch: pa.RecordBatch) -> None:
        """Write the batch, or raise BadRowError with none of its rows written."""


@dataclass(slots=True)
class RowBisector:
    """What a task, or a slot of a log, puts aside. An error that is no BadRowError, such as an outage, passes through
    as it is."""

    most: int  # rows; more are an error
    places: tuple[int | str, ...] = ()  # see WriteTask
    letters: list[pa.RecordBatch] = field(default_factory=list)  # of dead_letters.RECORD
    refused: Counter[str] = field(default_factory=Counter)  # rows, by sink
    digests: Counter[str] = field(default_factory=Counter)  # see Committable.refused_digest, by sink

    def write(self, writer: WritesWhole, sink: str, batch: pa.RecordBatch, place: pa.RecordBatch | None = None) -> None:
        """All rows of the batch but those that the sink refuses. One among n costs about as much as writing thrice.

        `place`: of each row, where its record is (dead_letters.PLACE); None: not known.
        """
        if batch.num_rows == 0:
            return
        try:
            writer.write_atomic(batch)
        except BadRowError as error:
            if batch.num_rows == 1:
                self._reject(sink, batch, error, place)
                return
            half = batch.num_rows // 2
            for start, end in ((0, half), (half, batch.num_rows)):
                places = place.slice(start, end - start) if place is not None else None
                self.write(writer, sink, _copied(batch, start, end), places)

    def place(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Where the records of a task's rows are; None where that is not known."""
        return batch.select(self.places).rename_columns(PLACE) if self.places else None

    def _reject(self, sink: str, row: pa.RecordBatch, error: BadRowError, place: pa.RecordBatch | None) -> None:
        if len(self.letters) == self.most:
            message = f"more than {self.most} dead letters (checkpoint.max_dead_letters); one of them: {error.message}"
            raise TooManyBadRowsError(message, remedy=error.remedy)
        letter = encode_refused_row(sink, row, error.message, place)
        self.letters.append(letter)
        self.refused[sink] += 1
        self.digests[sink] = (self.digests[sink] + _hash(letter)) % 2**64

    def count_refused(self, sink: str, written: Committable) -> Committable:
        """What a task has written to the sink, with what the sink refused of the task's rows."""
        return replace(written, refused=self.refused[sink], refused_digest=self.digests[sink])

    def encode(self) -> bytes | None:
        """What was put aside, for the driver; None if nothing was."""
        if not self.letters:
            return None
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, RECORD) as writer:
            for letter in self.letters:
                writer.write_batch(letter)
        content: bytes = stream.getvalue().to_pybytes()
        return content


_KNOWN_BY = ("topic", "partition", "offset", "value")
"""What a letter has of its row, however the sink words its error."""


def _hash(letter: pa.RecordBatch) -> int:
    """Return a 64-bit hash of the row."""
    text = repr(letter.select(list(_KNOWN_BY)).to_pylist())
    return int.from_bytes(sha256(text.encode()).digest()[:8])


def _copied(batch: pa.RecordBatch, start: int, end: int) -> pa.RecordBatch:
    """Those rows alone: a slice of a list still has its neighbours' values behind it, and with them what is bad."""
    return batch.take(pa.array(range(start, end), pa.int64()))


def decode_dead_letters(letters: bytes) -> pa.Table:
    """The inverse."""
    return pa.ipc.open_stream(letters).read_all()

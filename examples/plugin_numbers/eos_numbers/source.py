"""The numbers up to a bound, as a source of two splits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from eos.errors import OffsetOutOfRangeError
from eos.plugin import Position, SplitSource

_BATCH_ROWS = 10_000


class Numbers(SplitSource):
    """Even and odd numbers. A position in a split counts the records before it."""

    def __init__(self, bound: int) -> None:
        self.bound = bound

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([("n", pa.int64())])

    def splits(self) -> Mapping[str, Position]:
        return {"even": 0, "odd": 0}

    def end(self, split: str, start: Position) -> Position:
        assert isinstance(start, int)
        found = len(self._numbers(split))
        if found < start:
            message = f"split {split} has {found} numbers, and {start} were read"
            raise OffsetOutOfRangeError(message, remedy="restore the bound")
        return found

    def read(self, split: str, start: Position, end: Position) -> Iterator[pa.RecordBatch]:
        assert isinstance(start, int)
        assert isinstance(end, int)
        for first in range(start, end, _BATCH_ROWS):
            numbers = self._numbers(split)[first : min(first + _BATCH_ROWS, end)]
            yield pa.record_batch([pa.array(numbers, pa.int64())], schema=self.schema)

    def _numbers(self, split: str) -> range:
        return range(int(split == "odd"), self.bound, 2)

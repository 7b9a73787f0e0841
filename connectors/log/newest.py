"""Of rows with equal keys the newest one, whichever order they come in. No Python per row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_AT_LEAST: Final = 200_000  # rows; below, nothing is gained by looking for old ones
_ROW: Final = "__row"


class Newest:
    """Memory: about twice as many rows as there are keys. For one thread."""

    def __init__(self, key: Sequence[str], order: Sequence[str]) -> None:
        """`order`: columns by which rows of one key are compared, the first one first; the greatest is the newest."""
        self._key = list(key)
        self._order = list(order)
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self._compact_at = _AT_LEAST

    def add(self, batch: pa.RecordBatch) -> None:
        """Rows that may be newer than others, or older."""
        self._batches.append(batch)
        self._rows += batch.num_rows
        if self._rows >= self._compact_at:
            self._compact()

    def rows(self) -> Sequence[pa.RecordBatch]:
        """One row for each key, with the columns that came."""
        self._compact()
        return self._batches

    def _compact(self) -> None:
        if not self._batches:
            return
        table = pa.Table.from_batches(self._batches)
        newest = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in self._order])
        table = table.take(newest)
        numbered = table.select(self._key).append_column(_ROW, pa.array(range(len(table)), pa.int64()))
        last = numbered.group_by(self._key).aggregate([(_ROW, "max")])[f"{_ROW}_max"]
        self._batches = table.take(last).combine_chunks().to_batches()
        self._rows = sum(batch.num_rows for batch in self._batches)
        self._compact_at = max(_AT_LEAST, 2 * self._rows)

"""Of rows with equal keys the newest one, whichever order they come in. No Python per row."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twophase.errors import BadRowError

Order = Sequence[tuple[str, Literal["ascending", "descending"]]]
"""Columns by which rows of one key are compared, the first one first; what comes last is the newest."""

_AT_LEAST: Final = 200_000  # rows; below, nothing is gained by looking for old ones


class Newest:
    """Memory: about twice as many rows as there are keys. For one thread."""

    def __init__(self, key: Sequence[str], order: Order, origin: str) -> None:
        """`origin`: the column in which rows of one key must be equal; those of two origins do not compare (H16)."""
        self._key = list(key)
        self._order = list(order)
        self._origin = origin
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self._compact_at = _AT_LEAST

    def add(self, batch: pa.RecordBatch) -> None:
        """Rows that may be newer than others, or older. Raises BadRowError for a key of two origins."""
        self._batches.append(batch)
        self._rows += batch.num_rows
        if self._rows >= self._compact_at:
            self._compact()

    def rows(self) -> Sequence[pa.RecordBatch]:
        """One row for each key, with the columns that came. Raises BadRowError for a key of two origins."""
        self._compact()
        return self._batches

    def _compact(self) -> None:
        if not self._batches:
            return
        kept = self._places()
        starts = np.cumsum([0, *(batch.num_rows for batch in self._batches)])
        borders = np.searchsorted(kept, starts)
        shares = zip(self._batches, starts, pairwise(borders), strict=False)
        parts = [batch.take(pa.array(kept[low:high] - start)) for batch, start, (low, high) in shares]
        self._batches = pa.Table.from_batches(parts).combine_chunks().to_batches()
        self._rows = len(kept)
        self._compact_at = max(_AT_LEAST, 2 * self._rows)

    def _places(self) -> np.ndarray:
        """Of the newest rows among all, in their order. Only narrow columns are brought together for it: of all that a
        task has, one column of text may be more than Arrow can hold in one piece."""
        names = [*self._key, *(name for name, _ in self._order), self._origin]
        table = pa.Table.from_batches([batch.select(names) for batch in self._batches])
        order = pc.sort_indices(table, sort_keys=self._order)
        table = table.take(order)
        own = [str(place) for place in range(len(self._key))]  # the table's own names could be like ours
        columns = [*table.select(self._key).columns, table[self._origin], pa.array(np.arange(len(table)))]
        numbered = pa.table(columns, names=[*own, "origin", "row"])
        groups = numbered.group_by(own).aggregate([("row", "max"), ("origin", "min"), ("origin", "max")])
        self._check_origins(groups, own)
        return np.sort(order.to_numpy()[groups["row_max"].to_numpy()].astype(np.int64))

    def _check_origins(self, groups: pa.Table, names: Sequence[str]) -> None:
        mixed = groups.filter(pc.not_equal(groups["origin_min"], groups["origin_max"])).slice(0, 1).to_pylist()
        for found in mixed:
            key = ", ".join(f"{name} {found[place]}" for name, place in zip(self._key, names, strict=True))
            least, greatest = found["origin_min"], found["origin_max"]
            message = f"key {key} comes from partitions {least} and {greatest}, whose offsets do not compare"
            remedy = (
                "send all records of a key to one partition; or select what grows with each change of a key as _offset"
            )
            raise BadRowError(message, remedy=f"{remedy}, and 0 as _partition")

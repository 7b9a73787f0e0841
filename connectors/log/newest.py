"""Of rows with equal keys the newest one, whichever order they come in. No Python per row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eos.errors import BadRowError

Order = Sequence[tuple[str, Literal["ascending", "descending"]]]
"""Columns by which rows of one key are compared, the first one first; what comes last is the newest."""

_AT_LEAST: Final = 200_000  # rows; below, nothing is gained by looking for old ones


class Newest:
    """Memory: about twice as many rows as there are keys. For one thread."""

    def __init__(self, key: Sequence[str], order: Order, origins: Mapping[str, str]) -> None:
        """`origins`: the columns in each of which rows of one key must be equal, since those of two do not compare
        (H16), and what an error calls their values."""
        self._key = list(key)
        self._order = list(order)
        self._origins = dict(origins)
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
        names = [*self._key, *(name for name, _ in self._order), *self._origins]
        table = pa.Table.from_batches([batch.select(names) for batch in self._batches])
        origins = [_Origin.of(words, table[name]) for name, words in self._origins.items()]
        order = pc.sort_indices(table, sort_keys=self._order)
        keys = table.select(self._key).take(order)
        own = [str(place) for place in range(len(self._key))]  # the table's own names could be like ours
        columns = [*keys.columns, pa.array(np.arange(len(table))), *(origin.codes.take(order) for origin in origins)]
        codes = [f"origin {place}" for place in range(len(origins))]
        numbered = pa.table(columns, names=[*own, "row", *codes])
        asked = [("row", "max"), *((code, each) for code in codes for each in ("min", "max"))]
        groups = numbered.group_by(own).aggregate(asked)
        for code, origin in zip(codes, origins, strict=True):
            self._check_origin(groups, own, code, origin)
        return np.sort(order.to_numpy()[groups["row_max"].to_numpy()].astype(np.int64))

    def _check_origin(self, groups: pa.Table, names: Sequence[str], code: str, origin: _Origin) -> None:
        least, greatest = f"{code}_min", f"{code}_max"
        mixed = groups.filter(pc.not_equal(groups[least], groups[greatest])).slice(0, 1).to_pylist()
        for found in mixed:
            key = ", ".join(f"{name} {found[place]}" for name, place in zip(self._key, names, strict=True))
            one, other = sorted(origin.values[found[each]].as_py() for each in (least, greatest))
            message = f"key {key} comes from {origin.words} {one} and {other}, whose offsets do not compare"
            remedy = (
                "send all records of a key to one partition of one topic, for good; where that cannot be, add all rows "
                "with `commit: write-ahead-log`, and let a view say which one counts"
            )
            raise BadRowError(message, remedy=remedy)


@dataclass(frozen=True, slots=True)
class _Origin:
    """Where rows come from, as small numbers: Arrow's groups have no least text."""

    words: str
    values: pa.Array
    codes: pa.Array  # places in `values`

    @classmethod
    def of(cls, words: str, column: pa.ChunkedArray) -> _Origin:
        coded = pc.dictionary_encode(column).combine_chunks()
        return cls(words, coded.dictionary, coded.indices)

"""The rows of a batch whose records decode in several parts, in the order of the records, and its bad records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from connectors.api.decoding import Decoded, Undecodable
from connectors.formats.spans import Ints


class Parts:
    """The rows and the bad records of one column, as they are found."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._rows: list[tuple[Ints, pa.RecordBatch]] = []
        self._bad: dict[int, str] = {}

    def take_tombstones(self, values: pa.Array) -> tuple[pa.Array, Ints]:
        """Return the values that are not null, and their places. A null is a row of nulls, or bad."""
        is_given = values.is_valid().to_numpy(zero_copy_only=False)
        given: Ints = np.flatnonzero(is_given)
        if len(given) == len(values):
            return values, given
        places: Ints = np.flatnonzero(~is_given)
        never_null = [field.name for field in self._schema if not field.nullable]
        if never_null:
            self.reject(places, f"a record without a value, and {never_null[0]} is never null")
        else:
            nulls = [pa.nulls(len(places), field.type) for field in self._schema]
            self._rows.append((places, pa.record_batch(nulls, schema=self._schema)))
        return values.filter(pa.array(is_given)), given

    def reject(self, places: Ints, reason: str) -> None:
        """Add bad records."""
        self._bad |= dict.fromkeys(places.tolist(), reason)

    def add(self, places: Ints, rows: pa.RecordBatch, faults: Mapping[int, str]) -> None:
        """Add the rows of records. `faults`: reasons by the number of the row, whose records are bad."""
        if faults:
            self._bad |= {int(places[at]): reason for at, reason in faults.items()}
            kept = np.ones(len(places), np.bool_)
            kept[list(faults)] = False
            rows, places = rows.filter(pa.array(kept)), places[kept]
        self._rows.append((places, rows))

    def decoded(self, schemas: Mapping[str, str]) -> Decoded:
        """Return all rows in the order of their records."""
        bad = tuple(Undecodable(at, self._bad[at]) for at in sorted(self._bad))
        return Decoded(in_order(self._rows, self._schema), bad, schemas)


def in_order(parts: Sequence[tuple[Ints, pa.RecordBatch]], schema: pa.Schema) -> pa.RecordBatch:
    """Join the rows of several parts in the order of their records. With each part, the places of its records."""
    if len(parts) == 1:
        return parts[0][1]
    table = pa.Table.from_batches([rows for _, rows in parts], schema=schema)
    order = np.argsort(np.concatenate([np.empty(0, np.int64), *(places for places, _ in parts)]), kind="stable")
    batches = table.take(pa.array(order)).combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema)

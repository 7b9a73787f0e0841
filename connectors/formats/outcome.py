"""The outcome of a batch whose records decode in several parts: rows in the records' order, bad and omitted records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.api.decoding import ROW, Decoded, Undecodable
from connectors.formats.spans import Ints


class Outcome:
    """The rows, the bad and the omitted records of one column, as they are found. Each record is in one of them.

    Where the schema has the column ROW, a record may have several rows.
    """

    def __init__(self, schema: pa.Schema, schemas: dict[str, str] | None = None) -> None:
        self.bad: dict[int, str] = {}  # reason by place
        self.schemas = {} if schemas is None else schemas  # see Decoded
        self._schema = schema
        self._rows: list[tuple[Ints, pa.RecordBatch]] = []
        self._omitted: list[Ints] = []

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

    def omit(self, places: Ints) -> None:
        """Add records that describe no row."""
        if len(places):
            self._omitted.append(places)

    def reject(self, places: Ints, reason: str) -> None:
        """Add bad records."""
        self.bad |= dict.fromkeys(places.tolist(), reason)

    def reject_each(self, places: Ints, faults: Mapping[int, str]) -> None:
        """Add bad records among these. `faults`: reasons by their index in `places`."""
        self.bad |= {int(places[at]): reason for at, reason in faults.items()}

    def add(self, places: Ints, rows: pa.RecordBatch, faults: Mapping[int, str]) -> None:
        """Add all rows of records. `faults`: reasons by the number of the row, whose records are bad as a whole."""
        if faults:
            for at, reason in faults.items():
                self.bad.setdefault(int(places[at]), reason)
            kept = ~np.isin(places, places[list(faults)])
            rows, places = rows.filter(pa.array(kept)), places[kept]
        self._rows.append((places, rows))

    def decoded(self) -> Decoded:
        """Return all of it, in the order of the records."""
        bad = tuple(Undecodable(at, self.bad[at]) for at in sorted(self.bad))
        omitted = np.sort(np.concatenate([np.empty(0, np.int64), *self._omitted])).tolist()
        records = None
        if ROW in self._schema.names:
            places = np.concatenate([np.empty(0, np.int64), *(places for places, _ in self._rows)])
            records = pa.array(np.sort(places, kind="stable"), pa.int64())
        return Decoded(in_order(self._rows, self._schema), bad, self.schemas, tuple(omitted), records)


def with_nulls(values: pa.Array, has_value: pa.BooleanArray) -> pa.Array:
    """Return a column with the values, in their order, in the rows that have one, and NULL in the others."""
    places = pc.subtract(pc.cumulative_sum(has_value.cast(pa.int64())), 1)
    return values.take(pc.if_else(has_value, places, pa.scalar(None, pa.int64())))


def in_order(parts: Sequence[tuple[Ints, pa.RecordBatch]], schema: pa.Schema) -> pa.RecordBatch:
    """Join the rows of several parts in the order of their records. With each part, the places of its records."""
    if len(parts) == 1:
        return parts[0][1]
    table = pa.Table.from_batches([rows for _, rows in parts], schema=schema)
    order = np.argsort(np.concatenate([np.empty(0, np.int64), *(places for places, _ in parts)]), kind="stable")
    batches = table.take(pa.array(order)).combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema)

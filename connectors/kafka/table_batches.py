"""Batches of the records of one split: with records that bring their own schemas, one batch for each table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from connectors.api.decoding import TableRows
from connectors.api.table_rows import with_table
from connectors.kafka.columns import METADATA


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of some of the decoded records of a split."""

    rows: pa.RecordBatch
    numbers: NDArray[np.int64]  # of the rows, among all decoded records

    def without(self, numbers: Collection[int]) -> pa.RecordBatch:
        """Return the rows with other numbers."""
        return self.rows.filter(pa.array(~np.isin(self.numbers, list(numbers))))


def table_batches(tables: Sequence[TableRows], places: Sequence[int], metadata: Mapping[str, pa.Array]) -> list[Batch]:
    """Return the rows of each table, with its name and key in the schema, and the metadata columns behind them.

    `places`: of all decoded records, ascending. `metadata`: columns of these records.
    """
    return [_batch(table, np.searchsorted(np.array(places, np.int64), table.places), metadata) for table in tables]


def _batch(table: TableRows, numbers: NDArray[np.int64], metadata: Mapping[str, pa.Array]) -> Batch:
    schema = pa.schema([*table.rows.schema, *(METADATA.field(name) for name in metadata)])
    own = pa.array(numbers)
    columns = [*table.rows.columns, *(column.take(own) for column in metadata.values())]
    return Batch(pa.record_batch(columns, schema=with_table(schema, table.name, table.key)), numbers)

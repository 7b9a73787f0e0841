"""Groups of rows that have something in common, by Arrow's and numpy's own loops."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

LONGEST: Final = 300
"""Characters of the name of a schema, or of a value, that name a table. No table has a longer name, and a regular
expression may take hours for one."""
_VALUES: Final = b"eos.values"

Rows = TypeVar("Rows", pa.Array, pa.RecordBatch)


def by_group(*codes: NDArray[np.int64]) -> Iterator[tuple[tuple[int, ...], NDArray[np.int64]]]:
    """Yield each combination of codes that records have, with the ascending places of these records.

    `codes`: of each record, not negative. Combinations are in the order of their first records.
    """
    joined = np.zeros(len(codes[0]), np.int64)
    for each in codes:
        joined = joined * (int(each.max(initial=0)) + 1) + each
        joined = np.unique(joined, return_inverse=True)[1].astype(np.int64)
    order = np.argsort(joined, kind="stable")
    starts = np.flatnonzero(np.diff(joined[order], prepend=-1))
    groups = sorted(np.split(order, starts[1:]), key=lambda each: int(each[0])) if len(order) else []
    for places in groups:
        yield tuple(int(each[places[0]]) for each in codes), places


def taken(rows: Rows, places: NDArray[np.int64]) -> Rows:
    """Return the rows of a column or a batch at these ascending places; all of them cost nothing."""
    return rows if len(places) == len(rows) else rows.take(pa.array(places))


def values_of(schema: pa.Schema) -> dict[str, str]:
    """Return the values that rows of `rows_by_value` have in common, by column. NULL is missing."""
    found: dict[str, str] = json.loads((schema.metadata or {}).get(_VALUES, b"{}"))
    return found


def can_name_a_table(kind: pa.DataType) -> bool:
    """Return whether values of this type can be in the name of a table."""
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind))


def rows_by_value(rows: pa.RecordBatch, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of each combination of values in these columns. The schema of the rows has the values.

    A column that is missing, or whose type cannot name a table, is as NULL. Long values are cut: they name no table.
    """
    named = [name for name in columns if name in rows.schema.names and can_name_a_table(rows.schema.field(name).type)]
    if not named:
        yield rows
        return
    texts = [pc.utf8_slice_codeunits(rows.column(name).cast(pa.string()), 0, LONGEST + 1) for name in named]
    encoded = [each.dictionary_encode("encode") for each in texts]
    for codes, places in by_group(*(each.indices.to_numpy() for each in encoded)):
        found = [each.dictionary[code].as_py() for each, code in zip(encoded, codes, strict=True)]
        values = {name: value for name, value in zip(named, found, strict=True) if value is not None}
        metadata = {**(rows.schema.metadata or {}), _VALUES: json.dumps(values).encode()}
        yield taken(rows, places).replace_schema_metadata(metadata)

"""Rows that state how a row of a table has changed: their columns, and the checks that each format of changes has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.dead_letters import FIRST_US, LAST_US
from connectors.formats.casting import Faults, add_faults, flags
from connectors.formats.spans import Flags

OP, DELETED, POSITION, SOURCE_TS = "_op", "_deleted", "_position", "_source_ts"
EVENT: Final = pa.schema(
    [
        pa.field(OP, pa.string(), nullable=False),
        pa.field(DELETED, pa.bool_(), nullable=False),
        pa.field(POSITION, pa.string()),
        pa.field(SOURCE_TS, pa.timestamp("us", "UTC")),
    ]
)
"""The columns of an event, behind the columns of its row."""


def null_where(column: pa.Array, chosen: Flags) -> pa.Array:
    """Return the column with null at some places."""
    return pc.if_else(pa.array(chosen), pa.scalar(None, column.type), column)


def without_values(columns: Sequence[pa.Array], count: int) -> Flags:
    """Return which of `count` rows have null in each column."""
    empty = np.ones(count, np.bool_)
    for column in columns:
        empty &= flags(column.is_null())
    return empty


def required(schema: pa.Schema, columns: Sequence[pa.Array], chosen: Flags, faults: Faults) -> None:
    """Add the chosen rows in which a column that is NOT NULL is null to `faults`."""
    for field, column in zip(schema, columns, strict=True):
        if not field.nullable and column.null_count:
            add_faults(faults, flags(column.is_null()) & chosen, f"{field.name} is NOT NULL, and null or absent")


def moments(millis: pa.Array, micros: pa.Array) -> tuple[pa.Array, Flags]:
    """Return the moments of whole numbers since 1970, and which of them are not in the years 1 to 9999.

    Microseconds count before milliseconds. A wrong number is null.
    """
    wrong = pc.or_(pc.less(millis, FIRST_US // 1000 + 1), pc.greater(millis, LAST_US // 1000))
    wrong = pc.or_kleene(wrong, pc.or_(pc.less(micros, FIRST_US), pc.greater(micros, LAST_US)))
    wrong = pc.fill_null(wrong, False)
    if wrong.true_count:
        nothing = pa.scalar(None, pa.int64())
        millis, micros = pc.if_else(wrong, nothing, millis), pc.if_else(wrong, nothing, micros)
    return pc.coalesce(micros, pc.multiply(millis, 1000)).view(pa.timestamp("us", "UTC")), flags(wrong)

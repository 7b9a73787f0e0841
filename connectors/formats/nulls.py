"""Values of some rows as a column of all rows."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def with_nulls(values: pa.Array, has_value: pa.BooleanArray) -> pa.Array:
    """Return a column with the values, in their order, in the rows that have one, and NULL in the others."""
    places = pc.subtract(pc.cumulative_sum(has_value.cast(pa.int64())), 1)
    return values.take(pc.if_else(has_value, places, pa.scalar(None, pa.int64())))

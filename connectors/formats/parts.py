"""Rows of a batch that were decoded in several parts, in the order of their records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Places = NDArray[np.int64]
"""By row of a part, the index of its record in the batch."""


def in_order(parts: Sequence[tuple[Places, pa.RecordBatch]], schema: pa.Schema) -> pa.RecordBatch:
    """Join the rows of several parts in the order of their records."""
    if len(parts) == 1:
        return parts[0][1]
    table = pa.Table.from_batches([rows for _, rows in parts], schema=schema)
    order = np.argsort(np.concatenate([np.empty(0, np.int64), *(places for places, _ in parts)]), kind="stable")
    batches = table.take(pa.array(order)).combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema)

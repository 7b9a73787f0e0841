"""Groups of rows that have something in common, by Arrow's and numpy's own loops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

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

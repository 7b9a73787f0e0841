"""The rows that a run must leave in the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.bench.topic import PARTITIONS


@dataclass(frozen=True, slots=True)
class Expected:
    """All rows, as far as a run is verified."""

    rows: int
    last_ids: Sequence[int]  # the row that the last record of each partition writes
    ids_sum: int
    checksum: int | None = None  # the sum of CRC32 of all rows, as `Table` takes it; None: not verified
    is_changing: bool = False  # rows are seen before their last change


def numbered(rows: int) -> Expected:
    """Return what the records of `topic` become: a row each, with ids from 0."""
    return Expected(rows, range(rows - PARTITIONS, rows), rows * (rows - 1) // 2)

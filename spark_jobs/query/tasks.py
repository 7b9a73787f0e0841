"""How work is shared out to the tasks of a job.

The ranges of a source are divided by their offsets alone, so that it is the same each time. A range whose positions are
not integers is read by one task. Each task has a partition, whose only row is the task's number. What the number stands
for travels with the function.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from twophase.values import OffsetRange


def pieces(whole: OffsetRange, most: int | None) -> Iterator[OffsetRange]:
    """A range in pieces of about equal size, none of them larger than `most`; nothing for an empty range."""
    start, end = whole.start, whole.end
    if not (isinstance(start, int) and isinstance(end, int)):
        return iter(() if whole.is_empty else (whole,))  # only its source could cut it
    count = -(-(end - start) // (most or sys.maxsize))
    cuts = [start + (end - start) * number // max(count, 1) for number in range(count + 1)]
    return (OffsetRange(whole.split, start, end) for start, end in pairwise(cuts))


def shares(ranges: Iterable[OffsetRange], split_above: int | None, join_below: int) -> Iterator[Sequence[OffsetRange]]:
    """What each task reads: a range, a piece of one, or as many small ones as come to `join_below` offsets together."""
    small: list[OffsetRange] = []
    offsets = 0  # of the small ones
    for each in ranges:
        cut = list(pieces(each, split_above))
        size = each.records
        if len(cut) != 1 or size is None or size >= join_below:
            yield from ([piece] for piece in cut)
            continue
        small.append(each)
        offsets += size
        if offsets >= join_below:
            yield small
            small, offsets = [], 0
    if small:
        yield small


def numbers(spark: SparkSession, count: int) -> DataFrame:
    """The numbers from 0, each for a task of the same number. Not yet run."""
    return spark.range(0, count, 1, max(count, 1))


def numbers_in(batches: Iterable[pa.RecordBatch]) -> list[int]:
    """In a task: its own number."""
    return [number for batch in batches for number in batch.column(0).to_pylist()]

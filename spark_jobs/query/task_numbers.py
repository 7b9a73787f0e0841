"""Tasks by number: a partition for each, whose only row is the number. What it stands for travels with the function."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession


def numbers(spark: SparkSession, count: int) -> DataFrame:
    """The numbers from 0, each for a task of the same number. Not yet run."""
    return spark.range(0, count, 1, max(count, 1))


def numbers_in(batches: Iterable[pa.RecordBatch]) -> list[int]:
    """In a task: its own number."""
    return [number for batch in batches for number in batch.column(0).to_pylist()]

"""Schemas and rows of Spark in Arrow, alike in each version of PySpark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas import types
from pyspark.sql.types import StructType

from spark_jobs.session.versions import at_least


def to_arrow(schema: StructType) -> pa.Schema:
    """Return the schema in which Spark hands out rows: timestamps are in UTC."""
    convert: Any = types.to_arrow_schema
    return convert(schema, timezone="UTC") if at_least(4, 2) else convert(schema)  # which means UTC before 4.2


def from_arrow(schema: pa.Schema) -> StructType:
    """Return the schema of Spark. A timestamp without a time zone stays one, which is Spark's default from 4.2 on."""
    return types.from_arrow_schema(schema, prefer_timestamp_ntz=True)


def collected(frame: DataFrame) -> pa.Table:
    """Return the rows of a frame. Blocks until its job has ended."""
    if at_least(4, 0):
        return frame.toArrow()
    rows: Any = frame
    schema = to_arrow(frame.schema)
    return pa.Table.from_batches(rows._collect_as_arrow() or [], schema)

"""Marks: rows by which a source counts the bad records that it leaves out, without a job of its own.

A source that rejects records, or leaves them out, ends each range that it reads with one more row, a *mark*. A hidden
column of the mark says how many records were bad. Spark counts the marks while the rows pass and drops them, so no step
sees one. The count arrives with the results of the successful tasks, before the job is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import DataFrame, functions

from connectors.api.contracts import Source
from twophase.values import OffsetRange

_ASIDE: Final = "_eos_aside"
"""Hidden column of what such a source gives: NULL in a record's row; in a mark, how many were put aside."""


def counts_bad(source: Source) -> bool:
    """Whether bad records of this source are no error, and so are to be counted."""
    return source.rejects_bad_records or source.skips_bad_records


def with_mark(schema: pa.Schema) -> pa.Schema:
    """What Spark is told of a source whose bad records are counted."""
    return schema.append(pa.field(_ASIDE, pa.int64()))


def read_and_mark(source: Source, ranges: Sequence[OffsetRange]) -> Iterator[pa.RecordBatch]:
    """In a task: the records of its ranges, and then its mark."""
    aside = 0

    def on_bad_records(count: int) -> None:
        nonlocal aside
        aside += count

    schema = with_mark(source.schema)
    for batch in source.read(ranges, on_bad_records):
        yield pa.record_batch([*batch.columns, pa.nulls(batch.num_rows, pa.int64())], schema=schema)
    nothing = [_nothing(field) for field in source.schema]
    yield pa.record_batch([*nothing, pa.array([aside], pa.int64())], schema=schema)


def _nothing(field: pa.Field) -> pa.Array:
    """One value; Spark looks for one even in a row that is dropped, where a column is NOT NULL."""
    return pa.array([None if field.nullable else _zero(field.type)], field.type)


def _zero(kind: pa.DataType) -> Any:
    if pt.is_struct(kind):
        return {child.name: None if child.nullable else _zero(child.type) for child in kind}
    zeros: Mapping[Callable[[pa.DataType], bool], Any] = {
        pt.is_boolean: False,
        pt.is_string: "",
        pt.is_binary: b"",
        pt.is_decimal: Decimal(0),
        pt.is_date: date(1970, 1, 1),
        pt.is_timestamp: datetime(1970, 1, 1),
        pt.is_list: [],
    }
    return next((zero for test, zero in zeros.items() if test(kind)), 0)


def counting(source: Source, frame: DataFrame) -> DataFrame:
    """The records of a source as the steps get them. Spark moves no filter of theirs before the count."""
    aside = functions.col(_ASIDE)
    counts = functions.count(aside).alias("marks"), functions.sum(aside).alias("aside")
    return frame.observe(observation(source), *counts).where(aside.isNull()).drop(_ASIDE)


def observation(source: Source) -> str:
    """Return the name under which Spark reports the counts of this source."""
    return f"eos_{source.name}"

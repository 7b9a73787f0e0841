"""Builds the streaming query that a spec describes: source, steps, and the columns that the sink takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from connectors.contracts import Sink, Source
from connectors.spec import PythonStep, Spec, SqlStep, TransformStep
from spark_jobs.columns import check_hashable, quoted
from spark_jobs.plan import is_stateful, streaming_leaves, used_columns
from spark_jobs.python_step import call_step
from spark_jobs.source import data_source, format_name
from twophase.errors import SpecError
from twophase.values import StartingPoint


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A built query, not yet started."""

    rows: DataFrame  # what the sink's writers get, in the sink's column order
    sink: Sink  # opened: compared with its target
    stateful: bool
    output_mode: str


Began = Mapping[str, StartingPoint]
"""Source -> where it began."""


def build(spark: SparkSession, spec: Spec, sources: Sequence[Source], sink: Sink, began: Began) -> Pipeline:
    """Build the query. Called at every start of it; asks the sink's service for the target.

    Built twice: the first time with every column of the sources, to see which ones are used; then with only those.

    Raises SpecError for a step that Spark does not accept, TargetError where the rows do not fit the target.
    """
    frame = _frame(spark, spec, sources, began)
    opened = sink.open(to_arrow_schema(frame.schema, timezone="UTC"))
    selected = frame.select(*[quoted(name) for name in opened.columns])
    _check_read_once(selected, sources)
    narrow = [source.select(used_columns(spark, selected, source.schema.names)) for source in sources]
    if narrow != list(sources):
        try:
            selected = _frame(spark, spec, narrow, began).select(*[quoted(name) for name in opened.columns])
        except (SpecError, AnalysisException):  # a step names a column that it then drops: read all of them
            selected = _frame(spark, spec, sources, began).select(*[quoted(name) for name in opened.columns])
    stateful = is_stateful(selected)
    if stateful:
        check_hashable(selected)
        _check_order(spec)
    return Pipeline(selected, opened, stateful, output_mode(spec))


def output_mode(spec: Spec) -> str:
    """Spark's, for the whole query."""
    return "update" if any(step.output_mode == "update" for step in spec.transforms) else "append"


def _check_order(spec: Spec) -> None:
    """H22: several tasks read one partition in no order, and state that depends on it would differ when run again."""
    sorts = any(isinstance(step, PythonStep) and step.sorts_by_offset for step in spec.transforms)
    for index, entry in enumerate(spec.sources):
        if entry.split_above is not None and not sorts:
            message = f"sources[{index}].split_above: the records of a partition reach a stateful step in no order"
            remedy = (
                "remove it; or sort by _partition and _offset in the step, which says so by `sorts_by_offset: true`"
            )
            raise SpecError(message, remedy=remedy)


def _check_read_once(frame: DataFrame, sources: Sequence[Source]) -> None:
    """Spark would read a source that stands twice in a query twice, each with positions of its own."""
    leaves = streaming_leaves(frame)
    for index, source in enumerate(sources):
        times = leaves.count(format_name(source))
        if times != 1:
            message = f"sources[{index}] ({source.name}): the steps read it {times} times"
            remedy = (
                "remove it" if times == 0 else "read it once; or give it a second entry in sources, with another name"
            )
            raise SpecError(message, remedy=remedy)


def rows_schema(spark: SparkSession, spec: Spec, sources: Sequence[Source]) -> pa.Schema:
    """The schema of the rows that reach the sink, without asking any service. Raises SpecError for a wrong step."""
    return to_arrow_schema(query_rows(spark, spec, sources, {}).schema, timezone="UTC")


def query_rows(spark: SparkSession, spec: Spec, sources: Sequence[Source], began: Began) -> DataFrame:
    """The rows as they leave the steps, with every column. Asks no sink. Raises SpecError."""
    frame = _frame(spark, spec, sources, began)
    _check_read_once(frame, sources)
    return frame


def _frame(spark: SparkSession, spec: Spec, sources: Sequence[Source], began: Began) -> DataFrame:
    frames: dict[str, DataFrame] = {}
    for source in sources:
        cap = spec.checkpoint.max_records_per_checkpoint
        share = max(cap // len(sources), 1) if cap is not None else None
        schema = from_arrow_schema(source.schema)
        spark.dataSource.register(data_source(source, schema, began.get(source.name, StartingPoint()), share))
        frames[source.name] = spark.readStream.format(format_name(source)).load()
        frames[source.name].createOrReplaceTempView(source.name)
    for index, step in enumerate(spec.transforms):
        try:
            frame = _step(spark, spec, step, frames)
            if step.watermark is not None:
                frame = frame.withWatermark(step.watermark.column, f"{step.watermark.delay_s} seconds")
        except (AnalysisException, ParseException) as error:
            message = f"transforms[{index}] ({step.name}): {_first_line(error)}"
            raise SpecError(message, remedy="see the steps before it for the columns there are") from error
        frame.createOrReplaceTempView(step.name)
        frames[step.name] = frame
    last = spec.sinks[0].from_
    assert last is not None  # a spec with sources says so
    return frames[last]


def _step(spark: SparkSession, spec: Spec, step: TransformStep, frames: Mapping[str, DataFrame]) -> DataFrame:
    if isinstance(step, SqlStep):
        return spark.sql(step.sql)
    assert isinstance(step, PythonStep)
    return call_step(step, spec.folder, frames)


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)

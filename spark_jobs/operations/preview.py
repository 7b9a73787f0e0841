"""The first rows of a pipeline as they would be written, from a query that writes nothing anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from connectors.registry import build_sink, build_source
from connectors.spark_types import quoted
from connectors.spec import SinkEntry, Spec
from spark_jobs.operations.new_start import Wanted, resolve
from spark_jobs.operations.table_preview import readable
from spark_jobs.query.pacing.turns import AlwaysDue
from spark_jobs.run.pipeline import output_mode, sink_rows
from spark_jobs.session.arrow import to_arrow
from spark_jobs.session.failures import translate
from twophase.values import StartingPoint

_BATCH_RECORDS: Final = 1_000
_BATCHES: Final = 20
"""A step may let few records through; it is not looked for longer than that."""


class _EnoughError(Exception):
    """Ends the query from inside, when there are rows enough. Never seen outside."""


@dataclass(slots=True)
class Preview:
    """What was found."""

    schema: StructType  # of the rows, in the order of the sink's columns
    rows: list[Mapping[str, object]] = field(default_factory=list)
    batches: int = 0
    is_empty: bool = False  # there was no record to read

    @property
    def columns(self) -> Sequence[tuple[str, str]]:
        """Names and types of the columns."""
        return [(field.name, field.dataType.simpleString()) for field in self.schema.fields]


def preview(
    spec: Spec, spark: SparkSession, sink: str, count: int, wanted: Wanted | None, *, with_sink: bool
) -> Preview:
    """Run the query over the first records, without claim, head, permits or commits.

    Args:
        spec: with a checkpoint location that is for this look alone, see `scratch_session`.
        spark: a session for it.
        sink: whose rows to show, by name.
        count: rows to show at most.
        wanted: where to begin; None: at `starting_offsets`.
        with_sink: compare with the targets, as a run does; else the rows are shown as they leave the steps.

    Raises SpecError, TargetError and the sources' errors, as a run would.
    """
    sources = [build_source(entry) for entry in spec.sources]
    if wanted is None:
        began = {source.name: source.starting_point(StartingPoint()) for source in sources}
    else:
        began, _ = resolve(spec, wanted, None)
    rows = sink_rows(spark, spec, sources, began, AlwaysDue(_BATCH_RECORDS // len(sources)))[sink]
    if with_sink:
        columns = build_sink(spec, _entry(spec, sink)).dry_run(to_arrow(rows.schema))
        rows = rows.select(*map(quoted, columns))
    found = Preview(rows.schema)
    _run(spec, rows, found, count)
    return found


def _entry(spec: Spec, sink: str) -> SinkEntry:
    return next(entry for entry in spec.sinks if entry.name == sink)


def _run(spec: Spec, rows: DataFrame, found: Preview, count: int) -> None:
    failures: list[BaseException] = []

    def on_batch(frame: DataFrame, _batch_id: int) -> None:
        try:
            table = frame.toArrow()  # whole: a task that is cut short would leave its state behind
            found.rows += readable(table.slice(0, count - len(found.rows))).to_pylist()
            found.batches += 1
            if len(found.rows) >= count or found.batches >= _BATCHES:
                raise _EnoughError
        except BaseException as error:  # kept as it is: Spark passes on nothing but its text
            failures.append(error)
            raise

    writer = (
        rows.writeStream.foreachBatch(on_batch)
        .outputMode(output_mode(spec))
        .option("checkpointLocation", f"file://{spec.checkpoint.folder / 'preview'}")
        .trigger(availableNow=True)
    )
    try:
        query = writer.start()
        try:
            query.awaitTermination()
        finally:
            query.stop()
        found.is_empty = not any(progress.numInputRows for progress in query.recentProgress)
    except (PySparkException, Py4JError, ConnectionError) as error:
        if not failures or not isinstance(failures[0], _EnoughError):
            raise translate(failures[0] if failures else error, "the preview") from error

"""A trial of a query that has read nothing: the state of its operators, empty, as Spark writes it.

Spark has no operation that adds an operator to the state of a query. A query that has no state yet writes an empty one
with its first batch, in each partition and each store. `spark_rewriting` places it beside the state that there is.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from connectors.spec.spec import CHANGELOG
from eos.errors import SavepointError
from spark_jobs.session.failures import translate
from spark_jobs.session.locked_dirs import temporary_at
from twophase import faults


@contextmanager
def trial_of(
    spark: SparkSession, rows: DataFrame, output_mode: str, offsets: str, metadata: Path, location: Path
) -> Iterator[Path]:
    """Run batch 0 of a query over no records; yield Spark's folder of it.

    Reads no source, and writes to no sink. Takes some seconds.

    Args:
        spark: a session that runs no other query.
        rows: of the query.
        output_mode: of the query.
        offsets: content of an `offsets/N`, whose settings hold: among them the number of partitions of the state.
        metadata: Spark's file with the id of the query.
        location: a checkpoint location.

    Raises PrepareError or SpecError where Spark refuses the query, SavepointError where the folder cannot be written.
    """
    try:
        with temporary_at(location, "trial") as folder:
            (folder / "offsets").mkdir()
            (folder / "offsets" / "0").write_text(without_records(offsets))
            shutil.copy(metadata, folder / "metadata")
            _run(spark, rows, output_mode, folder)
            faults.point("trial-run")
            yield folder
    except OSError as error:
        message = f"a trial of the new steps cannot be written: {error.filename}: {error.strerror}"
        raise SavepointError(message, remedy="see that there is room at the checkpoint location") from error


def without_records(offsets: str) -> str:
    """Return the `offsets/0` of a query with these settings and sources, none of which has a record."""
    version, settings, *sources = offsets.split("\n")
    return "\n".join([version, settings, *("-" for _ in sources)])


@contextmanager
def as_snapshots(spark: SparkSession) -> Iterator[None]:
    """Have queries that start in this block store state as snapshots, without changelogs."""
    before = str(spark.conf.get(CHANGELOG))
    spark.conf.set(CHANGELOG, "false")
    try:
        yield
    finally:
        spark.conf.set(CHANGELOG, before)


def _run(spark: SparkSession, rows: DataFrame, output_mode: str, folder: Path) -> None:
    writer = rows.writeStream.format("noop").outputMode(output_mode).option("checkpointLocation", f"file://{folder}")
    try:
        with as_snapshots(spark):
            query = writer.trigger(once=True).start()  # the batch that is planned, and no other
            try:
                query.awaitTermination()
            finally:
                query.stop()
    except (PySparkException, Py4JError) as error:
        raise translate(error, "a trial of the new steps") from error

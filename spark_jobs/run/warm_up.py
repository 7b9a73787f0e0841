"""A standby loads modules, builds its query and uses Python workers while it waits, for a fast start in its turn."""

from __future__ import annotations

import importlib
import logging
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from connectors.registry import build_sink, build_source, task_modules
from connectors.spec import Spec
from eos.errors import ConnectorError
from spark_jobs.run.pipeline import root_rows
from spark_jobs.session.failures import translate
from spark_jobs.session.master import is_local
from spark_jobs.session.worker_daemon import OF_ALL

_log: Final = logging.getLogger("eos.runner")

_SETTLE_S: Final = 0.5
"""A standby whose turn comes within this time builds its query only once."""
_USE_EVERY_S: Final = 20.0

_one_at_a_time: Final = threading.Lock()
"""Each build starts Python processes, for which Spark waits ten seconds only."""


def warm_up(spark: SparkSession, specs: Sequence[Spec]) -> None:
    """Run a small query, so the first checkpoint finds Python's workers and Spark's classes loaded.

    Blocks for seconds. Called once, by a standby, which waits anyway. Raises Spark's errors.
    """
    load = _loader(specs)
    load(iter(()))  # this process recovers the sinks

    def on_batch(frame: DataFrame, _number: int) -> None:
        frame.mapInArrow(load, frame.schema).collect()

    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", spark.sparkContext.defaultParallelism)
    with tempfile.TemporaryDirectory(prefix="eos-") as folder:
        writer = rows.load().writeStream.foreachBatch(on_batch).option("checkpointLocation", f"file://{folder}")
        writer.trigger(availableNow=True).start().awaitTermination()


@contextmanager
def kept_warm(spark: SparkSession, spec: Spec) -> Iterator[None]:
    """Build the query of a pipeline in a thread, and use a cluster's Python workers as long as the block runs.

    Spark ends a worker that is idle for a minute. On one machine it forks them from a process that has loaded
    everything. Failures are warnings: they may be over in its turn.
    """
    over = threading.Event()
    threading.Thread(target=_work, args=(spark, spec, over), name=f"{spec.pipeline} standby", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _work(spark: SparkSession, spec: Spec, over: threading.Event) -> None:
    wait_s, work = _SETTLE_S, _build
    while not over.wait(wait_s):
        try:
            with _one_at_a_time:
                if not over.is_set():
                    work(spark, spec)
        except (ConnectorError, PySparkException, Py4JError, ConnectionError) as error:
            if not over.is_set():  # else Spark may be stopping
                shown = translate(error, "building the query").message
                _log.warning("the standby of %s could not start its query now: %s", spec.pipeline, shown)
        if is_local(spec.spark.master):
            return
        wait_s, work = _USE_EVERY_S, _use


def _build(spark: SparkSession, spec: Spec) -> None:
    """Build sinks and query in a session of its own, and forget the tables that it has read."""
    for entry in spec.outputs:
        build_sink(spec, entry)
    session = spark.newSession()
    try:
        root_rows(session, spec, [build_source(entry) for entry in spec.sources])
    finally:
        session.catalog.clearCache()
    _log.info("the standby of %s has built its query", spec.pipeline)


def _use(spark: SparkSession, spec: Spec) -> None:
    cores = spark.sparkContext.defaultParallelism
    rows = spark.range(cores, numPartitions=cores)
    rows.mapInArrow(_loader([spec]), rows.schema).collect()


def _loader(specs: Sequence[Spec]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function that loads, on a worker, the modules of their tasks."""
    modules = [*OF_ALL, *sorted({module for spec in specs for module in task_modules(spec)})]

    def load(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for module in modules:
            importlib.import_module(module)
        return batches

    return load

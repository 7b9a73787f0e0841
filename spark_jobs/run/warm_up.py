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
from spark_jobs.session.master import is_local
from spark_jobs.session.worker_daemon import OF_ALL

_log: Final = logging.getLogger("eos.runner")

_USE_EVERY_S: Final = 20.0


def warm_up(spark: SparkSession, specs: Sequence[Spec]) -> None:
    """Build each query as its start will, and run a small one: modules and Spark's classes are loaded then.

    Blocks for seconds. Called once, by a standby, which waits anyway. Raises Spark's errors.
    """
    load = _loader(specs)
    load(iter(()))  # this process recovers the sinks
    for spec in specs:
        _build(spark, spec)

    def on_batch(frame: DataFrame, _number: int) -> None:
        frame.mapInArrow(load, frame.schema).collect()

    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", spark.sparkContext.defaultParallelism)
    with tempfile.TemporaryDirectory(prefix="eos-") as folder:
        writer = rows.load().writeStream.foreachBatch(on_batch).option("checkpointLocation", f"file://{folder}")
        writer.trigger(availableNow=True).start().awaitTermination()


def _build(spark: SparkSession, spec: Spec) -> None:
    """Build sinks and query. Warns if this is not possible: it may be once the standby has its turn."""
    try:
        for entry in spec.outputs:
            build_sink(spec, entry)
        root_rows(spark, spec, [build_source(entry) for entry in spec.sources])
    except (ConnectorError, PySparkException) as error:
        _log.warning("the standby of %s could not start its query now: %s", spec.pipeline, error)


@contextmanager
def kept_warm(spark: SparkSession, spec: Spec) -> Iterator[None]:
    """Use the cluster's Python workers as long as the block runs, since Spark ends each that is idle for a minute.

    Without a cluster there is nothing to keep: Spark forks workers from a process that has loaded everything.
    """
    if is_local(spec.spark.master):
        yield
        return
    load, over = _loader([spec]), threading.Event()

    def use() -> None:
        while not over.wait(_USE_EVERY_S):
            cores = spark.sparkContext.defaultParallelism
            rows = spark.range(cores, numPartitions=cores)
            try:
                rows.mapInArrow(load, rows.schema).collect()
            except (PySparkException, Py4JError) as error:
                _log.warning("the standby of %s cannot keep Python's workers: %s", spec.pipeline, error)

    threading.Thread(target=use, name=f"{spec.pipeline} standby", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _loader(specs: Sequence[Spec]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function that loads, on a worker, what the tasks of these need."""
    modules = [*OF_ALL, *sorted({module for spec in specs for module in task_modules(spec)})]

    def load(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for module in modules:
            importlib.import_module(module)
        return batches

    return load

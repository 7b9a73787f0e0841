"""A driver that waits until no other driver runs the pipeline, with Spark already started.

A standby sends a request to the running driver each second, through the requests beside head, which any machine sees.
It begins if no answer arrives for `SILENCE_S`, or if the process of a driver on this machine has ended. This decides
only when to begin: head keeps two drivers apart (R1). If the other driver was only slow, it is fenced.
"""

from __future__ import annotations

import importlib
import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from connectors.registry import build_sink, build_source, open_requests, task_modules
from connectors.spec import Spec
from eos.errors import HeadError
from spark_jobs.observe.run_lock import RunLock, running
from spark_jobs.run.control import pause
from spark_jobs.run.pipeline import root_rows
from spark_jobs.session.master import is_local
from spark_jobs.session.worker_daemon import OF_ALL
from twophase.requests import ALIVE, Channel

_log: Final = logging.getLogger("eos.runner")

SILENCE_S: Final = 5.0
"""The time for which a driver that has answered before may give no answer."""

_EVERY_S: Final = 1.0
_EXPIRES_S: Final = 600.0
"""By the clock of the driver's machine, which may differ by this. The standby withdraws the request long before."""
_USE_EVERY_S: Final = 20.0
_POLL_S: Final = 0.1
_POLLS: Final = 3
"""A driver that has not answered yet may miss so many polls. After the first request it polls each second."""


def await_turn(spec: Spec, is_stopping: Callable[[], bool], on_state: Callable[[str], None]) -> bool:
    """Block until no driver runs the pipeline. False: this process is stopping, or a request stopped the pipeline.

    Called in a thread of the pipeline, before each run. Waits while head does not answer, since no driver can start.
    """
    with open_requests(spec) as channel:
        stopped, was_heard, last = _stopped(channel), False, ""
        while not is_stopping():
            lock = _running(spec)
            if lock is None and not spec.checkpoint.is_shared:
                return True
            wait_s = SILENCE_S if was_heard else SILENCE_S + _POLLS * channel.blobs.poll_interval_s
            state = f"standby for {_named(lock)}"
            if state != last:
                on_state(state)
                last = state
            heard = _is_heard(spec, channel, lock, wait_s, is_stopping)
            if heard is not None:
                was_heard = was_heard or heard
                newest = _stopped(channel)
                if stopped is not None and newest not in (None, stopped):
                    _log.info("the pipeline was stopped by a request, and its standby ends")
                    return False
                stopped = newest if stopped is None else stopped
                if not heard:
                    return not is_stopping()
            pause(_EVERY_S, is_stopping)
    return False


def _is_heard(
    spec: Spec, channel: Channel, lock: RunLock | None, wait_s: float, is_stopping: Callable[[], bool]
) -> bool | None:
    """Whether a driver answers in time; None: unknown, since head does not answer."""
    until_s = time.monotonic() + wait_s
    try:
        request = channel.ask(ALIVE, {}, asked_by="a standby", patience_s=_EXPIRES_S)
        while time.monotonic() < until_s and not is_stopping():
            if channel.answer_of(request) is not None:
                channel.forget(request)
                return True
            if lock is not None and _running(spec) is None:  # its process has ended
                break
            time.sleep(max(_POLL_S, channel.blobs.poll_interval_s / 5))
        answer = channel.withdraw(request)
        channel.forget(request)
        return answer is not None
    except HeadError as error:
        _log.warning("the standby cannot look for the running driver: %s", error.message)
        return None


def _stopped(channel: Channel) -> str | None:
    """Return the name of the newest request that has stopped the pipeline; None: head does not answer."""
    try:
        return channel.stopped()
    except HeadError:
        return None


def _running(spec: Spec) -> RunLock | None:
    try:
        return running(spec)
    except HeadError:
        return None


def _named(lock: RunLock | None) -> str:
    return f"process {lock.pid} at {lock.host}" if lock is not None else "a driver on another machine"


def warm_up(spark: SparkSession, specs: Sequence[Spec]) -> None:
    """Build each query as its start will, and run a small one: modules and Spark's classes are loaded then.

    Blocks for seconds. Called once, by a standby, which waits anyway. Raises ConnectorError as the build of the query
    does, and Spark's errors.
    """
    load = _loader(specs)
    load(iter(()))  # this process recovers the sinks
    for spec in specs:
        for entry in spec.outputs:
            build_sink(spec, entry)
        root_rows(spark, spec, [build_source(entry) for entry in spec.sources])

    def on_batch(frame: DataFrame, _number: int) -> None:
        frame.mapInArrow(load, frame.schema).collect()

    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", spark.sparkContext.defaultParallelism)
    with tempfile.TemporaryDirectory(prefix="eos-") as folder:
        writer = rows.load().writeStream.foreachBatch(on_batch).option("checkpointLocation", f"file://{folder}")
        writer.trigger(availableNow=True).start().awaitTermination()


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

"""Runs a pipeline: one epoch after another until it has caught up, is stopped, or cannot be cured by a restart."""

from __future__ import annotations

import json
import logging
import random
import secrets
import string
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from connectors.contracts import Sink, Source
from connectors.registry import build_sink, build_source, open_head
from connectors.spec import Spec
from spark_jobs.batch import SparkBatch
from spark_jobs.failures import translate
from spark_jobs.pipeline import Pipeline, build
from spark_jobs.report import CheckpointReport, Listener
from spark_jobs.spark_log import LocalSparkLog, planned_ends
from twophase.driver import Driver
from twophase.errors import ConnectorError
from twophase.ids import INCARNATION_LENGTH
from twophase.messages import Begin

_log = logging.getLogger("eos.runner")

_POLL_S = 0.2


class StopRequested(Exception):
    """Raised inside `foreachBatch` to end the query before the next checkpoint begins. Never seen outside."""


@dataclass(slots=True)
class Runner:
    """One `eos run`. `run` belongs to one thread; `stop` may be called from any, also from a signal handler."""

    spec: Spec
    spark: SparkSession
    listeners: Sequence[Listener]
    until_caught_up: bool = False
    _stopping: threading.Event = field(default_factory=threading.Event, init=False)
    _running: SparkBatch | None = field(default=None, init=False)  # the batch whose job may run now
    _idle: threading.Event = field(default_factory=threading.Event, init=False)  # no checkpoint is under way

    def run(self) -> None:
        """Block until the pipeline ends. Raises the ConnectorError that no restart cures, or that used up the strategy."""
        strategy = self.spec.restart.strategy()
        source = build_source(self.spec.sources[0])
        sink = build_sink(self.spec, self.spec.sinks[0])
        while not self._stopping.is_set():
            try:
                self._run_epoch(source, sink)
                return
            except ConnectorError as error:
                delay_s = strategy.next_delay_s(time.monotonic(), random.random()) if error.retriable else None  # noqa: S311
                if self._stopping.is_set():
                    _log.info("stopped; the running checkpoint was aborted: %s", self.spec.mask(error.message))
                    return
                if delay_s is None:
                    raise
                _log.warning("%s; restarting in %.1f s", self.spec.mask(error.message), delay_s)
                self._tell_state(f"restarting in {delay_s:.1f} s")
                self._stopping.wait(delay_s)

    def stop(self, reason: str, *, at_once: bool = False) -> None:
        """End after the running checkpoint, or abort it `at_once`. Returns immediately."""
        self._stopping.set()
        running = self._running
        if at_once and running is not None:
            running.cancel(reason)

    def _run_epoch(self, source: Source, sink: Sink) -> None:
        self._tell_state("starting")
        log = LocalSparkLog(self.spec.checkpoint.location)
        head = open_head(self.spec)
        committer = sink.committer(self.spec.pipeline)
        driver = Driver(
            pipeline=self.spec.pipeline,
            head=head,
            committers={sink.name: committer},
            spark=log,
            session=secrets.token_hex(8),
            incarnation=new_incarnation(),
            retained=self.spec.checkpoint.retained,
            commit_back=lambda positions: source.commit_back(positions.get(source.name, {})),
        )
        try:
            owned = driver.start()
            if source.name not in owned.initial:
                driver.store_positions(source.name, source.initial_positions())
            initial = driver.owned.initial[source.name]
            pipeline = build(self.spark, self.spec, source, sink, initial)
            _Epoch(self, driver, log, pipeline).run()
        finally:
            committer.close()
            head.close()

    def _tell_state(self, text: str) -> None:
        for listener in self.listeners:
            listener.state(text)


@dataclass(slots=True)
class _Epoch:
    """One query, from its start to its end, under one epoch."""

    runner: Runner
    driver: Driver
    log: LocalSparkLog
    pipeline: Pipeline
    failure: BaseException | None = None
    query: StreamingQuery | None = None

    def run(self) -> None:
        self.runner._idle.set()
        self.runner._tell_state("running")
        self.query = self._start()
        try:
            while not self.query.awaitTermination(_POLL_S):  # type: ignore[arg-type]  # fractions are fine
                if self.runner._stopping.is_set():
                    self.runner._tell_state("stopping")
                    self.runner._idle.wait()
                    self.query.stop()
                    return
        except PySparkException as error:
            if isinstance(self.failure, StopRequested):
                return
            if self.failure is not None:
                raise self.failure from None
            raise translate(error, "the query") from error
        if self.failure is not None and not isinstance(self.failure, StopRequested):
            raise self.failure

    def _start(self) -> StreamingQuery:
        spec, incarnation = self.runner.spec, self.driver.owned.incarnation
        writer = (
            self.pipeline.rows.writeStream.foreachBatch(self._on_batch)
            .outputMode(self.pipeline.output_mode)
            .queryName(f"eos {spec.pipeline}")
            .option("checkpointLocation", self.log.folder(incarnation).as_uri())
        )
        if self.runner.until_caught_up:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{round(spec.checkpoint.interval_s * 1000)} milliseconds")
        try:
            return writer.start()
        except PySparkException as error:
            raise translate(error, "the start of the query") from error

    def _on_batch(self, frame: DataFrame, checkpoint_id: int) -> None:
        """Spark's thread. Returning lets Spark write `commits/N`."""
        self.runner._idle.clear()
        try:
            if self.runner._stopping.is_set():
                raise StopRequested
            self._checkpoint(frame, checkpoint_id)
        except BaseException as error:
            self.failure = error
            raise
        finally:
            self.runner._running = None
            self.runner._idle.set()

    def _checkpoint(self, frame: DataFrame, checkpoint_id: int) -> None:
        incarnation = self.driver.owned.incarnation
        query_id = self.log.query_id(incarnation)
        assert query_id is not None  # Spark writes it before the first batch
        self.driver.set_query(query_id)
        offsets_log = self.log.offsets_log(incarnation, checkpoint_id)
        source = self.runner.spec.sources[0].name
        begin = Begin(checkpoint_id, planned_ends(offsets_log, [source]), offsets_log, time.time())
        replayed = checkpoint_id <= self.driver.owned.completed
        batch = SparkBatch(frame, checkpoint_id, self.pipeline, self.runner.spec.checkpoint.timeout_s)
        self.runner._running = batch
        before = time.monotonic()
        record = self.driver.checkpoint(begin, batch)
        report = CheckpointReport(
            record=record,
            epoch=self.driver.owned.epoch,
            replayed=replayed,
            duration_s=time.monotonic() - before,
            durations_s=dict(self.driver.durations_s),
            lag=self._lag(source),
        )
        for listener in self.runner.listeners:
            listener.checkpoint(report)

    def _lag(self, source: str) -> int | None:
        """Records that were there when the last batch was planned and are not completed. From Spark's own progress."""
        progress = self.query.lastProgress if self.query is not None else None
        latest: Mapping[str, int] | None = None
        if progress is not None and progress.sources and progress.sources[0].latestOffset:
            latest = _offsets(progress.sources[0].latestOffset)
        if latest is None:
            return None
        head = self.driver.owned
        return sum(max(end - head.position(source, split), 0) for split, end in latest.items())


def _offsets(text: str) -> Mapping[str, int] | None:
    value = json.loads(text)
    return value if isinstance(value, dict) else None


def new_incarnation() -> str:
    """A random incarnation: lower-case letters and digits, about 100 bits."""
    return "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(INCARNATION_LENGTH))

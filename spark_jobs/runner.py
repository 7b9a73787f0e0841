"""Runs a pipeline: one epoch after another until it has caught up, is stopped, or cannot be cured by a restart."""

from __future__ import annotations

import json
import logging
import random
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from connectors.contracts import Sink, Source
from connectors.registry import build_sink, build_source, open_head
from connectors.spec import Spec
from spark_jobs.batch import SparkBatch
from spark_jobs.control import StopControl, StopRequestedError
from spark_jobs.failures import translate
from spark_jobs.incarnation import new_incarnation
from spark_jobs.pipeline import Pipeline, build
from spark_jobs.report import CheckpointReport, Listener
from spark_jobs.spark_log import LocalSparkLog, planned
from twophase.driver import Driver
from twophase.errors import ConnectorError, IdentityError, PrepareError
from twophase.head_value import HeadValue
from twophase.messages import Begin
from twophase.values import StartingPoint

_log = logging.getLogger("eos.runner")

_POLL_S = 0.2


@dataclass(slots=True)
class Runner:
    """One `eos run`. `run` belongs to one thread; `control` may be used from any, also from a signal handler."""

    spec: Spec
    spark: SparkSession
    listeners: Sequence[Listener]
    until_caught_up: bool = False
    control: StopControl = field(default_factory=StopControl)
    _run_id: str = field(default_factory=lambda: secrets.token_hex(8), init=False)
    _epochs: int = field(default=0, init=False)  # that this run has started
    _held: HeadValue | None = field(default=None, init=False)  # head as the newest epoch of this run held it

    def run(self) -> None:
        """Block until the pipeline ends. Raises the error that no restart cures, or that used up the strategy."""
        strategy = self.spec.restart.strategy()
        source = build_source(self.spec.sources[0])
        sink = build_sink(self.spec, self.spec.sinks[0])
        while not self.control.is_stopping():
            try:
                self._run_epoch(source, sink)
                return
            except ConnectorError as error:
                if self.control.is_stopping():
                    if not isinstance(error, PrepareError):  # what is decided may still wait for its commit, or worse
                        raise
                    _log.info("stopped; the running checkpoint was aborted: %s", self.spec.mask(error.message))
                    return
                delay_s = strategy.next_delay_s(time.monotonic(), random.random()) if error.retriable else None
                if delay_s is None:
                    raise
                _log.warning("%s; restarting in %.1f s", self.spec.mask(error.message), delay_s)
                self._tell(f"restarting in {delay_s:.1f} s")
                self._wait(delay_s)

    def _wait(self, delay_s: float) -> None:
        until_s = time.monotonic() + delay_s
        while not self.control.is_stopping() and (left_s := until_s - time.monotonic()) > 0:
            time.sleep(min(left_s, _POLL_S))

    def _tell(self, state: str) -> None:
        for listener in self.listeners:
            listener.state(state)

    def _run_epoch(self, source: Source, sink: Sink) -> None:
        self._tell("starting")
        log = LocalSparkLog(self.spec.checkpoint.location)
        head = open_head(self.spec)
        committer = sink.committer(self.spec.pipeline)
        driver = Driver(
            pipeline=self.spec.pipeline,
            head=head,
            committers={sink.name: committer},
            spark=log,
            session=f"{self._run_id}.{self._epochs}",
            incarnation=new_incarnation(),
            retained=self.spec.checkpoint.retained,
            commit_back=lambda positions: source.commit_back(positions.get(source.name, {})),
            follows=self._held,
        )
        self._epochs += 1
        try:
            self._held = driver.start()
            pipeline = build(self.spark, self.spec, source, sink, starting_point(driver, source))
            self._tell("running")
            _Epoch(self.spec, self.control, self.listeners, driver, log, pipeline, self.until_caught_up).run()
            if self.control.is_stopping():
                self._tell("stopped")
        finally:
            committer.close()
            head.close()


def starting_point(driver: Driver, source: Source) -> StartingPoint:
    """Where the source's splits began; asked for and stored in head before Spark first hears of them (R6, R10).

    Raises IdentityError for a source under another name: Spark would read on where the old one ended, and head would
    record ranges from elsewhere.
    """
    stored = driver.owned.initial
    if stored and source.name not in stored:
        message = f"head holds the positions of source {', '.join(sorted(stored))}, the spec names {source.name}"
        raise IdentityError(message, remedy="give the source the name it had, or begin anew with `eos reset`")
    known = StartingPoint(stored.get(source.name, {}), driver.owned.identities.get(source.name, {}))
    found = source.starting_point(known)
    if found.positions or source.name not in stored:
        driver.store_positions(source.name, found)
    return StartingPoint(driver.owned.initial[source.name], driver.owned.identities[source.name])


@dataclass(slots=True)
class _Epoch:
    """One query, from its start to its end, under one epoch."""

    spec: Spec
    control: StopControl
    listeners: Sequence[Listener]
    driver: Driver
    log: LocalSparkLog
    pipeline: Pipeline
    until_caught_up: bool
    failure: BaseException | None = None  # what ended the query, as it was raised; Spark only passes its text on
    query: StreamingQuery | None = None

    def run(self) -> None:
        """Block until the query has ended; whatever ends it, no query of this epoch runs on."""
        self.query = self._start()
        try:
            self._wait(self.query)
        except (PySparkException, Py4JError, ConnectionError) as error:
            self.failure = self.failure or translate(error, "the query")
        if self.failure is not None and not isinstance(self.failure, StopRequestedError):
            raise self.failure

    def _wait(self, query: StreamingQuery) -> None:
        try:
            while not query.awaitTermination(_POLL_S):  # type: ignore[arg-type]  # fractions are fine
                if self.control.is_stopping():
                    self.control.wait_until_idle()
                    break
        finally:
            query.stop()  # nothing happens if it has ended by itself

    def _start(self) -> StreamingQuery:
        folder = self.log.folder(self.driver.owned.incarnation)
        writer = (
            self.pipeline.rows.writeStream.foreachBatch(self._on_batch)
            .outputMode(self.pipeline.output_mode)
            .queryName(f"eos {self.spec.pipeline}")
            .option("checkpointLocation", f"file://{folder}")  # not as_uri(): Hadoop would take %20 literally
        )
        if self.until_caught_up:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{round(self.spec.checkpoint.interval_s * 1000)} milliseconds")
        try:
            return writer.start()
        except PySparkException as error:
            raise translate(error, "the start of the query") from error

    def _on_batch(self, frame: DataFrame, checkpoint_id: int) -> None:
        """Spark's thread. Returning lets Spark write `commits/N`; raising ends the query."""
        batch = SparkBatch(frame, checkpoint_id, self.pipeline, self.spec.checkpoint.timeout_s)
        try:
            with self.control.checkpoint(batch):
                self._checkpoint(batch)
        except BaseException as error:
            self.failure = error
            raise

    def _checkpoint(self, batch: SparkBatch) -> None:
        number, incarnation = batch.checkpoint_id, self.driver.owned.incarnation
        query_id = self.log.query_id(incarnation)
        assert query_id is not None  # Spark writes it before the first batch
        self.driver.set_query(query_id)
        offsets_log = self.log.offsets_log(incarnation, number)
        self.log.sync_offsets(incarnation, number)
        source = self.spec.sources[0].name
        plan = planned(offsets_log, [source])
        ends, began = {s: p.ends for s, p in plan.items()}, {s: p.began for s, p in plan.items()}
        begin = Begin(number, ends, offsets_log, time.time(), began)
        replayed = number <= self.driver.owned.completed
        before_s = time.monotonic()
        record = self.driver.checkpoint(begin, batch)
        report = CheckpointReport(
            record=record,
            epoch=self.driver.owned.epoch,
            replayed=replayed,
            duration_s=time.monotonic() - before_s,
            durations_s=dict(self.driver.durations_s),
            lag=self._lag(source),
        )
        for listener in self.listeners:
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
        return sum(max(end - (head.position(source, split) or 0), 0) for split, end in latest.items())


def _offsets(text: str) -> Mapping[str, int] | None:
    value = json.loads(text)
    return value if isinstance(value, dict) else None

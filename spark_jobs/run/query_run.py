"""The run of one query under one epoch: each batch of Spark becomes a checkpoint."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextvars import copy_context
from dataclasses import dataclass, field, replace

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from connectors.api.contracts import Source
from connectors.registry import open_documents
from connectors.spec import Spec
from spark_jobs.batch.attempts import RejectionPeriod
from spark_jobs.batch.batch import SparkBatch
from spark_jobs.batch.skipping import Skipping
from spark_jobs.batch.time_limit import TimeLimit
from spark_jobs.observe import schema_events
from spark_jobs.observe.activity import Activity, checkpoint_activity, idle_activity
from spark_jobs.observe.report import Listener
from spark_jobs.observe.withheld import Poll, Withheld
from spark_jobs.query.pacing.pacing import Pacing
from spark_jobs.query.running_query import EndsHeld
from spark_jobs.query.spark_log import LocalSparkLog
from spark_jobs.run.checkpoint_requests import CheckpointRequests
from spark_jobs.run.checkpoints import Checkpoints
from spark_jobs.run.control import StopControl, StopRequestedError
from spark_jobs.run.lag_monitor import LagMonitor
from spark_jobs.run.pipeline import Pipeline
from spark_jobs.run.progress import QueryProgress
from spark_jobs.run.query_starts import QueryStart, started
from spark_jobs.savepoints import plan as plans
from spark_jobs.savepoints.plan import Plan
from spark_jobs.session import left_sockets
from spark_jobs.session.failures import translate
from spark_jobs.session.versions import plans_within_limits
from twophase.driver import Driver
from wal.private import make_private

_log = logging.getLogger("eos.runner")

_POLL_S = 0.2
_WITHHELD_S = 1.0
_DONE_S = 10.0  # for Spark to write a small file after a batch
_DONE_POLL_S = 0.01
_EMPTY_AT_END = 2
"""Checkpoints that read nothing, one after another, with which a query has caught up.

The first one takes a new watermark into account. Spark plans more of them for ever where `transformWithState` has the
time mode "ProcessingTime" (SPARK-50180).
"""
_SPARK_ERRORS = (PySparkException, Py4JError, ConnectionError)
"""Errors of a call into the JVM, also after the JVM has ended."""


@dataclass(slots=True)
class QueryRun:
    """One query from its start to its end, under one epoch."""

    spec: Spec
    control: StopControl
    listener: Listener
    driver: Driver
    log: LocalSparkLog
    sources: Sequence[Source]
    pipeline: Pipeline
    pacing: Pacing
    checkpoint_requests: CheckpointRequests
    plan: Plan
    withheld: Withheld
    lag: LagMonitor
    period: RejectionPeriod = field(default_factory=RejectionPeriod)
    limit: TimeLimit | None = None
    failure: BaseException | None = None  # the error that ended the query; Spark only passes on its text
    query: StreamingQuery | None = None
    hit: int | None = None  # the checkpoint that failed
    _checkpoints: Checkpoints = field(init=False)
    _skipping: Skipping | None = field(default=None, init=False)
    _looked_at_s: float = 0.0
    _polls: list[Poll] = field(default_factory=list)  # newest polls of the planners
    _batch: SparkBatch | None = None  # in progress; read by other threads, as the next one
    _times: tuple[float, float] = field(default_factory=lambda: (0.0, time.time()))  # its begin; end of the one before
    _is_kept: bool = False  # `plan`, beside the checkpoint
    _ends_caught_up: bool = False
    _empty: int = 0  # newest checkpoints that read nothing, one after another
    _ends: EndsHeld = field(default_factory=EndsHeld)
    _progress: QueryProgress = field(init=False)

    def __post_init__(self) -> None:
        """Create the objects that all batches share."""
        self._progress = QueryProgress(self.listener, steps=[each.step for each in self.plan.operators])
        self._checkpoints = Checkpoints(self.driver, self.log, self.listener, self.sources, self.lag.newest)
        if any(source.skips_bad_records for source in self.sources):
            settings = self.spec.checkpoint
            self._skipping = Skipping.of(self.sources, settings.skippable, settings.max_skipped)

    def activity(self) -> Activity:
        """Return the checkpoint in progress, or what the next one waits for. May be called from any thread."""
        batch, (began_at, ended_at) = self._batch, self._times
        if batch is not None:
            found = checkpoint_activity(batch.checkpoint_id, began_at, self.driver.doing)
            return replace(found, tasks=batch.task_counts) if found.phase == "tasks" else found
        due_in_s = self.pacing.schedule.due_s - time.monotonic()
        return idle_activity(ended_at, time.time(), due_in_s, [each.reason for each in self.withheld.splits])

    def run(self, *, until_caught_up: bool) -> None:
        """Start the query and block until it has ended. After a return or an error no query of this epoch runs."""
        self._ends_caught_up, self.control.caught_up = until_caught_up, False
        with started(self.control.is_stopping) as start:
            if start is not None:
                self._run_query(start, until_caught_up=until_caught_up)
        # A stop ends the query by an error as well. The start after a restart commits what waits.
        has_failed = self.failure is not None and not isinstance(self.failure, StopRequestedError)
        if self.control.is_stopping() or not (has_failed or self.control.restart_requested):
            self.driver.drain()
            self.checkpoint_requests.look()
        if self.failure is not None and has_failed:
            raise self.failure
        self.log.note_end(self.driver.owned)

    def _run_query(self, start: QueryStart, *, until_caught_up: bool) -> None:
        self.query = self._progress.query = self._start(until_caught_up=until_caught_up)
        try:
            self._wait(self.query, start)
        except _SPARK_ERRORS as error:
            self.failure = self.failure or translate(error, "the query")
        finally:
            self.control.wait_until_idle()  # Spark's thread may have crashed; the checkpoint's thread still ends

    def _wait(self, query: StreamingQuery, start: QueryStart) -> None:
        try:
            while not query.awaitTermination(_POLL_S):  # type: ignore[arg-type]  # fractions are fine
                start.look(self._has_started)
                self.driver.check()
                self.log.keep_state(self.driver.owned)
                self._progress.report_idle()
                self.checkpoint_requests.look()
                self._look_at_polls(_WITHHELD_S)
                if self.pacing.has_caught_up(len(self.sources)):
                    self._end_caught_up()
                if self.control.ends_query():
                    self._report_end()
                    self.control.wait_until_idle()
                    self._await_done(query)
                    break
            self._progress.report_plan()
            self._look_at_polls(0.0)
        finally:
            self.pacing.stop()
            query.stop()  # nothing happens if it has ended by itself

    def _has_started(self) -> bool:
        """Whether the first checkpoint has ended, or there is nothing to read."""
        if self.pacing.begun > 0:
            return self._batch is None
        unread = [each.unread for each in self.pacing.polls()]
        return len(unread) >= len(self.sources) and not any(each != 0 for each in unread)

    def _report_end(self) -> None:
        if self.control.is_stopping():
            self.listener.on_state("stopping")
        elif self.control.restart_requested:
            self.listener.on_state("restarting on request")

    def _await_done(self, query: StreamingQuery) -> None:
        """Block until Spark has written `commits/N` of the newest checkpoint, which `query.stop` would interrupt.

        Without that file the next start runs the batch again, and is refused if a step was changed meanwhile (R4).
        """
        head, until_s = self.driver.owned, time.monotonic() + _DONE_S
        while not self.log.is_done(head.incarnation, head.completed):
            if self.control.abort_running or time.monotonic() > until_s or not query.isActive:
                return
            time.sleep(_DONE_POLL_S)

    def _look_at_polls(self, every_s: float) -> None:
        """Read the planners' polls, also while no checkpoint is completed because no record can be read.

        The lag monitor sees withheld records too, also during a long checkpoint, in which nothing is planned.
        """
        if time.monotonic() - self._looked_at_s < every_s:
            return
        self._looked_at_s = time.monotonic()
        polls = list(self.pacing.polls())
        if polls != self._polls:
            self._polls = polls
            self.listener.on_polls(polls)
        newest = {each.source: each for each in sorted([*polls, *self.lag.polls()], key=lambda each: each.at)}
        if self.withheld.observe(newest.values()):
            self.listener.on_withheld(self.withheld.splits)
        self.withheld.warn_if_overdue(time.time())

    def _start(self, *, until_caught_up: bool) -> StreamingQuery:
        self._progress.has_state = self.pipeline.stateful or self.spec.has_watermark
        folder = self.log.folder(self.driver.owned.incarnation)
        run = copy_context().run  # the lines that Spark's thread logs are of this pipeline, too
        writer = (
            self.pipeline.rows.writeStream.foreachBatch(lambda frame, number: run(self._on_batch, frame, number))
            .outputMode(self.pipeline.output_mode)
            .queryName(f"eos {self.spec.pipeline}")
            .option("checkpointLocation", f"file://{folder}")  # not as_uri(): Hadoop would take %20 literally
        )
        try:
            make_private(folder.parent)  # Spark would let other users read it
            if until_caught_up and plans_within_limits():
                return writer.trigger(availableNow=True).start()
            return writer.trigger(processingTime="0 seconds").start()  # `pacing` says when
        except (*_SPARK_ERRORS, OSError) as error:
            raise translate(error, "the start of the query") from error

    def _on_batch(self, frame: DataFrame, checkpoint_id: int) -> None:
        """Spark's thread. Returning lets Spark write `commits/N`; raising ends the query."""
        pipeline = self.pipeline
        batch = SparkBatch(
            frame,
            checkpoint_id,
            pipeline.flow,
            pipeline.stateful,
            self.spec.checkpoint.timeout_s,
            pipeline.letters,
            chains=pipeline.chains,
            ends=self._ends,
            period=self.period,
            limit=None if pipeline.stateful or self.spec.checkpoint.at_least_once else self.limit,
            skipping=self._skipping,
            naming=pipeline.naming,
            report=lambda sink, made: self.listener.on_event(
                schema_events.change(sink, made, time.time(), checkpoint_id)
            ),
        )
        self._times = time.time(), 0.0
        self._batch, self.driver.doing = batch, None
        try:
            with self.control.checkpoint(batch), self.pacing.checkpoint():
                report = self._checkpoints.complete(batch)
                self._progress.report_plan()
                self._keep_plan()
                if checkpoint_id % left_sockets.FORGOTTEN_EVERY == 0:
                    left_sockets.forget(frame.sparkSession)
                if not report.replayed:
                    self._end_if_caught_up(batch)
                    # Where a source does not count, rows that were written take the place of its records.
                    records = report.records if report.records is not None else report.record.rows
                    self.pacing.took(records, report.duration_s)
        except BaseException as error:
            foreign = isinstance(error, _SPARK_ERRORS)
            self.failure = translate(error, f"checkpoint {checkpoint_id}") if foreign else error
            self.hit = checkpoint_id
            raise
        finally:
            self._times = 0.0, time.time()
            self._batch = None
        if not report.replayed:
            self._progress.decided(checkpoint_id)

    def _end_if_caught_up(self, batch: SparkBatch) -> None:
        """Spark's thread. End a query that reads nothing more and that Spark would not end."""
        self._empty = 0 if any(batch.ranges.values()) else self._empty + 1
        if self._ends_caught_up and self._empty >= _EMPTY_AT_END:
            self._end_caught_up()

    def _end_caught_up(self) -> None:
        self.pacing.pause(paused=True)
        self.control.caught_up = True

    def _keep_plan(self) -> None:
        """With the first batch: before it, the state that there is was made by another query, if not by none."""
        if not self._is_kept:
            plans.keep(open_documents(self.spec), self.driver.owned.incarnation, self.plan)
            self._is_kept = True

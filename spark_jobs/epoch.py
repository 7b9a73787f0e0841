"""One query of a pipeline, from its start to its end: Spark's batches become checkpoints."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from dataclasses import astuple, dataclass, field

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from connectors.api.contracts import Source
from connectors.spec import Spec
from spark_jobs import left_sockets
from spark_jobs.batch import SparkBatch
from spark_jobs.checkpoints import Checkpoints
from spark_jobs.control import StopControl, StopRequestedError
from spark_jobs.dead_letters import Ranges
from spark_jobs.failures import translate
from spark_jobs.history.model import SplitLag
from spark_jobs.on_demand import OnDemand
from spark_jobs.pacing.pacing import Pacing
from spark_jobs.pipeline import Pipeline
from spark_jobs.progress import Progress, newest
from spark_jobs.query import EndsHeld
from spark_jobs.report import Listener
from spark_jobs.savepoint import plan as plans
from spark_jobs.savepoint.plan import Plan
from spark_jobs.sifting_period import SiftingPeriod
from spark_jobs.skipping import Skipping
from spark_jobs.source_offset import SourceOffset
from spark_jobs.spark_log import LocalSparkLog, planned
from spark_jobs.tolerance import Tolerance
from spark_jobs.withheld import Withheld
from twophase.driver import Driver

_log = logging.getLogger("eos.runner")

_POLL_S = 0.2
_IDLE_S = 1.0
_WITHHELD_S = 1.0
_DONE_S = 10.0  # for Spark to write a small file after a batch
_DONE_POLL_S = 0.01
_SPARK_ERRORS = (PySparkException, Py4JError, ConnectionError)
"""What a call into the JVM raises, also of one that has ended."""


@dataclass(slots=True)
class Epoch:
    """One query, from its start to its end, under one epoch."""

    spec: Spec
    control: StopControl
    listener: Listener
    driver: Driver
    log: LocalSparkLog
    sources: Sequence[Source]
    pipeline: Pipeline
    pacing: Pacing
    on_demand: OnDemand
    tolerance: Tolerance
    plan: Plan
    withheld: Withheld
    period: SiftingPeriod = field(default_factory=SiftingPeriod)
    failure: BaseException | None = None  # what ended the query, as it was raised; Spark only passes its text on
    query: StreamingQuery | None = None
    hit: int | None = None  # the checkpoint that the failure ended
    _checkpoints: Checkpoints = field(init=False)
    _skipping: Skipping | None = field(default=None, init=False)
    _unplanned: int | None = None  # the newest checkpoint, until it is told what its plan took
    _decided_at_s: float = 0.0
    _looked_at_s: float = 0.0
    _is_kept: bool = False  # `plan`, beside the checkpoint
    _ends: EndsHeld = field(default_factory=EndsHeld)
    _planned: Mapping[str, SourceOffset] = field(default_factory=dict)  # of the batch under way, as head decides it

    def __post_init__(self) -> None:
        """One object for all batches."""
        self._checkpoints = Checkpoints(self.driver, self.log, self.listener, self._plan, self._tell_lost, self._lag)
        if any(source.leaves_out for source in self.sources):
            settings = self.spec.checkpoint
            self._skipping = Skipping.of(self.sources, settings.skippable, settings.max_skipped)

    def run(self, *, until_caught_up: bool) -> None:
        """Block until the query has ended; whatever ends it, no query of this epoch runs on."""
        self.query = self._start(until_caught_up=until_caught_up)
        try:
            self._wait(self.query)
        except _SPARK_ERRORS as error:
            self.failure = self.failure or translate(error, "the query")
        finally:
            self.control.wait_until_idle()  # Spark's thread may have died, that of the checkpoint ends by itself
        if self.failure is None or self.control.is_stopping():  # a stop ends the query by an error as well
            self.driver.drain()
            self.on_demand.look()
        if self.failure is not None and not isinstance(self.failure, StopRequestedError):
            raise self.failure

    def _wait(self, query: StreamingQuery) -> None:
        try:
            while not query.awaitTermination(_POLL_S):  # type: ignore[arg-type]  # fractions are fine
                self.driver.check()
                if self._unplanned is not None and time.monotonic() - self._decided_at_s > _IDLE_S:
                    self._tell_plan(query)
                self.on_demand.look()
                self._look_at_polls(_WITHHELD_S)
                if self.control.is_stopping():
                    self.listener.state("stopping")
                    self.control.wait_until_idle()
                    self._await_done(query)
                    break
            self._tell_plan(query)
            self._look_at_polls(0.0)
        finally:
            self.pacing.stop()
            query.stop()  # nothing happens if it has ended by itself

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
        """Read what the planners have seen: also while no checkpoint is completed, since nothing can be read."""
        if time.monotonic() - self._looked_at_s < every_s:
            return
        self._looked_at_s = time.monotonic()
        polls = self.pacing.polls()
        if self.withheld.observe(polls):
            self.listener.polled(polls)
            self.listener.withheld(self.withheld.splits)
        self.withheld.warn_if_overdue(time.time())

    def _start(self, *, until_caught_up: bool) -> StreamingQuery:
        folder = self.log.folder(self.driver.owned.incarnation)
        run = copy_context().run  # the lines that Spark's thread logs are of this pipeline, too
        writer = (
            self.pipeline.rows.writeStream.foreachBatch(lambda frame, number: run(self._on_batch, frame, number))
            .outputMode(self.pipeline.output_mode)
            .queryName(f"eos {self.spec.pipeline}")
            .option("checkpointLocation", f"file://{folder}")  # not as_uri(): Hadoop would take %20 literally
        )
        try:
            if until_caught_up:
                return writer.trigger(availableNow=True).start()
            return writer.trigger(processingTime="0 seconds").start()  # `pacing` says when
        except _SPARK_ERRORS as error:
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
            self._ranges,
            self.tolerance,
            pipeline.chain,
            self._ends,
            self.period,
            self._skipping,
        )
        try:
            with self.control.checkpoint(batch), self.pacing.checkpoint():
                report = self._checkpoints.complete(batch)
                self._keep_plan()
                if checkpoint_id % left_sockets.FORGOTTEN_EVERY == 0:
                    left_sockets.forget(frame.sparkSession)
                if not report.replayed:
                    self.pacing.took(report.records, report.duration_s)
                self.tolerance.succeeded()
        except BaseException as error:
            foreign = isinstance(error, _SPARK_ERRORS)
            self.failure = translate(error, f"checkpoint {checkpoint_id}") if foreign else error
            self.hit = checkpoint_id
            if self.driver.owned.completed < checkpoint_id:
                self.tolerance.aborted(self.failure)
            raise
        if not report.replayed:
            self._unplanned, self._decided_at_s = checkpoint_id, time.monotonic()

    def _keep_plan(self) -> None:
        """With the first batch: before it, the state that there is was made by another query, if not by none."""
        if not self._is_kept:
            plans.keep(self.log.location, self.driver.owned.incarnation, self.plan)
            self._is_kept = True

    def _plan(self, offsets_log: str) -> Mapping[str, SourceOffset]:
        self._planned = planned(offsets_log, [source.name for source in self.spec.sources])
        return self._planned

    def _ranges(self) -> Ranges:
        """What a checkpoint that is not yet decided reads. Spark's file is not read again: it may be another's now."""
        positions = self.driver.owned.positions
        return {name: each.ranges(positions.get(name, {})) for name, each in self._planned.items()}

    def _tell_lost(self, plan: Mapping[str, SourceOffset]) -> None:
        for source in self.sources:
            if source.name in plan:
                positions = self.driver.owned.positions.get(source.name, {})
                for each in source.lost(plan[source.name].ranges(positions)):
                    _log.warning("left out, retention has deleted it: %s, offsets [%d, %d)", *astuple(each))

    def _lag(self) -> tuple[SplitLag, ...] | None:
        """What was there when the last batch was planned and is not completed."""
        found = self._tell_plan(self.query) if self.query is not None else None
        return found.lag(self.driver.owned, time.time()) if found is not None else None

    def _tell_plan(self, query: StreamingQuery) -> Progress | None:
        """Spark's progress, which is read once a batch; it has what the plan of the batch before took."""
        found = newest(query)
        if found is not None and found.batch_id == self._unplanned and found.plan_s is not None:
            self._unplanned = None
            self.listener.planned(found.batch_id, found.plan_s)
        return found

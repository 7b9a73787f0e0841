"""Runs a pipeline: one epoch after another until it has caught up, is stopped, or cannot be cured by a restart."""

from __future__ import annotations

import logging
import random
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from connectors.api.contracts import Sink, Source
from connectors.registry import build_sink, build_source, open_documents, open_requests
from connectors.spec import Spec
from eos.errors import ConnectorError, PrepareError
from spark_jobs.batch.attempts import RejectionPeriod
from spark_jobs.batch.time_limit import TimeLimit
from spark_jobs.observe import schema_events
from spark_jobs.observe.activity import Activity
from spark_jobs.observe.head_reader import read_head
from spark_jobs.observe.history.model import Ending, Event, failure
from spark_jobs.observe.log_lines import of_pipeline
from spark_jobs.observe.report import Listener, Listeners
from spark_jobs.observe.run_lock import present
from spark_jobs.observe.withheld import Withheld
from spark_jobs.query.pacing.pacing import Pacing, admission_of, paced
from spark_jobs.query.rebuilt_spark_log import spark_log
from spark_jobs.query.spark_log import STATE_PARTITIONS, LocalSparkLog
from spark_jobs.run.checkpoint_requests import CheckpointRequests
from spark_jobs.run.control import StopControl, pause
from spark_jobs.run.lag_monitor import LagMonitor
from spark_jobs.run.open_driver import limits_of
from spark_jobs.run.pausing import Pausing
from spark_jobs.run.pipeline import Pipeline, build, check_version, types_of
from spark_jobs.run.query_run import QueryRun
from spark_jobs.run.recovery import Recovered, recover
from spark_jobs.run.requests import RunRequests
from spark_jobs.run.restarting import RestartRequests
from spark_jobs.run.shared_state import check_state_is_shared
from spark_jobs.run.until_readable import UntilReadable
from spark_jobs.savepoints import plan as plans
from spark_jobs.savepoints.changes import check_in_place
from spark_jobs.savepoints.query import plan_of
from spark_jobs.session.failures import translate
from twophase.failure_lines import FailureLines
from twophase.messages import HeadSnapshot
from twophase.requests import Answer

_log = logging.getLogger("eos.runner")


@dataclass(frozen=True, slots=True)
class RunResources:
    """What a run has from one query to the next."""

    sources: Sequence[Source]
    sinks: Sequence[Sink]
    limit: TimeLimit
    checkpoint_requests: CheckpointRequests
    restarts: RestartRequests
    pausing: Pausing
    withheld: Withheld
    lag: LagMonitor
    until_readable: UntilReadable | None  # of a run until caught up
    period: RejectionPeriod = field(default_factory=RejectionPeriod)


@dataclass(slots=True)
class Runner:
    """One `eos run`. `run` belongs to one thread; `control` may be used from any, also from a signal handler."""

    spec: Spec
    spark: SparkSession
    listener: Listener
    until_caught_up: bool = False
    control: StopControl = field(default_factory=StopControl)
    run_id: str = field(default_factory=lambda: secrets.token_hex(8))
    page: str | None = None  # URL of the page that shows it
    _asked: RunRequests | None = field(default=None, init=False)
    _epochs: int = field(default=0, init=False)  # that this run has started
    _query_run: QueryRun | None = field(default=None, init=False)  # that runs
    _held: HeadSnapshot | None = field(default=None, init=False)  # head as the newest epoch of this run held it
    _hit: int | None = field(default=None, init=False)  # the checkpoint that the newest failure ended

    def run(self) -> None:
        """Block until the pipeline ends. Raises the error that no restart cures, or that used up the strategy.

        Meanwhile others see that it runs, and may ask things of it (`twophase.requests`).
        """
        with of_pipeline(self.spec.mask(self.spec.pipeline)):
            self._run_named()

    def _run_named(self) -> None:
        ending: Ending = "failed"
        try:
            check_version(self.spark, self.spec)
            sources = [build_source(entry) for entry in self.spec.sources]
            with open_requests(self.spec) as channel, present(self.spec, self.run_id, self.page):
                asked = self._asked = RunRequests(self.spec, sources, self.control, channel, self.listener)
                lasting = self._lasting(sources, asked)
                with asked.heard(self._stopped), lasting.lag.measuring():
                    self._run(lasting)
            ending = self.control.ending()
        finally:
            self.listener.on_state(ending)  # other pipelines of this process may go on

    def activity(self) -> Activity | None:
        """Return the checkpoint in progress; None while no query runs. May be called from any thread."""
        query_run = self._query_run  # another thread resets it
        return query_run.activity() if query_run is not None else None

    def is_steered(self) -> bool:
        """Whether requests are heard, once it has begun. May be called from any thread."""
        return self._asked is None or self._asked.is_heard()

    def _lasting(self, sources: Sequence[Source], requests: RunRequests) -> RunResources:
        behind = any(limit.checkpoints for limit in limits_of(self.spec).values())
        withheld = Withheld.at(self.spec.checkpoint.folder, sources)
        waits = self.until_caught_up and self.spec.checkpoint.max_records_per_checkpoint != 0  # 0: reads nothing new
        return RunResources(
            sources,
            [build_sink(self.spec, entry) for entry in self.spec.outputs],
            TimeLimit(self.spec.checkpoint.timeout_s, admission_of(self.spec.checkpoint, behind=behind)),
            requests.checkpoint_requests,
            requests.restarts,
            requests.pausing,
            withheld,
            self._lag_monitor(),
            UntilReadable(sources, withheld, self.listener, self.control.is_stopping) if waits else None,
        )

    def _lag_monitor(self) -> LagMonitor:
        """Return a monitor with instances of the sources that nothing else uses: their calls may run side by side."""
        sources = [build_source(entry) for entry in self.spec.sources]
        location = self.spec.checkpoint.folder
        return LagMonitor(sources, partial(read_head, self.spec), location, self.listener, self.spec.mask)

    def _stopped(self) -> Answer:
        head = self._held.head if self._held is not None else None
        if head is None:
            return Answer(ok=True, message="stopped before it had started")
        facts = {"completed": head.completed, "committed": head.committed, "epoch": head.epoch}
        return Answer(ok=True, message="stopped", facts=facts)

    def _run(self, lasting: RunResources) -> None:
        strategy, lines = self.spec.restart.strategy(), FailureLines()
        while not self.control.is_stopping():
            try:
                self._run_epoch(lasting)
                if not lasting.restarts.begin() and not self._is_more_readable(lasting):
                    return
            except ConnectorError as error:
                if self.control.is_stopping():
                    if not isinstance(error, PrepareError):  # what is decided may still wait for its commit, or worse
                        raise
                    if self.spec.checkpoint.at_least_once:  # nothing can be aborted
                        _log.warning("stopped; rows of the running checkpoint may come twice: %s", error.message)
                    else:
                        _log.info("stopped; the running checkpoint was aborted: %s", error.message)
                    return
                if lasting.period.resumes(error) or lasting.limit.resumes(error):
                    continue
                now = time.time()
                self.listener.on_event(failure(error, now, self._hit))
                delay_s = strategy.next_delay_s(time.monotonic(), random.random()) if error.retriable else None
                if delay_s is None:
                    raise
                said = f"in {delay_s:.1f} s"
                _log.warning("%s; restarting %s", lines.line(error, self._completed()), said)
                self.listener.on_event(Event(now, "restart", said, checkpoint_id=self._hit, delay_s=delay_s))
                self.listener.on_state(f"restarting {said}")
                pause(delay_s, self.control.is_stopping)

    def _completed(self) -> int | None:
        """Return the newest checkpoint that this run knows to be completed."""
        head = self._held.head if self._held is not None else None
        return head.completed if head is not None else None

    def _is_more_readable(self, lasting: RunResources) -> bool:
        """Blocks while records that were there at the start cannot be read yet. Raises SourceError."""
        if lasting.until_readable is None or self._held is None or self.control.is_stopping():
            return False
        return lasting.until_readable.wait(self._held.head)

    def _run_epoch(self, lasting: RunResources) -> None:
        self._hit = None
        lasting.restarts.begin()  # a failure may have come first
        self.listener.on_state("starting")
        spec, log = self.spec, spark_log(self.spec)
        session = f"{self.run_id}.{self._epochs}"
        self._epochs += 1
        with (
            recover(
                spec,
                lasting.sinks,
                log,
                self.listener,
                session=session,
                sources=lasting.sources,
                follows=self._held,
                limits=limits_of(spec),
                is_stopping=self.control.is_stopping,
                overran=lasting.limit.overran,
            ) as recovered,
            paced(spec.checkpoint, lasting.limit.admission, until_caught_up=self.until_caught_up) as pacing,
        ):
            driver, lasting.limit.overran = recovered.driver, None
            self._held = driver.seen
            pipeline = self._build(lasting, recovered, log, pacing)
            self._report_schemas(lasting.sources, pipeline)
            plan = plan_of(spec, pipeline.rows)
            check_in_place(plans.kept(open_documents(spec), driver.owned.incarnation), plan)
            if pipeline.stateful or spec.has_watermark:
                log.restore_state(driver.owned)
            if lasting.until_readable is not None:
                lasting.until_readable.begin(driver.owned)
            self.listener.on_state("paused" if self.control.is_paused() else "running")
            lasting.restarts.done(driver.owned)
            epoch = QueryRun(
                spec,
                self.control,
                Listeners([self.listener, lasting.checkpoint_requests]),
                driver,
                log,
                lasting.sources,
                pipeline,
                pacing,
                lasting.checkpoint_requests,
                plan,
                lasting.withheld,
                lasting.lag,
                lasting.period,
                lasting.limit,
            )
            lasting.checkpoint_requests.follow(lambda: driver.owned, pacing.ask)
            lasting.lag.follow(lambda: driver.owned)
            self._query_run = epoch
            lasting.pausing.follow(lambda: driver.owned, pacing)
            try:
                epoch.run(until_caught_up=self.until_caught_up)
            finally:
                self._query_run = None
                lasting.checkpoint_requests.follow(None)
                lasting.pausing.follow(None)
                self._held, self._hit = driver.seen, epoch.hit
                self.listener.on_backlog(driver.owned.waiting)

    def _report_schemas(self, sources: Sequence[Source], pipeline: Pipeline) -> None:
        """Report the columns, sinks that get others than at the last start, and tables that this start has changed."""
        self.listener.on_columns({each.name: types_of(each) for each in sources}, pipeline.columns)
        columns = {self.spec.mask(sink): of for sink, of in pipeline.columns.items()}
        for event in schema_events.changes(self.spec.checkpoint.folder, columns, time.time()):
            _log.warning("%s", event.message)
            self.listener.on_event(event)
        opened = [sink for branch in pipeline.flow.branches for sink in branch.sinks]
        for event in schema_events.statements(opened, time.time()):
            self.listener.on_event(event)

    def _build(self, lasting: RunResources, recovered: Recovered, log: LocalSparkLog, pacing: Pacing) -> Pipeline:
        """Build Spark's query; the caller starts it. Raises SparkUnavailableError, SpecError, SourceError."""
        sinks = recovered.sinks
        own, letters = sinks[: len(self.spec.sinks)], sinks[len(self.spec.sinks) :]
        turns = pacing.turns(len(lasting.sources))
        try:
            schemas = recovered.driver.owned.schemas
            pipeline = build(
                self.spark, self.spec, lasting.sources, own, recovered.began, *letters, turns=turns, schemas=schemas
            )
            if pipeline.stateful:
                check_state_is_shared(self.spark, self.spec.checkpoint.folder)
        except (Py4JError, ConnectionError) as error:
            raise translate(error, "building the query") from error
        if pipeline.stateful:
            report_kept_partitions(self.spec, log, recovered.driver.owned.incarnation)
        return pipeline


def report_kept_partitions(spec: Spec, log: LocalSparkLog, incarnation: str) -> None:
    """Warn that state keeps its number of partitions, where the spec names another one.

    Called at each start of a stateful pipeline. Spark takes the spec's number for all tasks but those with state.
    """
    state = log.state(incarnation)
    kept, said = state.state_partitions.get(state.newest_planned), spec.spark.conf.get(STATE_PARTITIONS)
    if kept is not None and said is not None and str(kept) != str(said):
        _log.warning(
            "%s: the spec has %s: %s, and the state keeps its %d partitions: "
            "`eos rescale --state-partitions %s` divides it",
            *(spec.pipeline, STATE_PARTITIONS, said, kept, said),
        )

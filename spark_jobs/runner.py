"""Runs a pipeline: one epoch after another until it has caught up, is stopped, or cannot be cured by a restart."""

from __future__ import annotations

import logging
import random
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from connectors.contracts import Sink, Source
from connectors.registry import build_sink, build_source, open_requests
from connectors.spec import Spec
from spark_jobs.control import StopControl
from spark_jobs.driving import driver_of, limits_of, tell_found
from spark_jobs.epoch import Epoch
from spark_jobs.failures import translate
from spark_jobs.history.model import Event, answered, failure
from spark_jobs.pipeline import build
from spark_jobs.presence import present
from spark_jobs.report import Listener
from spark_jobs.spark_log import LocalSparkLog
from spark_jobs.steering import Steering
from twophase.driver import Driver
from twophase.errors import ConnectorError, IdentityError, PrepareError
from twophase.head_value import HeadValue
from twophase.news import News
from twophase.requests import Answer, Request
from twophase.values import Positions, StartingPoint

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
    run_id: str = field(default_factory=lambda: secrets.token_hex(8))
    page: str | None = None  # URL of the page that shows it
    _epochs: int = field(default=0, init=False)  # that this run has started
    _asked_to_stop: list[Request] = field(default_factory=list, init=False)
    _hit: int | None = field(default=None, init=False)  # the checkpoint that the newest failure ended
    _steering: Steering | None = field(default=None, init=False)
    _held: HeadValue | None = field(default=None, init=False)  # head as the newest epoch of this run held it

    def run(self) -> None:
        """Block until the pipeline ends. Raises the error that no restart cures, or that used up the strategy.

        Meanwhile others see that it runs, and may ask things of it (`twophase.requests`).
        """
        with open_requests(self.spec) as channel, present(self.spec, self.run_id, self.page):
            channel.sweep()
            steering = self._steering = Steering(channel, {"stop": self._stop}, self._tell_answer)
            steering.start()
            ended = Answer(ok=False, message="the run ended unexpectedly")
            try:
                self._run()
                ended = self._stopped()
            except ConnectorError as error:
                ended = Answer(ok=False, message=error.message, facts={"remedy": error.remedy})
                raise
            finally:
                for request in self._asked_to_stop:
                    steering.answer(request, ended)
                steering.close()

    def is_steered(self) -> bool:
        """Whether requests are heard, once it has begun. May be called from any thread."""
        return self._steering is None or self._steering.is_alive()

    def _stop(self, request: Request) -> None:
        """Answered when the run has ended."""
        self._asked_to_stop.append(request)
        self.control.abort_running = self.control.abort_running or request.arguments.get("now") == "true"
        self.control.requested = self.control.requested or f"asked to stop by {request.asked_by}"

    def _stopped(self) -> Answer:
        head = self._held
        if head is None:
            return Answer(ok=True, message="stopped before it had started")
        facts = {"completed": head.completed, "committed": head.committed, "epoch": head.epoch}
        return Answer(ok=True, message="stopped", facts=facts)

    def _run(self) -> None:
        strategy = self.spec.restart.strategy()
        sources = [build_source(entry) for entry in self.spec.sources]
        sinks = [build_sink(self.spec, entry) for entry in self.spec.outputs]
        while not self.control.is_stopping():
            try:
                self._run_epoch(sources, sinks)
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
                delay_s = strategy.next_delay_s(time.monotonic(), random.random()) if error.retriable else None
                now = time.time()
                self._tell_event(failure(error, now, self._hit))
                if delay_s is None:
                    raise
                _log.warning("%s; restarting in %.1f s", error.message, delay_s)
                self._tell_event(Event(now, "restart", f"in {delay_s:.1f} s", checkpoint_id=self._hit, delay_s=delay_s))
                self._tell(f"restarting in {delay_s:.1f} s")
                self._wait(delay_s)

    def _wait(self, delay_s: float) -> None:
        until_s = time.monotonic() + delay_s
        while not self.control.is_stopping() and (left_s := until_s - time.monotonic()) > 0:
            time.sleep(min(left_s, _POLL_S))

    def _tell(self, state: str) -> None:
        for listener in self.listeners:
            listener.state(state)

    def _tell_event(self, event: Event) -> None:
        for listener in self.listeners:
            listener.happened(event)

    def _tell_answer(self, request: Request, answer: Answer) -> None:
        self._tell_event(answered(request, answer))

    def _tell_news(self, news: News) -> None:
        for listener in self.listeners:
            listener.news(news)

    def _tell_behind(self, driver: Driver) -> None:
        for listener in self.listeners:
            listener.behind(driver.owned.waiting)

    def _run_epoch(self, sources: Sequence[Source], sinks: Sequence[Sink]) -> None:
        self._hit = None
        self._tell("starting")
        log = LocalSparkLog(self.spec.checkpoint.location)
        session = f"{self.run_id}.{self._epochs}"
        self._epochs += 1
        with driver_of(
            self.spec,
            sinks,
            log,
            session=session,
            follows=self._held,
            commit_back=lambda positions: _commit_back(sources, positions),
            limits=limits_of(self.spec),
            is_stopping=self.control.is_stopping,
            watcher=self._tell_news,
        ) as driver:
            tell_found(driver, self.listeners)
            self._held = driver.start()
            self._tell_behind(driver)
            began = starting_points(driver, sources, log)
            try:
                own, letters = sinks[: len(self.spec.sinks)], sinks[len(self.spec.sinks) :]
                pipeline = build(self.spark, self.spec, sources, own, began, *letters)
            except (Py4JError, ConnectionError) as error:
                raise translate(error, "building the query") from error
            self._tell("running")
            epoch = Epoch(self.spec, self.control, self.listeners, driver, log, sources, pipeline, self.until_caught_up)
            try:
                epoch.run()
            finally:
                self._held, self._hit = driver.owned, epoch.hit
                self._tell_behind(driver)
            if self.control.is_stopping():
                self._tell("stopped")


def starting_points(driver: Driver, sources: Sequence[Source], log: LocalSparkLog) -> Mapping[str, StartingPoint]:
    """Where each source's splits began; asked for and stored in head before Spark first hears of them (R6, R10).

    Raises IdentityError if the sources are not those that the pipeline has had: Spark would read on where another one
    ended, and head would record ranges from elsewhere.
    """
    head, names = driver.owned, [source.name for source in sources]
    stored = head.initial
    # A first start may have failed between two sources.
    if not stored.keys() <= set(names) or (head.query_id is not None and len(stored) < len(names)):
        message = f"head holds the positions of {', '.join(sorted(stored))}; the spec's sources are {', '.join(names)}"
        raise IdentityError(message, remedy="change the sources back, or begin anew with `eos reset`")
    for name, plan in log.plan_after(head.incarnation, head.completed, names).items():
        if plan.began.positions:  # found by a plan that was not decided yet, and is run again as it stands
            driver.store_positions(name, plan.began)
    for source in sources:
        head = driver.owned
        known = StartingPoint(head.initial.get(source.name, {}), head.identities.get(source.name, {}))
        found = source.starting_point(known)
        if found.positions or source.name not in head.initial:
            driver.store_positions(source.name, found)
    head = driver.owned
    return {name: StartingPoint(head.initial[name], head.identities[name]) for name in names}


def _commit_back(sources: Sequence[Source], positions: Mapping[str, Positions]) -> None:
    for source in sources:
        source.commit_back(positions.get(source.name, {}))

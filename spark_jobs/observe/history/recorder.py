"""Writes down what a run tells: a Listener whose every word becomes an entry of the history."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from connectors.spec import Spec
from spark_jobs.observe.history import entries
from spark_jobs.observe.history.database import NAME
from spark_jobs.observe.history.filing import WriterThread
from spark_jobs.observe.history.model import (
    AbortedAttempt,
    Ending,
    Event,
    Run,
    SinkCommit,
    StateSize,
    acknowledgements_of,
    failure,
    of_absence,
    of_record,
)
from spark_jobs.observe.history.phases import phases
from spark_jobs.observe.history.writer import Retention
from spark_jobs.observe.lag import Lag
from spark_jobs.observe.report import CheckpointReport, Listener
from twophase.news import Aborted, CommittedUpTo, Decided, DriverEvent, SinkAway, SinkCommitted, SinkJoined
from twophase.status import Status
from twophase.values import CheckpointRecord
from twophase.version import installed_version

_LAG_EVERY_S: Final = 10.0
"""Least time between two lags in the history. A bucket of a chart has 10 seconds or more in 15 minutes."""


class Recorder(Listener):
    """Of one run. Everything it is told is given to `filing` at once."""

    def __init__(
        self, filing: WriterThread, run_id: str, variants: Mapping[str, str], mask: Callable[[str], str]
    ) -> None:
        """`variants`: by sink, as the spec has them; `mask`: takes secrets out of a text."""
        self._filing = filing
        self._run_id = run_id
        self._variants = variants
        self._mask = mask
        self._incarnation = ""
        self._told = ("", "")  # error and message of the newest failure
        self._lag_at = 0.0  # time of the newest lag in the history

    def begun(self, at: float) -> None:
        """The run has."""
        self._filing.add(Run(self._run_id, socket.gethostname(), os.getpid(), installed_version(), at))

    def ended(self, at: float, how: Ending, error: BaseException | None = None) -> None:
        """The run has; `error`: what ended it, which may have been told before."""
        last = failure(error, at) if error is not None else None
        if last is not None and (last.error, last.message) != self._told:
            self.on_event(last)
        self._filing.add(entries.RunEnded(self._run_id, at, how))

    def on_state(self, text: str) -> None:
        self.on_event(Event(time.time(), "state", text))

    def on_event(self, event: Event) -> None:
        if event.error:
            self._told = event.error, event.message
        message, remedy = self._text(event.message), self._text(event.remedy)
        self._filing.add(replace(event, message=message, remedy=remedy, run_id=self._run_id))

    def on_status(self, status: Status) -> None:
        """See Listener. What a driver before this one did not live to write down."""
        head = status.head
        self._incarnation = head.incarnation
        for record in reversed(status.checkpoints):
            self._complete(record, "")
        if head.committed >= 0:
            self._filing.add(entries.Committed(head.incarnation, head.committed, None))

    def on_driver_event(self, news: DriverEvent) -> None:
        now = time.time()
        match news:
            case Decided(record):
                self._incarnation = record.scope.incarnation
                self._complete(record, self._run_id)
            case Aborted(scope, error):
                names = scope.incarnation, scope.checkpoint_id, scope.epoch, scope.attempt
                self._filing.add(AbortedAttempt(*names, now, type(error).__name__, self._text(error.message)))
            case SinkCommitted():
                at = news.incarnation, news.checkpoint_id, news.sink
                self._filing.add(entries.SinkCommitted(*at, now, news.commit_s))
            case SinkAway() | SinkJoined():
                self.on_event(of_absence(news, now))
            case CommittedUpTo(incarnation, checkpoint_id) if checkpoint_id >= 0:
                self._filing.add(entries.Committed(incarnation, checkpoint_id, now))

    def on_checkpoint(self, report: CheckpointReport) -> None:
        record, scope = report.record, report.record.scope
        if report.replayed:
            self._filing.add(entries.Replayed(scope.incarnation, scope.checkpoint_id))
            return
        is_whole = bool(report.durations_s.keys() & {"Swap committed", "Swap note"})  # else sinks commit by themselves
        committed_at = report.at if is_whole else None
        tasks = report.acknowledgements or acknowledgements_of(record)
        seconds = phases(record.started_at, record.decided_at, committed_at, report.durations_s, tasks)
        at = scope.incarnation, scope.checkpoint_id
        rules = tuple(replace(r, step=self._text(r.step), rule=self._text(r.rule)) for r in report.rules)
        skipped = {self._text(source): count for source, count in report.skipped.items()}
        self._filing.add(entries.Measured(*at, seconds, committed_at, tasks, report.splits, skipped, rules))

    def on_lag(self, lag: Lag) -> None:
        now = time.time()
        if (records := lag.records(now)) is not None and now - self._lag_at >= _LAG_EVERY_S:
            self._lag_at = now
            self._filing.add(entries.LagMeasured(now, records))

    def on_planned(self, checkpoint_id: int, plan_s: float) -> None:
        self._filing.add(entries.Planned(self._incarnation, checkpoint_id, plan_s))

    def on_state_size(self, size: StateSize) -> None:
        operators = tuple(replace(each, step=self._text(each.step)) for each in size.by_operator)
        self._filing.add(entries.StateMeasured(self._incarnation, size.checkpoint_id, operators))

    def _complete(self, record: CheckpointRecord, session: str) -> None:
        found = of_record(record)
        sinks = tuple(self._with_variant(each, direct=record.direct) for each in found.sinks)
        found = replace(found, sinks=sinks, session=session)
        self._filing.add(entries.Completed(found, record.ranges, acknowledgements_of(record)))

    def _text(self, text: str) -> str:
        """Without secrets; what is no Unicode, such as bytes of a file's name, by its escape: SQLite takes none."""
        return self._mask(text).encode(errors="backslashreplace").decode()

    def _with_variant(self, of: SinkCommit, *, direct: bool) -> SinkCommit:
        return replace(of, variant="at-least-once" if direct else self._variants.get(of.sink, ""))


@contextmanager
def recorded(spec: Spec, run_id: str, ending: Callable[[], Ending]) -> Iterator[Recorder]:
    """The history of one run, which is this block. Never fails: what cannot be written is told in the log.

    `ending`: how the run has ended, where nothing is raised.
    """
    filing = WriterThread(spec.checkpoint.folder / NAME, Retention())
    recorder = recorder_of(spec, run_id, filing)
    recorder.begun(time.time())
    try:
        yield recorder
    except BaseException as error:
        recorder.ended(time.time(), "failed", error)
        raise
    else:
        recorder.ended(time.time(), ending())
    finally:
        filing.close()


@contextmanager
def recording(spec: Spec, run_id: str = "") -> Iterator[Recorder]:
    """Record what a process does that is not a run: a command, or one batch of `format("eos")`.

    Never fails, as above; blocks at the end until everything is written. `run_id`: of checkpoints and events.
    """
    filing = WriterThread(spec.checkpoint.folder / NAME, Retention())
    try:
        yield recorder_of(spec, run_id, filing)
    finally:
        filing.close()


def tell(spec: Spec, *events: Event) -> None:
    """Write down what a command has done that is no run. Never fails, as above; blocks until it is written."""
    with recording(spec) as recorder:
        for event in events:
            recorder.on_event(event)


def recorder_of(spec: Spec, run_id: str, filing: WriterThread) -> Recorder:
    """With the sinks and the secrets of the spec."""
    return Recorder(filing, run_id, {entry.name: entry.commit for entry in spec.outputs}, spec.mask)

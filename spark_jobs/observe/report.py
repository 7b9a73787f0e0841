"""Listeners of a running pipeline, and the structured log line of each checkpoint."""

from __future__ import annotations

import heapq
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from spark_jobs.observe.history.model import Acknowledgement, Event, RuleCount, SplitLag, StateSize, of_absence
from spark_jobs.observe.history.phases import DECIDING
from spark_jobs.observe.lag import Lag
from spark_jobs.observe.withheld import Poll, WithheldSplit
from twophase.news import DriverEvent, SinkAway, SinkJoined
from twophase.positions import total
from twophase.status import Status
from twophase.values import CheckpointRecord, OffsetRange

_log = logging.getLogger("eos.checkpoint")


@dataclass(frozen=True, slots=True)
class CheckpointReport:
    """The figures of one decided checkpoint."""

    record: CheckpointRecord
    waiting: int  # checkpoints that are decided and not committed everywhere, this one included
    epoch: int
    replayed: bool
    duration_s: float
    durations_s: Mapping[str, float]  # of the driver's actions, see Driver.durations_s
    splits: tuple[SplitLag, ...] | None  # newest measured lag, by split; None if it is unknown
    at: float = 0.0  # seconds since 1970: now
    acknowledgements: tuple[Acknowledgement, ...] = ()  # durations of its tasks
    skipped: Mapping[str, int] = field(default_factory=dict)  # by source: bad records that it skipped
    lag_age_s: float | None = None  # age of the newest measured lag, known or not; None: it was never measured
    rules: tuple[RuleCount, ...] = ()  # rows by rule of each step with `expect`

    @property
    def lag(self) -> int | None:
        """Return the newest measured lag; None if it is unknown (`observe.lag`)."""
        return total(each.records for each in self.splits) if self.splits is not None else None

    @property
    def records(self) -> int | None:
        """Offsets that the checkpoint covers, over all splits; None if a source does not count."""
        return self.record.records


class Listener:
    """Base of listeners: a subclass overrides the methods that it needs.

    Each method is called in the thread where the event happens. A listener must not block for long or raise.
    """

    def on_state(self, text: str) -> None:
        """Handle a new state of the pipeline: starting, running, restarting, stopping, or an Ending."""

    def on_columns(self, sources: Mapping[str, Mapping[str, str]], sinks: Mapping[str, Mapping[str, str]]) -> None:
        """Handle the types of all columns, by source or sink and by column. Called at each start of the query."""

    def on_checkpoint(self, report: CheckpointReport) -> None:
        """Handle a checkpoint that is committed in all sinks; or only decided, if a sink has a backlog."""

    def on_withheld(self, splits: Sequence[WithheldSplit]) -> None:
        """Handle the complete list of splits that have records that cannot be read yet."""

    def on_polls(self, polls: Sequence[Poll]) -> None:
        """Handle the newest poll of each source. At least one poll is new."""

    def on_lag(self, lag: Lag) -> None:
        """Handle a new measurement of the lag, or a failed one. Called in a thread of the lag monitor."""

    def on_planned(self, checkpoint_id: int, plan_s: float) -> None:
        """Handle the duration of Spark's planning of a checkpoint, after `on_checkpoint`."""

    def on_state_size(self, size: StateSize) -> None:
        """Handle a query's state and watermark after a checkpoint, if it has one of them. After `on_planned`."""

    def on_driver_event(self, news: DriverEvent) -> None:
        """Handle an event of the driver, also in one of the driver's threads."""

    def on_status(self, status: Status) -> None:
        """Handle the value of head and its newest records, before an epoch starts."""

    def on_event(self, event: Event) -> None:
        """Handle an event of the history: a failure, a restart, a request and its answer."""

    def on_backlog(self, waiting: int) -> None:
        """Handle the number of decided and uncommitted checkpoints: 0 after a start, the rest at the end."""


@dataclass(frozen=True, slots=True)
class Listeners(Listener):
    """A listener that calls several listeners in order."""

    each: Sequence[Listener]

    def on_state(self, text: str) -> None:
        for one in self.each:
            one.on_state(text)

    def on_columns(self, sources: Mapping[str, Mapping[str, str]], sinks: Mapping[str, Mapping[str, str]]) -> None:
        for one in self.each:
            one.on_columns(sources, sinks)

    def on_checkpoint(self, report: CheckpointReport) -> None:
        for one in self.each:
            one.on_checkpoint(report)

    def on_withheld(self, splits: Sequence[WithheldSplit]) -> None:
        for one in self.each:
            one.on_withheld(splits)

    def on_polls(self, polls: Sequence[Poll]) -> None:
        for one in self.each:
            one.on_polls(polls)

    def on_lag(self, lag: Lag) -> None:
        for one in self.each:
            one.on_lag(lag)

    def on_planned(self, checkpoint_id: int, plan_s: float) -> None:
        for one in self.each:
            one.on_planned(checkpoint_id, plan_s)

    def on_state_size(self, size: StateSize) -> None:
        for one in self.each:
            one.on_state_size(size)

    def on_driver_event(self, news: DriverEvent) -> None:
        for one in self.each:
            one.on_driver_event(news)

    def on_status(self, status: Status) -> None:
        for one in self.each:
            one.on_status(status)

    def on_event(self, event: Event) -> None:
        for one in self.each:
            one.on_event(event)

    def on_backlog(self, waiting: int) -> None:
        for one in self.each:
            one.on_backlog(waiting)


_SHOWN: Final = 8  # splits in a line: it must not grow with their number
_SILENT_S: Final = 60.0
"""Time without a line of a checkpoint after which the lag gets a separate line."""


@dataclass(slots=True)
class LogListener(Listener):
    """A listener that logs one line per checkpoint, as `key=value`, and the lag where no checkpoint completes."""

    pipeline: str
    _logged_at_s: float = field(default_factory=time.monotonic, init=False)  # newest line that has the lag
    _logged_lag: str = field(default="", init=False)

    def on_state(self, text: str) -> None:
        _log.info("pipeline=%s state=%s", self.pipeline, text)

    def on_driver_event(self, news: DriverEvent) -> None:
        """Log the events that may need an action of the operator."""
        if isinstance(news, SinkAway | SinkJoined):
            event = of_absence(news, time.time())
            _log.warning("pipeline=%s %s%s", self.pipeline, event.message, event.remedy and f"; {event.remedy}")

    def on_lag(self, lag: Lag) -> None:
        """Log a lag that changed, at most once a minute, and only if no checkpoint completes."""
        now = time.time()
        records, age_s = lag.records(now), lag.age_s(now)
        shown = "?" if records is None else str(records)
        if time.monotonic() - self._logged_at_s < _SILENT_S or shown == self._logged_lag:
            return
        self._logged_at_s, self._logged_lag = time.monotonic(), shown
        age = "?" if age_s is None else f"{age_s:.1f}"
        _log.info("pipeline=%s lag=%s lag_age_s=%s", self.pipeline, shown, age)

    def on_checkpoint(self, report: CheckpointReport) -> None:
        record = report.record
        seconds = report.durations_s
        self._logged_at_s = time.monotonic()
        self._logged_lag = "?" if report.lag is None else str(report.lag)
        for rule in report.rules:
            if rule.failed:
                _log.warning(
                    "pipeline=%s checkpoint=%d expectation step=%s rule=%s action=%s failed=%d rows=%d",
                    *(self.pipeline, record.checkpoint_id),
                    *(rule.step, rule.rule, rule.action, rule.failed, rule.rows),
                )
        _log.info(
            "pipeline=%s checkpoint=%d state=%s epoch=%d try=%d %srecords=%s rows=%d %swriters=%d duration_s=%.3f "
            "prepare_s=%.3f decide_s=%.3f commit_s=%.3f close_s=%.3f lag=%s lag_age_s=%s offsets=%s",
            self.pipeline,
            record.checkpoint_id,
            f"decided waiting={report.waiting}" if report.waiting else "committed",
            report.epoch,
            record.scope.attempt,
            "replayed=true " if report.replayed else "",
            "?" if report.records is None else report.records,
            record.rows,
            _left_out(report),
            sum(map(len, record.committables.values())),
            report.duration_s,
            seconds.get("RunWriters", 0.0),
            sum(seconds.get(name, 0.0) for name in DECIDING),
            seconds.get("Commit", 0.0),
            seconds.get("Revoke", 0.0) + seconds.get("ListPrepared", 0.0) + seconds.get("AbortPrepared", 0.0),
            self._logged_lag,
            "?" if report.lag_age_s is None else f"{report.lag_age_s:.1f}",
            _offsets([each for ranges in record.ranges.values() for each in ranges]),
        )


def _left_out(report: CheckpointReport) -> str:
    skipped, failed = sum(report.skipped.values()), sum(each.failed for each in report.rules)
    return (f"skipped={skipped} " if skipped else "") + (f"failed_expectations={failed} " if failed else "")


def _offsets(ranges: Sequence[OffsetRange]) -> str:
    """Return the ranges with the most offsets, in the order of the record, and the number of the others."""
    if not ranges:
        return "none"
    most = {each.split for each in heapq.nlargest(_SHOWN, ranges, key=lambda each: each.records or 0)}
    shown = ",".join(f"{each.split}[{each.start},{each.end})" for each in ranges if each.split in most)
    return f"{shown},and {len(ranges) - len(most)} more" if len(ranges) > len(most) else shown


@dataclass(slots=True)
class Totals:
    """Totals of a run so far, for the live line and the closing line."""

    started_at_s: float = field(default_factory=time.monotonic)
    state_text: str = "starting"
    checkpoints: int = 0
    records: int = 0
    rows: int = 0
    waiting: int = 0
    restarts: int = 0
    last: CheckpointReport | None = None
    last_at_s: float = 0.0
    records_per_s: float = 0.0

    def on_state(self, text: str) -> None:
        self.state_text = text
        self.restarts += text.startswith("restarting")

    def on_checkpoint(self, report: CheckpointReport) -> None:
        """Add a checkpoint. The rate is a moving average: the last checkpoint has half of the weight."""
        now = time.monotonic()
        since = now - (self.last_at_s or self.started_at_s)
        rate = (report.records or 0) / max(since, 1e-6)
        self.records_per_s = rate if self.checkpoints == 0 else (self.records_per_s + rate) / 2
        self.last_at_s, self.last, self.waiting = now, report, report.waiting
        if not report.replayed:
            self.checkpoints += 1
            self.records += report.records or 0
            self.rows += report.record.rows

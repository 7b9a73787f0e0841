"""What a running pipeline tells: one structured log line per checkpoint, and a live line on a terminal."""

from __future__ import annotations

import heapq
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from spark_jobs.observe.history.model import Acknowledgement, Event, SplitLag, of_absence
from spark_jobs.observe.withheld import Poll, WithheldSplit
from twophase.news import DriverEvent, SinkAway, SinkJoined
from twophase.positions import total
from twophase.status import Status
from twophase.values import CheckpointRecord, OffsetRange

_log = logging.getLogger("eos.checkpoint")


@dataclass(frozen=True, slots=True)
class CheckpointReport:
    """One decided checkpoint, in figures."""

    record: CheckpointRecord
    waiting: int  # checkpoints that are decided and not committed everywhere; 0: this one is, and all before it
    epoch: int
    replayed: bool
    duration_s: float
    durations_s: Mapping[str, float]  # of the driver's actions, see Driver.durations_s
    splits: tuple[SplitLag, ...] | None  # how far behind the source it is; None where the source does not say
    at: float = 0.0  # seconds since 1970: now
    acknowledgements: tuple[Acknowledgement, ...] = ()  # where its tasks' time went
    skipped: Mapping[str, int] = field(default_factory=dict)  # by source: bad records that it left out

    @property
    def lag(self) -> int | None:
        """Records that were there and not yet planned; None where the source does not say."""
        return total(each.records for each in self.splits) if self.splits is not None else None

    @property
    def records(self) -> int | None:
        """Offsets covered, over all splits. None: a source does not count."""
        return self.record.records


class Listener:
    """Told what happens, from the thread in which it happens. Must not block for long, and never raises.

    Nothing is done about what a listener does not ask for.
    """

    def on_state(self, text: str) -> None:
        """The pipeline is in another state: starting, running, restarting, stopping; or at its end (Ending)."""

    def on_checkpoint(self, report: CheckpointReport) -> None:
        """A checkpoint is committed everywhere, or where a sink is behind, decided: it will be."""

    def on_withheld(self, splits: Sequence[WithheldSplit]) -> None:
        """These records exist and cannot be read yet: all that are known, by source and split."""

    def on_polls(self, polls: Sequence[Poll]) -> None:
        """The newest poll of each source, at least one of which is new."""

    def on_planned(self, checkpoint_id: int, plan_s: float) -> None:
        """So long Spark's plan of a checkpoint took that was reported before."""

    def on_driver_event(self, news: DriverEvent) -> None:
        """What the driver tells, also from threads of its own."""

    def on_status(self, status: Status) -> None:
        """What head holds when an epoch is about to start, with its newest records."""

    def on_event(self, event: Event) -> None:
        """A failure, a restart, or what else is worth to be remembered."""

    def on_backlog(self, waiting: int) -> None:
        """So many checkpoints are decided and not committed: none after a start, and at the end what is left."""


@dataclass(frozen=True, slots=True)
class Listeners(Listener):
    """Several, told one after another."""

    each: Sequence[Listener]

    def on_state(self, text: str) -> None:
        for one in self.each:
            one.on_state(text)

    def on_checkpoint(self, report: CheckpointReport) -> None:
        for one in self.each:
            one.on_checkpoint(report)

    def on_withheld(self, splits: Sequence[WithheldSplit]) -> None:
        for one in self.each:
            one.on_withheld(splits)

    def on_polls(self, polls: Sequence[Poll]) -> None:
        for one in self.each:
            one.on_polls(polls)

    def on_planned(self, checkpoint_id: int, plan_s: float) -> None:
        for one in self.each:
            one.on_planned(checkpoint_id, plan_s)

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


@dataclass(slots=True)
class LogListener(Listener):
    """One line per checkpoint, as `key=value`."""

    pipeline: str

    def on_state(self, text: str) -> None:
        _log.info("pipeline=%s state=%s", self.pipeline, text)

    def on_driver_event(self, news: DriverEvent) -> None:
        """See Listener. Only what a person may have to do something about."""
        if isinstance(news, SinkAway | SinkJoined):
            event = of_absence(news, time.time())
            _log.warning("pipeline=%s %s%s", self.pipeline, event.message, event.remedy and f"; {event.remedy}")

    def on_checkpoint(self, report: CheckpointReport) -> None:
        record = report.record
        seconds = report.durations_s
        _log.info(
            "pipeline=%s checkpoint=%d state=%s epoch=%d try=%d %srecords=%s rows=%d %swriters=%d duration_s=%.3f "
            "prepare_s=%.3f decide_s=%.3f commit_s=%.3f close_s=%.3f lag=%s offsets=%s",
            self.pipeline,
            record.checkpoint_id,
            f"decided waiting={report.waiting}" if report.waiting else "committed",
            report.epoch,
            record.scope.attempt,
            "replayed=true " if report.replayed else "",
            "?" if report.records is None else report.records,
            record.rows,
            f"skipped={sum(report.skipped.values())} " if report.skipped else "",
            sum(map(len, record.committables.values())),
            report.duration_s,
            seconds.get("RunWriters", 0.0),
            seconds.get("PutRecord", 0.0) + seconds.get("Swap decide", 0.0) + seconds.get("Swap note", 0.0),
            seconds.get("Commit", 0.0),
            seconds.get("Revoke", 0.0) + seconds.get("ListPrepared", 0.0) + seconds.get("AbortPrepared", 0.0),
            "?" if report.lag is None else report.lag,
            _offsets([each for ranges in record.ranges.values() for each in ranges]),
        )


def _offsets(ranges: Sequence[OffsetRange]) -> str:
    """Return those with the most offsets, in the order of the record, and how many there are besides."""
    if not ranges:
        return "none"
    most = {each.split for each in heapq.nlargest(_SHOWN, ranges, key=lambda each: each.records or 0)}
    shown = ",".join(f"{each.split}[{each.start},{each.end})" for each in ranges if each.split in most)
    return f"{shown},and {len(ranges) - len(most)} more" if len(ranges) > len(most) else shown


@dataclass(slots=True)
class Totals:
    """What a run has done so far, for the live line and the closing line."""

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
        """See Listener. The rate is that of the newest checkpoints: half of it is the last one's."""
        now = time.monotonic()
        since = now - (self.last_at_s or self.started_at_s)
        rate = (report.records or 0) / max(since, 1e-6)
        self.records_per_s = rate if self.checkpoints == 0 else (self.records_per_s + rate) / 2
        self.last_at_s, self.last, self.waiting = now, report, report.waiting
        if not report.replayed:
            self.checkpoints += 1
            self.records += report.records or 0
            self.rows += report.record.rows

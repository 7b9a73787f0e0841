"""Figures of running pipelines for Prometheus, kept up by what the runs tell: nothing is asked or read for a scrape.

Counters begin at 0 with each process, as Prometheus expects. docs/reference/metrics.md describes each metric.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import prometheus_client
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from connectors.spec import Spec
from spark_jobs.observe.finishing import Finished, Finishing
from spark_jobs.observe.history.model import Event, StateOperator, StateSize
from spark_jobs.observe.lag import Lag
from spark_jobs.observe.report import CheckpointReport, Listener
from spark_jobs.observe.withheld import Poll, WithheldSplit
from twophase.news import Aborted, CommittedUpTo, Decided, DriverEvent, SinkAway, SinkCommitted, SinkJoined
from twophase.status import Status
from twophase.values import CheckpointRecord

_DURATIONS_S: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_PHASES_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)

Levels = Mapping[tuple[str, ...], int]
"""A gauge's values by its labels, replaced as a whole: what has gone is not shown any more."""


class Metrics:
    """Of all pipelines of this process, in a registry of their own."""

    def __init__(self, *, per_split: bool = False) -> None:
        """`per_split`: a series for each split as well, which Prometheus has to keep."""
        registry = self._registry = CollectorRegistry()

        def counter(name: str, words: str, *labels: str) -> prometheus_client.Counter:
            return prometheus_client.Counter(f"eos_{name}", words, ("pipeline", *labels), registry=registry)

        def gauge(name: str, words: str, *labels: str) -> prometheus_client.Gauge:
            return prometheus_client.Gauge(f"eos_{name}", words, ("pipeline", *labels), registry=registry)

        def histogram(name: str, words: str, steps_s: tuple[float, ...], *labels: str) -> prometheus_client.Histogram:
            names = ("pipeline", *labels)
            return prometheus_client.Histogram(f"eos_{name}", words, names, registry=registry, buckets=steps_s)

        self.completed = counter("checkpoints_completed", "Checkpoints that were decided.")
        self.failed = counter("checkpoints_failed", "Tries of a checkpoint that were aborted.")
        self.duration = histogram(
            "checkpoint_duration_seconds", "From its start until it was committed everywhere.", _DURATIONS_S
        )
        self.phase = histogram("checkpoint_phase_seconds", "Where its time went.", _PHASES_S, "phase")
        self.last_id = gauge("checkpoint_last_completed_id", "The newest completed checkpoint.")
        self.last_at = gauge("checkpoint_last_completed_timestamp_seconds", "When that was decided.")
        self.records = counter("records", "Offsets covered by completed checkpoints.", "source")
        self.rows = counter("rows", "Rows of completed checkpoints.", "sink")
        self.written = counter("written_bytes", "Bytes of completed checkpoints.", "sink")
        self.dead_letters = counter("dead_letters", "Records and rows that were put aside.")
        self.skipped = counter("skipped_records", "Bad records that were left out of checkpoints.", "source")
        rule = ("step", "rule", "action")
        self.checked = counter("expectation_rows", "Rows that a rule of a step has seen.", *rule)
        self.broken = counter("expectation_failed_rows", "Rows that do not meet a rule of a step.", *rule)
        operator = ("step", "operator", "number")
        self.updated = counter("state_updated_rows", "Rows of state that checkpoints have updated.", *operator)
        self.dropped = counter("state_dropped_rows", "Input rows that the watermark has excluded.", *operator)
        self.restarts = counter("restarts", "Restarts after a failure.")
        self.up = gauge("up", "1 while the query runs or waits, 0 while it starts, restarts or has ended.")
        self.standby = gauge("standby", "1 while this driver is a standby: another one runs the pipeline.")
        self.paused = gauge("paused", "1 while the pipeline is paused: it runs, and takes no checkpoint.")
        self.info = prometheus_client.Info("eos_pipeline", "What runs.", ("pipeline",), registry=registry)
        self._levels = _LevelCollector(per_split)
        registry.register(self._levels)

    def listener(self, spec: Spec, *, run_id: str, version: str) -> PipelineMetrics:
        """What a run of this pipeline tells from now on."""
        found = PipelineMetrics(self, spec, run_id, version)
        self._levels.of[found.pipeline] = found
        return found

    def exposed(self) -> tuple[bytes, str]:
        """In the text format, and its content type."""
        return generate_latest(self._registry), CONTENT_TYPE_PLAIN_0_0_4


class PipelineMetrics(Listener):
    """Of one run. Told from several threads; the page's thread takes none of its locks."""

    def __init__(self, metrics: Metrics, spec: Spec, run_id: str, version: str) -> None:
        self._all = metrics
        self._mask = spec.mask
        self._dead_letter = spec.dead_letter.name if spec.dead_letter is not None else None
        self._lock = threading.Lock()
        self._finishing = Finishing()
        self._waiting: dict[str, set[int]] = {entry.name: set() for entry in spec.outputs}
        self.away = frozenset[str]()
        self.pipeline = spec.mask(spec.pipeline)
        self.lag = Lag()
        self.backlog: Levels = {}
        self.withheld_splits: tuple[WithheldSplit, ...] = ()
        self.polls: dict[str, Poll] = {}
        self.state: dict[tuple[str, str, str], StateOperator] = {}  # replaced as a whole
        self.interval_s = spec.checkpoint.interval_s
        self.progressed_at = time.time()  # of a completed checkpoint, or a poll of every source that found nothing
        self.sources = tuple(spec.mask(source.name) for source in spec.sources)
        self.sinks = tuple(spec.mask(entry.name) for entry in spec.outputs)
        self._measure_backlog()
        facts = {"mode": spec.checkpoint.mode, "run": run_id, "version": version}
        metrics.info.labels(self.pipeline).info({name: spec.mask(value) for name, value in facts.items()})
        for plain in (metrics.completed, metrics.failed, metrics.duration, metrics.dead_letters, metrics.restarts):
            plain.labels(self.pipeline)  # there from the beginning, at 0
        for source in spec.sources:
            metrics.records.labels(self.pipeline, spec.mask(source.name))
            metrics.skipped.labels(self.pipeline, spec.mask(source.name))
        for step in spec.expecting:
            for rule in step.expect:
                labels = self.pipeline, spec.mask(step.name), spec.mask(rule.name), rule.action
                metrics.checked.labels(*labels)
                metrics.broken.labels(*labels)
        for entry in spec.outputs:
            metrics.rows.labels(self.pipeline, spec.mask(entry.name))
            metrics.written.labels(self.pipeline, spec.mask(entry.name))
        metrics.up.labels(self.pipeline).set(0)
        metrics.standby.labels(self.pipeline).set(0)
        metrics.paused.labels(self.pipeline).set(0)
        self._is_standby = False

    def on_state(self, text: str) -> None:
        self._set_standby(text.startswith("standby"))
        self._all.up.labels(self.pipeline).set(text in {"running", "paused"} or text.startswith("waiting"))
        self._all.paused.labels(self.pipeline).set(text == "paused")

    def _set_standby(self, is_standby: bool) -> None:
        """Withdraw the levels of an earlier run when a standby begins. Progress counts from the end of its wait."""
        if is_standby:
            self.lag, self.withheld_splits, self.polls, self.away, self.state = Lag(), (), {}, frozenset(), {}
            with self._lock:
                self._waiting = {sink: set() for sink in self._waiting}
                self._measure_backlog()
        elif self._is_standby:
            self.progressed_at = time.time()
        self._is_standby = is_standby
        self._all.standby.labels(self.pipeline).set(is_standby)

    def on_withheld(self, splits: Sequence[WithheldSplit]) -> None:
        self.withheld_splits = tuple(splits)

    def on_polls(self, polls: Sequence[Poll]) -> None:
        self.polls = {**self.polls, **{self._mask(each.source): each for each in polls}}
        if self.polls.keys() >= set(self.sources) and not any(each.unread != 0 for each in self.polls.values()):
            self.progressed_at = max(self.progressed_at, min(each.at for each in self.polls.values()))

    def on_event(self, event: Event) -> None:
        if event.kind == "restart":
            self._all.restarts.labels(self.pipeline).inc()

    def on_status(self, status: Status) -> None:
        """See Listener. What is decided and waits was counted by an earlier run."""
        self.away = frozenset()  # the start that follows says which
        with self._lock:
            self._commit_up_to(status.head.committed)
            for record in status.checkpoints:
                if not status.is_committed(record):
                    self._wait_for(record)
            self._measure_backlog()
        self._completed(status.head.completed, max((each.decided_at for each in status.checkpoints), default=None))

    def on_driver_event(self, news: DriverEvent) -> None:
        with self._lock:
            match news:
                case Decided(record):
                    self._finishing.decided(record)
                    self._wait_for(record)
                    self._count(record)
                case Aborted():
                    self._all.failed.labels(self.pipeline).inc()
                case SinkCommitted():
                    self._waiting.setdefault(news.sink, set()).discard(news.checkpoint_id)
                    self._finishing.committed_in_sink(news.checkpoint_id, news.commit_s)
                case SinkAway():
                    self.away = self.away | {news.sink}
                case SinkJoined():
                    self.away = self.away - {news.sink}
                case CommittedUpTo():
                    self._commit_up_to(news.checkpoint_id)
                    self._observe(self._finishing.committed(news.checkpoint_id, time.time()))
            self._measure_backlog()

    def on_lag(self, lag: Lag) -> None:
        self.lag = lag

    def on_checkpoint(self, report: CheckpointReport) -> None:
        if not report.replayed:
            for source, count in report.skipped.items():
                self._all.skipped.labels(self.pipeline, self._mask(source)).inc(count)
            for rule in report.rules:
                labels = self.pipeline, self._mask(rule.step), self._mask(rule.rule), rule.action
                self._all.checked.labels(*labels).inc(rule.rows)
                self._all.broken.labels(*labels).inc(rule.failed)
        with self._lock:
            self._observe(self._finishing.measured(report))

    def on_planned(self, checkpoint_id: int, plan_s: float) -> None:
        self._all.phase.labels(self.pipeline, "plan").observe(plan_s)

    def on_state_size(self, size: StateSize) -> None:
        self.state = {(self._mask(each.step), each.operator, str(each.number)): each for each in size.by_operator}
        for labels, each in self.state.items():
            self._all.updated.labels(self.pipeline, *labels).inc(each.updated)
            self._all.dropped.labels(self.pipeline, *labels).inc(each.dropped)

    def _count(self, record: CheckpointRecord) -> None:
        metrics = self._all
        metrics.completed.labels(self.pipeline).inc()
        self.progressed_at = max(self.progressed_at, record.decided_at)
        self._completed(record.checkpoint_id, record.decided_at)
        for source, ranges in record.ranges.items():
            covered = sum(each.records or 0 for each in ranges)
            metrics.records.labels(self.pipeline, self._mask(source)).inc(covered)
        for sink, group in record.committables.items():
            rows = sum(each.rows for each in group)
            metrics.rows.labels(self.pipeline, self._mask(sink)).inc(rows)
            metrics.written.labels(self.pipeline, self._mask(sink)).inc(sum(each.bytes for each in group))
            if sink == self._dead_letter:
                metrics.dead_letters.labels(self.pipeline).inc(rows)

    def _completed(self, checkpoint_id: int, decided_at: float | None) -> None:
        if checkpoint_id >= 0:
            self._all.last_id.labels(self.pipeline).set(checkpoint_id)
        if decided_at is not None:
            self._all.last_at.labels(self.pipeline).set(decided_at)

    def _wait_for(self, record: CheckpointRecord) -> None:
        for sink in record.committables:
            self._waiting.setdefault(sink, set()).add(record.checkpoint_id)

    def _commit_up_to(self, checkpoint_id: int) -> None:
        for sink, numbers in self._waiting.items():
            self._waiting[sink] = {each for each in numbers if each > checkpoint_id}

    def _observe(self, finished: Iterable[Finished]) -> None:
        for each in finished:
            self._all.duration.labels(self.pipeline).observe(each.committed_at - each.record.started_at)
            for name, seconds in each.phases.items():
                if seconds is not None:
                    self._all.phase.labels(self.pipeline, name).observe(seconds)

    def withheld_levels(self, now: float) -> tuple[Levels, Mapping[tuple[str, ...], float]]:
        """Return offsets that cannot be read yet and the age of the oldest, by source; 0 where there are none."""
        records: Counter[tuple[str, ...]] = Counter({(source,): 0 for source in self.sources})
        seconds = dict.fromkeys(records, 0.0)
        for each in self.withheld_splits:
            labels = (self._mask(each.source),)
            records[labels] += each.records or 0
            seconds[labels] = max(seconds.get(labels, 0.0), now - each.since)
        return dict(records), seconds

    def split_lags(self, now: float) -> Mapping[str, Mapping[str, int]]:
        """Return the lag by source and split. A source whose lag is unknown is left out."""
        found: dict[str, Counter[str]] = {}
        for each in self.lag.sources:
            if not each.unknown(now):
                splits = found.setdefault(self._mask(each.source), Counter())
                for split in each.splits:
                    splits[self._mask(split.split)] += split.records or 0
        return found

    def measured_at(self) -> Mapping[str, float]:
        """Return by source the time of the newest measurement of its lag that succeeded."""
        return {self._mask(each.source): each.at for each in self.lag.sources if each.at is not None}

    @property
    def away_sinks(self) -> frozenset[str]:
        """The sinks that were away at the start and have not joined, as they are shown."""
        return frozenset(map(self._mask, self.away))

    def _measure_backlog(self) -> None:
        backlog: Counter[tuple[str, ...]] = Counter()
        for sink, numbers in self._waiting.items():
            backlog[(self._mask(sink),)] += len(numbers)
        self.backlog = dict(backlog)


@dataclass(slots=True, eq=False)
class _LevelCollector(Collector):
    """Gauges whose labels come and go."""

    per_split: bool
    of: dict[str, PipelineMetrics] = field(default_factory=dict)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """For each scrape."""
        words = "Offsets between the pipeline and the end of the source. Absent while it is unknown."
        lag = GaugeMetricFamily("eos_lag_records", words, labels=("pipeline", "source"))
        words = "When the lag was measured last, with success."
        measured = GaugeMetricFamily("eos_lag_measured_timestamp_seconds", words, labels=("pipeline", "source"))
        words = "The lag of the split that is furthest behind."
        furthest = GaugeMetricFamily("eos_lag_records_max", words, labels=("pipeline", "source"))
        of_split = GaugeMetricFamily("eos_split_lag_records", "By split.", labels=("pipeline", "source", "split"))
        words = "Checkpoints that are decided, and not visible in this sink."
        backlog = GaugeMetricFamily("eos_sink_backlog_checkpoints", words, labels=("pipeline", "sink"))
        words = "1 while the pipeline runs without this sink, which was away at its start; else 0."
        away = GaugeMetricFamily("eos_sink_away", words, labels=("pipeline", "sink"))
        words = "Offsets that exist in the source and cannot be read yet."
        withheld = GaugeMetricFamily("eos_withheld_records", words, labels=("pipeline", "source"))
        words = "How long the oldest of them has been so."
        age = GaugeMetricFamily("eos_withheld_seconds", words, labels=("pipeline", "source"))
        words = "When a source was polled last, with success."
        polled = GaugeMetricFamily("eos_source_polled_timestamp_seconds", words, labels=("pipeline", "source"))
        words = "Offsets that this poll could read, and no plan before had taken."
        unread = GaugeMetricFamily("eos_source_unread_records", words, labels=("pipeline", "source"))
        words = "When a checkpoint was completed last, or nothing was there to read."
        progress = GaugeMetricFamily("eos_progress_timestamp_seconds", words, labels=("pipeline",))
        words = "How far apart checkpoints are, as the spec has it."
        interval = GaugeMetricFamily("eos_checkpoint_interval_seconds", words, labels=("pipeline",))
        labelled = ("pipeline", "step", "operator", "number")
        rows = GaugeMetricFamily("eos_state_rows", "Rows that an operator keeps.", labels=labelled)
        words = "Memory of an operator's state, with RocksDB's caches."
        memory = GaugeMetricFamily("eos_state_memory_bytes", words, labels=labelled)
        words = "Time in which the newest checkpoint has committed an operator's state, summed over its tasks."
        commit = GaugeMetricFamily("eos_state_commit_seconds", words, labels=labelled)
        now = time.time()
        for pipeline, found in list(self.of.items()):
            records, seconds = found.withheld_levels(now)
            for labels, value in records.items():
                withheld.add_metric((pipeline, *labels), value)
                age.add_metric((pipeline, *labels), seconds[labels])
            for source, at in found.measured_at().items():
                measured.add_metric((pipeline, source), at)
            for source, splits in found.split_lags(now).items():
                lag.add_metric((pipeline, source), sum(splits.values()))
                furthest.add_metric((pipeline, source), max(splits.values(), default=0))
                for split, value in splits.items() if self.per_split else ():
                    of_split.add_metric((pipeline, source, split), value)
            for labels, value in found.backlog.items():
                backlog.add_metric((pipeline, *labels), value)
            for source, poll in found.polls.items():
                polled.add_metric((pipeline, source), poll.at)
                if poll.unread is not None:
                    unread.add_metric((pipeline, source), poll.unread)
            progress.add_metric((pipeline,), found.progressed_at)
            interval.add_metric((pipeline,), found.interval_s)
            for operator, each in found.state.items():
                rows.add_metric((pipeline, *operator), each.rows)
                memory.add_metric((pipeline, *operator), each.memory_bytes)
                commit.add_metric((pipeline, *operator), each.commit_ms / 1000)
            for sink in found.sinks:
                away.add_metric((pipeline, sink), float(sink in found.away_sinks))
        yield lag
        yield measured
        yield furthest
        yield of_split
        yield backlog
        yield away
        yield withheld
        yield age
        yield polled
        yield unread
        yield progress
        yield interval
        yield rows
        yield memory
        yield commit

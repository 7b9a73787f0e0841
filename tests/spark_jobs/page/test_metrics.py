"""What a run tells becomes figures for Prometheus: each checkpoint once, whichever thread tells it, in any order."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from connectors.spec import Spec
from eos.errors import PrepareError, SinkUnavailableError
from spark_jobs.observe.history.model import Acknowledgement, Event, RuleCount, SplitLag, StateOperator, StateSize
from spark_jobs.observe.lag import Lag, SourceLag
from spark_jobs.observe.report import CheckpointReport
from spark_jobs.observe.withheld import Poll, WithheldSplit
from spark_jobs.page.metrics import Metrics, PipelineMetrics
from tests.page_history import INCARNATION, RUN, Names, spec_of
from twophase.head_value import HeadValue
from twophase.ids import Scope, TransactionId, sink_key
from twophase.news import Aborted, CommittedUpTo, Decided, SinkAway, SinkCommitted, SinkJoined
from twophase.status import Status
from twophase.values import CheckpointRecord, Committable, OffsetRange


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    return spec_of(tmp_path)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(per_split=True)


@pytest.fixture
def told(metrics: Metrics, spec: Spec) -> PipelineMetrics:
    return metrics.listener(spec, run_id=RUN, version="9")


def record(number: int) -> CheckpointRecord:
    """Of 100 records, 80 rows in each of two sinks, one dead letter."""
    scope = Scope(INCARNATION, 1, number)
    committables = {
        sink: (Committable(TransactionId(scope, sink_key(sink), 0, number), rows, rows * 10),)
        for sink, rows in (("warehouse", 80), ("archive", 80), ("dead_letter", 1))
    }
    start = number * 100
    ranges = {"orders": (OffsetRange("orders/0", start, start + 60), OffsetRange("orders/1", 0, 40))}
    return CheckpointRecord(scope, ranges, "{}", committables, 1000.0 + number, 1001.0 + number)


def report(number: int, *, replayed: bool = False) -> CheckpointReport:
    found = record(number)
    splits = tuple(SplitLag(1001.0, "orders", f"orders/{n}", 500 + 7 * n, 500) for n in range(2))
    tasks = (Acknowledgement("warehouse", 0, 1, 80, 800, 1000.9 + number, 0.4, 0.2, 0.1),)
    seconds, skipped = {"Swap decide": 0.05}, {"orders": 7}
    rules = (RuleCount("big", "positive", "skip", 80, 2),)
    return CheckpointReport(found, 0, 1, replayed, 1.5, seconds, splits, 1002.0 + number, tasks, skipped, rules=rules)


def figures(metrics: Metrics) -> dict[str, float]:
    """`name` or `name{what differs}` -> value."""
    content, media_type = metrics.exposed()
    assert media_type.startswith("text/plain; version=")
    samples = [each for family in text_string_to_metric_families(content.decode()) for each in family.samples]
    assert {each.labels["pipeline"] for each in samples} == {"orders"}
    found = {}
    for each in samples:
        own = ",".join(value for name, value in sorted(each.labels.items()) if name not in {"pipeline", "le"})
        if not each.name.endswith(("_bucket", "_created")):
            found[f"{each.name}{{{own}}}" if own else each.name] = each.value
    return found


def test_everything_is_there_from_the_start_at_0(metrics: Metrics, told: PipelineMetrics) -> None:
    found = figures(metrics)
    assert found.pop(f"eos_pipeline_info{{exactly-once,{RUN},9}}") == 1
    assert found.pop("eos_progress_timestamp_seconds") == pytest.approx(time.time(), abs=60)
    assert found.pop("eos_checkpoint_interval_seconds") == 2
    assert set(found.values()) == {0}
    assert set(found) >= {
        "eos_up",
        "eos_checkpoints_completed_total",
        "eos_checkpoints_failed_total",
        "eos_checkpoint_duration_seconds_count",
        "eos_restarts_total",
        "eos_dead_letters_total",
        "eos_records_total{orders}",
        "eos_skipped_records_total{orders}",
        "eos_rows_total{archive}",
        "eos_written_bytes_total{warehouse}",
        "eos_sink_backlog_checkpoints{dead_letter}",
        "eos_sink_away{dead_letter}",
        "eos_withheld_records{orders}",
        "eos_withheld_seconds{orders}",
    }


def test_a_checkpoint_whose_sinks_commit_at_once(metrics: Metrics, told: PipelineMetrics) -> None:
    told.on_state("paused")
    assert (figures(metrics)["eos_up"], figures(metrics)["eos_paused"]) == (1, 1)
    told.on_state("running")
    for number in range(3):
        told.on_driver_event(Decided(record(number)))
        for sink in ("warehouse", "archive", "dead_letter"):
            told.on_driver_event(SinkCommitted(INCARNATION, number, sink, 0.2))
        told.on_driver_event(CommittedUpTo(INCARNATION, number))
        told.on_checkpoint(report(number))
        told.on_planned(number, 0.03)
    told.on_checkpoint(report(2, replayed=True))
    found = figures(metrics)
    assert not [name for name in found if "lag" in name], "it is measured apart from checkpoints"
    assert (found["eos_up"], found["eos_paused"]) == (1, 0)
    assert found["eos_checkpoints_completed_total"] == 3
    assert (found["eos_records_total{orders}"], found["eos_rows_total{warehouse}"]) == (300, 240)
    assert (found["eos_written_bytes_total{archive}"], found["eos_dead_letters_total"]) == (2400, 3)
    assert found["eos_skipped_records_total{orders}"] == 21
    assert found["eos_expectation_rows_total{skip,positive,big}"] == 240
    assert found["eos_expectation_failed_rows_total{skip,positive,big}"] == 6
    assert found["eos_checkpoint_last_completed_id"] == 2
    assert found["eos_checkpoint_last_completed_timestamp_seconds"] == 1003
    assert found["eos_checkpoint_duration_seconds_count"] == 3
    names = ("plan", "start", "read", "write", "prepare", "decide", "wait", "commit")
    assert [found[f"eos_checkpoint_phase_seconds_count{{{name}}}"] for name in names] == [3] * 8
    assert found["eos_checkpoint_phase_seconds_sum{read}"] == pytest.approx(1.2)
    assert found["eos_checkpoint_phase_seconds_sum{commit}"] == pytest.approx(0.6)


def test_the_state_of_each_operator(metrics: Metrics, told: PipelineMetrics) -> None:
    assert not [name for name in figures(metrics) if "eos_state" in name]
    totals = StateOperator(0, "totals", "stateStoreSave", 12_000, 300, 20, 7, 5_000_000, 41)
    once = StateOperator(1, "once", "dedupe", 50, 5, 0, 0, 1_000, 2)
    told.on_state_size(StateSize(3, (totals, once), 1.0, None))
    told.on_state_size(StateSize(4, (totals,), 1.0, None))
    found, labels = figures(metrics), "{0,stateStoreSave,totals}"
    assert found[f"eos_state_rows{labels}"] == 12_000
    assert found[f"eos_state_memory_bytes{labels}"] == 5_000_000
    assert found[f"eos_state_commit_seconds{labels}"] == 0.041
    assert found[f"eos_state_updated_rows_total{labels}"] == 600
    assert found[f"eos_state_dropped_rows_total{labels}"] == 14
    assert [name for name in found if name.startswith("eos_state_rows")] == [f"eos_state_rows{labels}"]
    told.on_state("standby")
    assert not [name for name in figures(metrics) if name.startswith("eos_state_rows")]


def test_a_standby_counts_as_one_and_its_progress_begins_with_its_run(
    metrics: Metrics, told: PipelineMetrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After fencing, too: it withdraws what it measured while it ran."""
    told.on_state("running")
    told.on_lag(lag({"orders/0": 7}))
    told.on_driver_event(Decided(record(0)))
    before = figures(metrics)
    assert (before["eos_lag_records{orders}"], before["eos_sink_backlog_checkpoints{archive}"]) == (7, 1)
    told.on_state("standby for a driver on another machine")
    waiting = figures(metrics)
    assert (waiting["eos_up"], waiting["eos_standby"], waiting["eos_sink_backlog_checkpoints{archive}"]) == (0, 1, 0)
    assert not [name for name in waiting if "lag" in name and "backlog" not in name]
    later = time.time() + 3600
    monkeypatch.setattr(time, "time", lambda: later)
    assert figures(metrics)["eos_progress_timestamp_seconds"] < later
    told.on_state("starting")
    told.on_state("running")
    running = figures(metrics)
    assert (running["eos_up"], running["eos_standby"], running["eos_progress_timestamp_seconds"]) == (1, 0, later)


def lag(splits: Mapping[str, int], **changes: Any) -> Lag:
    """Just measured: by split, the records behind."""
    at = time.time()
    found = tuple(SplitLag(at, "orders", split, 500 + records, 500) for split, records in splits.items())
    return Lag((replace(SourceLag("orders", at, found), **changes),))


def test_the_lag_is_there_while_it_is_known(metrics: Metrics, told: PipelineMetrics) -> None:
    measured = lag({"orders/0": 0, "orders/1": 7})
    told.on_lag(measured)
    found = figures(metrics)
    assert (found["eos_lag_records{orders}"], found["eos_lag_records_max{orders}"]) == (7, 7)
    assert (found["eos_split_lag_records{orders,orders/0}"], found["eos_split_lag_records{orders,orders/1}"]) == (0, 7)
    assert found["eos_lag_measured_timestamp_seconds{orders}"] == pytest.approx(measured.at)
    (source,) = measured.sources
    for unknown in (source.failed("no answer"), replace(source, at=time.time() - 31.0)):
        told.on_lag(Lag((unknown,)))
        found = figures(metrics)
        assert {name: value for name, value in found.items() if "lag" in name} == {
            "eos_lag_measured_timestamp_seconds{orders}": pytest.approx(unknown.at)
        }
    told.on_lag(Lag((SourceLag("orders"),)))
    assert not [name for name in figures(metrics) if "lag" in name]


def test_without_being_asked_no_figure_grows_with_the_number_of_splits(spec: Spec) -> None:
    metrics = Metrics()
    told = metrics.listener(spec, run_id=RUN, version="9")
    told.on_lag(lag({f"orders/{number}": 1_000 + number for number in range(1_000)}))
    found = figures(metrics)
    assert (found["eos_lag_records{orders}"], found["eos_lag_records_max{orders}"]) == (1_499_500, 1_999)
    assert not [name for name in found if "orders/" in name]


def test_a_sink_that_is_behind(metrics: Metrics, told: PipelineMetrics) -> None:
    for number in range(4):
        told.on_driver_event(Decided(record(number)))
        told.on_checkpoint(report(number))
        told.on_driver_event(SinkCommitted(INCARNATION, number, "warehouse", 0.1))
    found = figures(metrics)
    assert found["eos_checkpoints_completed_total"] == 4
    assert found["eos_checkpoint_duration_seconds_count"] == 0
    assert found["eos_sink_backlog_checkpoints{archive}"] == 4
    assert found["eos_sink_backlog_checkpoints{warehouse}"] == 0
    told.on_driver_event(SinkCommitted(INCARNATION, 0, "archive", 3.0))
    told.on_driver_event(CommittedUpTo(INCARNATION, 1))
    found = figures(metrics)
    assert found["eos_sink_backlog_checkpoints{archive}"] == 2
    assert found["eos_checkpoint_duration_seconds_count"] == 2
    told.on_driver_event(CommittedUpTo(INCARNATION, 3))
    found = figures(metrics)
    assert found["eos_sink_backlog_checkpoints{archive}"] == 0
    assert found["eos_checkpoint_duration_seconds_count"] == found["eos_checkpoint_phase_seconds_count{wait}"] == 4


def test_a_sink_that_was_away_at_the_start(metrics: Metrics, told: PipelineMetrics) -> None:
    assert figures(metrics)["eos_sink_away{archive}"] == 0
    told.on_driver_event(SinkAway("archive", (3, 4), SinkUnavailableError("no route to its host")))
    found = figures(metrics)
    assert (found["eos_sink_away{archive}"], found["eos_sink_away{warehouse}"]) == (1, 0)
    told.on_driver_event(SinkJoined("archive"))
    assert figures(metrics)["eos_sink_away{archive}"] == 0
    told.on_driver_event(SinkAway("archive", (), SinkUnavailableError("no route to its host")))
    told.on_status(Status(HeadValue("orders", INCARNATION, 3, ("n",)), ()))
    assert figures(metrics)["eos_sink_away{archive}"] == 0, "the start that follows says which is away"


def test_what_a_driver_before_left_waits_and_counts_nothing(metrics: Metrics, told: PipelineMetrics) -> None:
    head = HeadValue("orders", INCARNATION, 2, ("n",), completed=9, committed=7)
    told.on_status(Status(head, (record(9), record(8), record(7))))
    found = figures(metrics)
    assert found["eos_sink_backlog_checkpoints{archive}"] == 2
    assert (found["eos_checkpoint_last_completed_id"], found["eos_checkpoints_completed_total"]) == (9, 0)
    told.on_driver_event(CommittedUpTo(INCARNATION, 9))
    assert figures(metrics)["eos_sink_backlog_checkpoints{archive}"] == 0


def test_failures(metrics: Metrics, told: PipelineMetrics) -> None:
    told.on_state("running")
    told.on_driver_event(Aborted(Scope(INCARNATION, 1, 0), PrepareError("the server is away")))
    told.on_event(Event(1000.0, "failure", "the server is away"))
    told.on_event(Event(1000.0, "restart", "restarting in 1.0 s", delay_s=1.0))
    told.on_state("restarting in 1.0 s")
    found = figures(metrics)
    assert [found[name] for name in ("eos_checkpoints_failed_total", "eos_restarts_total", "eos_up")] == [1, 1, 0]


def test_records_that_cannot_be_read_yet(
    metrics: Metrics, told: PipelineMetrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    told.on_state("waiting for an open transaction")
    told.on_withheld(
        [WithheldSplit("orders", f"orders/{n}", 10, 110 + n, 900.0 + n, 990.0, "a test") for n in range(2)]
    )
    monkeypatch.setattr("spark_jobs.page.metrics.time.time", lambda: 1000.0)
    found = figures(metrics)
    assert found["eos_up"] == 1
    assert (found["eos_withheld_records{orders}"], found["eos_withheld_seconds{orders}"]) == (201, 100)
    told.on_withheld([])
    found = figures(metrics)
    assert (found["eos_withheld_records{orders}"], found["eos_withheld_seconds{orders}"]) == (0, 0)


def test_an_idle_pipeline_progresses_and_one_that_has_records_to_read_does_not(
    metrics: Metrics, told: PipelineMetrics
) -> None:
    begun = figures(metrics)["eos_progress_timestamp_seconds"]
    assert begun == pytest.approx(time.time(), abs=60)
    told.on_polls([Poll("orders", begun + 10, "", {})])
    found = figures(metrics)
    assert (found["eos_source_polled_timestamp_seconds{orders}"], found["eos_source_unread_records{orders}"]) == (
        begun + 10,
        0,
    )
    assert found["eos_progress_timestamp_seconds"] == begun + 10
    told.on_polls([Poll("orders", begun + 20, "", {}, unread=7)])
    found = figures(metrics)
    assert (found["eos_source_polled_timestamp_seconds{orders}"], found["eos_source_unread_records{orders}"]) == (
        begun + 20,
        7,
    )
    assert found["eos_progress_timestamp_seconds"] == begun + 10
    told.on_driver_event(Decided(replace(record(0), decided_at=begun + 30)))
    assert figures(metrics)["eos_progress_timestamp_seconds"] == begun + 30
    assert figures(metrics)["eos_checkpoint_interval_seconds"] == 2


def test_told_by_several_threads_while_it_is_scraped(metrics: Metrics, told: PipelineMetrics) -> None:
    def tell(own: int) -> None:
        for number in range(own, 400, 4):
            told.on_driver_event(Decided(record(number)))
            told.on_driver_event(SinkCommitted(INCARNATION, number, "archive", 0.1))
            told.on_checkpoint(report(number))

    threads = [Thread(target=tell, args=(own,)) for own in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        figures(metrics)
    told.on_driver_event(CommittedUpTo(INCARNATION, 399))
    found = figures(metrics)
    assert found["eos_checkpoints_completed_total"] == found["eos_checkpoint_duration_seconds_count"] == 400
    assert found["eos_records_total{orders}"] == 40_000


def test_no_name_becomes_a_line_or_a_label_of_its_own(metrics: Metrics, tmp_path: Path) -> None:
    pipeline, sink, split = 'o"} 1 \\', 's",x="y\\"', 't"} 1\nforged_total 7\n# HELP \\n/0'
    hostile = spec_of(tmp_path, Names(pipeline, sink))
    told = metrics.listener(hostile, run_id=RUN, version="9")
    told.on_lag(lag({split: 7}))
    families = list(text_string_to_metric_families(metrics.exposed()[0].decode()))
    samples = [sample for family in families for sample in family.samples]
    assert all(sample.name.startswith("eos_") for sample in samples)
    assert {sample.labels["pipeline"] for sample in samples} == {pipeline}
    assert {sample.labels.get("sink") for sample in samples} - {None} == {sink, "archive", "dead_letter"}
    assert {sample.labels.get("split") for sample in samples} - {None} == {split}
    assert {len(sample.labels) for sample in samples} <= {1, 2, 3, 4}

"""What a run tells becomes its history: with the real driver, also where sinks commit later and where tries fail."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from connectors.spec import load_spec
from eos.errors import FencedError, PrepareError, SinkUnavailableError
from spark_jobs.batch.dead_letters import Ranges
from spark_jobs.observe.history.filing import WriterThread
from spark_jobs.observe.history.model import Acknowledgement, Event, RuleCount, SplitLag, acknowledgements_of, failure
from spark_jobs.observe.history.recorder import Recorder, recorded
from spark_jobs.observe.history.store import History
from spark_jobs.observe.history.writer import Retention
from spark_jobs.observe.lag import Lag, SourceLag
from spark_jobs.observe.report import CheckpointReport, LogListener
from spark_jobs.run.checkpoints import Checkpoints
from tests.spark_jobs.cli.test_status import SPEC
from tests.twophase.test_backlog import SlowSink
from tests.twophase.test_effects import Batch, MemorySink, Setting, SparkFolder
from tests.twophase_values import INCARNATION, record
from twophase.backlog import Limit
from twophase.ids import Scope
from twophase.news import Aborted, CommittedUpTo, Decided, DriverEvent, SinkAway, SinkCommitted, SinkJoined
from twophase.status import read_status
from twophase.values import SparkState

_LAG = (SplitLag(5.0, "orders", "orders/0", 17, 10),)


def _lag(at: float, position: int) -> Lag:
    return Lag((SourceLag("orders", at, (SplitLag(5.0, "orders", "orders/0", 17, position),)),))


def test_an_exit_is_a_failure_in_words() -> None:
    event = failure(SystemExit(1), 0.0)
    assert (event.error, event.message) == ("SystemExit", "the process was ended with exit code 1")


@dataclass
class Numbered(Batch):
    """One of Spark's."""

    checkpoint_id: int = 0
    acknowledgements: tuple[Acknowledgement, ...] = ()
    ends_held: Sequence[int] | None = None
    skipped: Mapping[str, int] = field(default_factory=dict)
    rules: tuple[RuleCount, ...] = ()
    ranges: Ranges = field(default_factory=dict)
    stateful: bool = False


class SparkFiles:
    """What Spark has written: enough for a checkpoint."""

    def query_id(self, _incarnation: str) -> str:
        return "query"

    def offsets_log(self, _incarnation: str, number: int) -> str:
        return _plan(number)

    def source_lists(self, _offsets_log: str) -> Mapping[str, str]:
        return {}

    def sync_offsets(self, _incarnation: str, _number: int) -> None:
        pass

    def sync_query(self, _incarnation: str) -> None:
        pass


class SparkKnown(SparkFolder):
    """With the query's id."""

    def await_state(self, _checkpoint_id: int) -> None:
        """Nothing to wait for."""

    def state(self, incarnation: str) -> SparkState:
        state = super().state(incarnation)
        return replace(state, query_id="query", offsets_log={number: _plan(number) for number in state.offsets_log})


def _plan(number: int) -> str:
    began = {"positions": {"orders/0": 0}, "identities": {}}
    return f"v1\n{{}}\n{json.dumps({'source': 'orders', 'ends': {'orders/0': 10 * number + 10}, 'began': began})}"


@dataclass
class Watched:
    """A pipeline and its history."""

    setting: Setting
    path: Path
    run: int = 0
    filings: list[WriterThread] = field(default_factory=list)

    @property
    def history(self) -> History:
        return History(self.path)

    @contextmanager
    def driver(self, **changes: Any) -> Iterator[tuple[Recorder, Checkpoints]]:
        """One run, killed at its end: nobody says that it has ended."""
        self.run += 1
        filing = WriterThread(self.path, Retention(age_s=1e12))
        recorder = Recorder(filing, f"run{self.run}", {"warehouse": "two-phase"}, lambda text: text.replace("xyz", "*"))
        driver = self.setting.driver(watcher=recorder.on_driver_event, **changes)
        if (status := read_status(driver.head)) is not None:
            recorder.on_status(status)
        driver.start()

        orders: Any = SimpleNamespace(name="orders", lost_ranges=lambda _ranges: [])
        spark: Any = SparkFiles()
        try:
            yield recorder, Checkpoints(driver, spark, recorder, [orders], lambda: _lag(time.time(), 10))
            driver.drain()
        finally:
            driver.close()
            filing.close()

    def complete(self, checkpoints: Checkpoints, number: int, error: PrepareError | None = None) -> None:
        self.setting.spark.planned = number
        checkpoints.complete(Numbered(self.setting.sink, error, number))


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(Setting(tmp_path / "head", spark=SparkKnown()), tmp_path / "history.sqlite")


def test_a_checkpoint_that_is_committed_at_once(watched: Watched) -> None:
    with watched.driver() as (_, checkpoints):
        for number in range(3):
            watched.complete(checkpoints, number)
    found = watched.history.checkpoints()
    assert [each.checkpoint_id for each in found] == [2, 1, 0]
    for each in found:
        (sink,) = each.sinks
        assert (each.session, each.records, each.rows, each.lag, sink.variant) == ("run1", 10, 3, 7, "two-phase")
        assert each.is_committed
        assert None not in (each.committed_at, sink.committed_at, sink.commit_s, each.phases.commit_s)
        assert each.phases.wait_s == 0.0
    detail = watched.history.checkpoint(2)
    assert detail is not None
    assert [(each.sink, each.task, each.rows) for each in detail.acknowledgements] == [("warehouse", 0, 3)]
    assert detail.lag == _LAG


def test_a_checkpoint_has_the_newest_lag_and_none_where_it_is_unknown(watched: Watched) -> None:
    now = time.time()
    lags = _lag(now, 10), _lag(now - 100.0, 12), Lag((_lag(now, 10).sources[0].failed("no answer"),)), _lag(now, 15)
    with watched.driver() as (_, checkpoints):
        for number, lag in enumerate(lags):
            checkpoints.newest_lag = lambda: lag  # noqa: B023
            watched.complete(checkpoints, number)
    assert [each.lag for each in watched.history.checkpoints()] == [2, None, None, 7]


def test_the_lag_has_a_line_in_the_charts_while_no_checkpoint_completes(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stalled pipeline's lag grows; while it is unknown, the line has a gap."""
    began = 999_990.0
    with watched.driver() as (recorder, _):
        for after_s, end in ((0, 10), (5, 11), (10, 30), (60, 400), (119, 17)):
            monkeypatch.setattr(time, "time", lambda: began + after_s)  # noqa: B023
            known = Lag((SourceLag("orders", began + after_s, (SplitLag(0.0, "orders", "orders/0", end, 10),)),))
            recorder.on_lag(known)
            monkeypatch.setattr(time, "time", lambda: began + after_s + 31)  # noqa: B023
            recorder.on_lag(known)
    monkeypatch.undo()
    found = watched.history.series(began, began + 120.0, 30.0)
    assert [(each.checkpoints, each.lag) for each in found] == [(0, 20), (0, None), (0, 390), (0, 7)]


def test_sinks_that_commit_in_threads_of_their_own(watched: Watched) -> None:
    watched.setting.sink = sink = SlowSink()
    with watched.driver(limits={"warehouse": Limit(3)}) as (_, checkpoints):
        for number in range(3):
            watched.complete(checkpoints, number)
        assert watched.setting.sink.visible == set()
        sink.gate.set()
    found = watched.history.checkpoints()
    assert [each.checkpoint_id for each in found] == [2, 1, 0]
    for each in found:
        assert each.is_committed
        assert each.committed_at is not None
        assert None not in (each.sinks[0].committed_at, each.phases.wait_s, each.phases.commit_s)
        assert each.duration_s == pytest.approx(each.committed_at - each.started_at)


def test_tries_that_are_aborted_say_why_and_name_no_secret(watched: Watched) -> None:
    with watched.driver() as (recorder, checkpoints):
        watched.complete(checkpoints, 0)
        error = PrepareError("password xyz was refused", remedy="not xyz")
        with pytest.raises(PrepareError):
            watched.complete(checkpoints, 1, error)
        recorder.on_event(failure(error, 7.0, checkpoint_id=1))
        recorder.on_event(Event(8.0, "restart", "in 1.0 s", checkpoint_id=1, delay_s=1.0))
        watched.complete(checkpoints, 1)
    (aborted,) = watched.history.aborted()
    assert (aborted.checkpoint_id, aborted.attempt, aborted.error) == (1, 1, "PrepareError")
    assert aborted.reason == "password * was refused"
    detail = watched.history.checkpoint(1)
    assert detail is not None
    assert (detail.checkpoint.attempt, detail.aborted) == (2, (aborted,))
    restart, failed = watched.history.events()
    assert (restart.kind, restart.delay_s, restart.checkpoint_id, restart.run_id) == ("restart", 1.0, 1, "run1")
    assert (failed.error, failed.message, failed.remedy) == ("PrepareError", "password * was refused", "not *")
    totals = watched.history.totals()
    assert (totals.checkpoints, totals.aborted, totals.failures, totals.restarts) == (2, 1, 1, 1)


class DyingSink(MemorySink):
    """Dies in its first commit, as far as the driver can tell."""

    def commit(self, checkpoint_id: int, committables: Any, *, own: bool = False, known: int | None = None) -> Any:
        if self.calls.count("commit") == 0:
            self.calls.append("commit")
            raise KeyboardInterrupt
        return super().commit(checkpoint_id, committables)


def test_a_start_tells_when_it_commits_what_a_driver_has_left(watched: Watched) -> None:
    watched.setting.sink = DyingSink()
    with pytest.raises(KeyboardInterrupt), watched.driver() as (_, checkpoints):
        watched.complete(checkpoints, 0)
    (found,) = watched.history.checkpoints()
    assert (found.is_committed, found.committed_at, found.session) == (False, None, "run1")
    with watched.driver() as (_, checkpoints):
        watched.complete(checkpoints, 0)  # Spark runs it again
        watched.complete(checkpoints, 1)
    newer, older = watched.history.checkpoints()
    assert (older.is_committed, older.replayed, older.session) == (True, True, "run1")
    assert None not in (older.committed_at, older.sinks[0].committed_at)
    assert (newer.session, newer.replayed) == ("run2", False)
    assert watched.history.totals().checkpoints == 2


def test_what_was_never_written_down_head_still_knows(watched: Watched) -> None:
    with watched.driver() as (_, checkpoints):
        for number in range(3):
            watched.complete(checkpoints, number)
    watched.path.unlink()
    with watched.driver():
        pass
    found = watched.history.checkpoints()
    assert [(each.checkpoint_id, each.rows, each.session) for each in found] == [(2, 3, ""), (1, 3, ""), (0, 3, "")]
    assert all(each.is_committed and each.committed_at is None for each in found), "nobody saw when"


def test_a_sink_that_is_away_is_an_event_until_it_joins(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    error = SinkUnavailableError("sink archive at db:3306 does not answer", remedy="start it")
    news: list[DriverEvent] = [
        SinkAway("archive", (3, 4), error),
        SinkAway("archive", (3,), error),
        SinkJoined("archive"),
    ]
    with watched.driver() as (_, checkpoints):
        for each in news:
            checkpoints.listener.on_driver_event(each)
            LogListener("orders").on_driver_event(each)
    joined, again, away = watched.history.events()
    assert (joined.kind, again.kind, away.kind) == ("joined", "away", "away")
    assert away.message == (
        "sink archive is away: the start has gone on without it, its rows wait in its log. 2 checkpoints wait there. "
        "sink archive at db:3306 does not answer"
    )
    assert "1 checkpoint waits there" in again.message
    assert away.remedy.endswith("until its max_backlog. start it")
    assert away.facts == {"sink": "archive", "waiting": 2}
    assert [each.split(":")[0] for each in caplog.messages if "pipeline=orders sink archive is" in each] == [
        "pipeline=orders sink archive is away",
        "pipeline=orders sink archive is away",
        "pipeline=orders sink archive is back",
    ]


def test_an_error_that_fences_is_told_apart() -> None:
    assert failure(FencedError("another one"), 1.0).kind == "fenced"
    assert failure(ZeroDivisionError("by 0"), 1.0).message == "by 0"


@pytest.mark.parametrize("told", [True, False])
def test_what_ends_a_run_is_told_once(tmp_path: Path, told: bool) -> None:
    """By the runner, which knows the checkpoint, or by the run's end: Spark did not start."""
    path = tmp_path / "orders.yaml"
    path.write_text(SPEC)
    error = PrepareError("no space", remedy="free some")

    def run() -> None:
        with recorded(load_spec(path, {}), "run1", lambda: "stopped") as recorder:
            if told:
                recorder.on_event(failure(error, time.time(), checkpoint_id=3))
            raise error

    with pytest.raises(PrepareError):
        run()
    history = History.at(tmp_path / "state")
    found = history.events(kinds=["failure"])
    assert [(each.message, each.checkpoint_id) for each in found] == [("no space", 3 if told else None)]
    (entry,) = history.runs()
    assert (entry.run_id, entry.ended, entry.pid) == ("run1", "failed", os.getpid())


def test_a_text_that_is_no_unicode_is_written_and_so_is_what_follows(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(SPEC)
    with recorded(load_spec(path, {}), "run1", lambda: "stopped") as recorder:
        recorder.on_event(failure(PrepareError("/data/m\udcfcll is not there", remedy="\ud800"), time.time()))
        recorder.on_driver_event(Aborted(Scope(INCARNATION, 1, 0, 1), PrepareError("\udc80")))
        recorder.on_state("running")
    history = History.at(tmp_path / "state")
    assert [each.message for each in history.events()] == ["running", "/data/m\\udcfcll is not there"]
    assert [each.reason for each in history.aborted()] == ["\\udc80"]


def test_a_run_that_ends_well(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(SPEC)
    with recorded(load_spec(path, {}), "run1", lambda: "caught up") as recorder:
        recorder.on_state("running")
    history = History.at(tmp_path / "state")
    assert [(each.kind, each.message, each.run_id) for each in history.events()] == [("state", "running", "run1")]
    assert [each.ended for each in history.runs()] == ["caught up"]


def test_it_costs_a_checkpoint_next_to_nothing(tmp_path: Path) -> None:
    """Time on the processor, so that other processes do not count. Measured: 0.2 ms in the thread that runs
    checkpoints, 0.6 ms in its own."""
    checkpoints = 300
    others = {*threading.enumerate()}
    filing = WriterThread(tmp_path / "history.sqlite", Retention(age_s=1e12))
    (thread,) = {*threading.enumerate()} - others
    recorder = Recorder(filing, "run1", {"warehouse": "two-phase"}, str)
    told_s = 0.0
    for number in range(checkpoints):
        made = record(number, 10 * number, 10 * number + 10)
        durations_s = {"PutRecord": 0.1, "Swap decide": 0.1, "Swap committed": 0.1}
        report = CheckpointReport(made, 0, 1, False, 0.2, durations_s, _LAG, 5.0, acknowledgements_of(made))
        began_s = time.thread_time()
        recorder.on_driver_event(Decided(made))
        recorder.on_driver_event(SinkCommitted(INCARNATION, number, "warehouse", 0.1))
        recorder.on_driver_event(CommittedUpTo(INCARNATION, number))
        recorder.on_checkpoint(report)
        recorder.on_planned(number, 0.02)
        told_s += time.thread_time() - began_s
        time.sleep(0.001)  # so that none is written together with another
    assert thread.ident is not None
    filed_s = time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
    filing.close()
    assert len(History(tmp_path / "history.sqlite").checkpoints(1000)) == checkpoints
    assert told_s / checkpoints < 0.001
    assert filed_s / checkpoints < 0.002

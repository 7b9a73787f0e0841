"""Checkpoints go on while a sink commits those before: in order, never further behind than allowed, errors told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from eos.errors import FencedError, LostCommittableError, PrepareError, SinkUnavailableError
from tests.twophase.test_effects import BRIEF, MemorySink, Setting
from tests.twophase_values import drive, head, record, ref
from tests.waiting import until
from twophase.backlog import Backlog, Limit
from twophase.driver import Driver
from twophase.messages import Steps
from twophase.ownership import Ownership
from twophase.retry import Patience
from twophase.values import CheckpointRecord, CommitOutcome, Committable

_WAIT_S = 10.0


@dataclass
class SlowSink(MemorySink):
    """Commits when the test lets it, and remembers in which order."""

    permits_once: bool = True
    begun: threading.Event = field(default_factory=threading.Event)  # a commit
    gate: threading.Event = field(default_factory=threading.Event)
    committed: list[int] = field(default_factory=list)
    answers: list[BaseException | CommitOutcome] = field(default_factory=list)

    def commit(
        self, checkpoint_id: int, committables: Sequence[Committable], *, own: bool = False, known: int | None = None
    ) -> Sequence[CommitOutcome]:
        self.begun.set()
        assert self.gate.wait(_WAIT_S)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, BaseException):
            raise answer
        if answer is not None:
            return [answer] * len(committables)
        self.committed.append(checkpoint_id)
        return super().commit(checkpoint_id, committables)


@dataclass
class Behind:
    """A pipeline whose sink may be behind, and a thread that writes its checkpoints."""

    setting: Setting
    sink: SlowSink
    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    drivers: list[Driver] = field(default_factory=list)
    stopping: bool = False

    def driver(self, limit: Limit, patience: Patience = BRIEF, **changes: Any) -> Driver:
        limits = {"warehouse": limit}
        driver = self.setting.driver(limits=limits, is_stopping=lambda: self.stopping, **changes)
        driver.patience = patience
        self.drivers.append(driver)
        driver.start()
        return driver

    def run(self, driver: Driver, number: int) -> Future[CheckpointRecord]:
        return self.threads.submit(self.setting.run, driver, number)


@pytest.fixture
def behind(tmp_path: Path) -> Iterator[Behind]:
    sink = SlowSink()
    made = Behind(Setting(tmp_path, sink=sink), sink)
    yield made
    sink.gate.set()
    for driver in made.drivers:
        driver.close()
    made.threads.shutdown()


def test_checkpoints_go_on_until_so_many_wait_and_are_committed_in_order(behind: Behind) -> None:
    driver = behind.driver(Limit(2))
    for number in range(2):
        behind.run(driver, number).result(_WAIT_S)
    third = behind.run(driver, 2)
    until(lambda: driver.owned.completed == 2)
    assert not third.done()
    assert (driver.owned.committed, behind.sink.visible) == (-1, set())
    behind.sink.gate.set()
    third.result(_WAIT_S)
    driver.drain()
    assert behind.sink.committed == [0, 1, 2]
    assert driver.owned.committed == 2
    assert behind.sink.waiting == set()


def test_bytes_count_but_never_hold_up_a_single_checkpoint() -> None:
    limit = Limit(5, max_bytes=100)
    assert limit.allows(1, 60)
    assert limit.allows(1, 1000)
    assert not limit.allows(2, 120)
    assert Limit(5, max_bytes=120).allows(2, 120)
    assert not Limit(1).allows(2, 120)


def test_a_lost_committable_stops_the_pipeline(behind: Behind) -> None:
    driver = behind.driver(Limit(3))
    behind.sink.answers = [CommitOutcome.LOST]
    behind.run(driver, 0).result(_WAIT_S)
    behind.sink.gate.set()
    until(lambda: _raises(driver.check))
    with pytest.raises(LostCommittableError, match="checkpoint 0 is completed"):
        behind.run(driver, 1).result(_WAIT_S)
    with pytest.raises(LostCommittableError):  # nor does a replay, which decides nothing
        behind.run(driver, 0).result(_WAIT_S)
    with pytest.raises(LostCommittableError):
        driver.drain()
    assert driver.owned.completed == 0


def _raises(call: Callable[[], None]) -> bool:
    try:
        call()
    except LostCommittableError:
        return True
    return False


def test_an_outage_is_outlasted_only_where_a_backlog_is_meant_to(behind: Behind) -> None:
    away = [SinkUnavailableError("away")] * 30
    behind.sink.gate.set()
    behind.sink.answers = list(away)
    impatient = behind.driver(Limit(3))
    behind.run(impatient, 0).result(_WAIT_S)
    with pytest.raises(SinkUnavailableError):
        impatient.drain()
    impatient.close()
    behind.sink.answers = []
    patient = behind.driver(Limit(3, outlasts_outages=True))
    assert patient.owned.committed == 0  # what the other one has decided
    behind.sink.answers = list(away)
    behind.run(patient, 1).result(_WAIT_S)
    patient.drain()
    assert behind.sink.committed == [0, 1]


def test_who_stops_does_not_wait_for_ever_and_the_next_start_commits(behind: Behind) -> None:
    driver = behind.driver(Limit(1))
    behind.run(driver, 0).result(_WAIT_S)
    held = behind.run(driver, 1)
    until(lambda: driver.owned.completed == 1)
    behind.stopping = True
    held.result(_WAIT_S)
    behind.sink.gate.set()
    driver.close()
    assert len(behind.sink.committed) <= 1
    after = behind.driver(Limit(1))
    assert (after.owned.completed, after.owned.committed) == (1, 1)
    assert sorted(set(behind.sink.committed)) == [0, 1]


def test_who_stops_leaves_a_sink_that_is_away_to_the_next_start(behind: Behind) -> None:
    driver = behind.driver(Limit(3))
    behind.run(driver, 0).result(_WAIT_S)
    behind.stopping = True
    assert driver._backlog is not None
    behind.threads.submit(driver._backlog.drain, lambda: behind.stopping, 0.1).result(_WAIT_S)
    assert (driver.owned.completed, driver.owned.committed) == (0, -1)


def test_an_aborted_checkpoint_touches_none_of_those_that_wait(behind: Behind) -> None:
    driver = behind.driver(Limit(3))
    behind.run(driver, 0).result(_WAIT_S)
    (decided,) = behind.sink.waiting
    assert behind.sink.begun.wait(_WAIT_S), "else the close of the aborted one may come first"
    behind.setting.spark.planned = 1
    failing = behind.threads.submit(behind.setting.run, driver, 1, PrepareError("a task failed"))
    until(lambda: driver.owned.aborted_checkpoint == 1)
    time.sleep(0.2)
    assert "revoke" not in behind.sink.calls, "a committer serves one thread at a time, and one of them commits"
    behind.sink.gate.set()
    with pytest.raises(PrepareError):
        failing.result(_WAIT_S)
    driver.drain()
    assert behind.sink.visible == {decided}
    assert behind.sink.waiting == set()


def test_a_superseded_driver_says_so(behind: Behind) -> None:
    behind.sink.gate.set()
    old = behind.driver(Limit(2))
    behind.run(old, 0).result(_WAIT_S)
    old.drain()
    behind.driver(Limit(2))
    with pytest.raises(FencedError):
        behind.run(old, 1).result(_WAIT_S)


def test_witnesses_and_records_are_pruned_as_ever(behind: Behind) -> None:
    behind.sink.gate.set()
    driver = behind.driver(Limit(2), retained=2)
    for number in range(8):
        behind.run(driver, number).result(_WAIT_S)
    driver.drain()
    assert driver.owned.committed == 7
    pruned = [call for call in behind.sink.calls if call.startswith("prune")]
    assert len(driver.owned.records) < 4
    below = int(pruned[-1].split()[1])  # a thread commits: how many at once, is chance
    assert 4 <= below <= 6
    assert below == driver.owned.records[0].checkpoint_id, "a sink forgets what head forgets, and nothing else"
    assert behind.sink.calls.count("permit") == 1


@pytest.mark.parametrize("answer", [SinkUnavailableError("away"), CommitOutcome.RETRY_LATER])
@pytest.mark.parametrize("outlasts", [True, False])
def test_an_end_waits_for_no_sink_that_is_away(
    behind: Behind, caplog: pytest.LogCaptureFixture, answer: BaseException | CommitOutcome, *, outlasts: bool
) -> None:
    """A stop has some seconds: a minute's patience for one call would outlast them."""
    behind.sink.gate.set()
    behind.sink.answers = [answer] * 100
    driver = behind.driver(Limit(3, outlasts_outages=outlasts), patience=Patience(600.0, 60.0, 60.0))
    behind.run(driver, 0).result(_WAIT_S)
    until(lambda: len(behind.sink.answers) < 100)
    began = time.monotonic()
    driver.close()
    assert time.monotonic() - began < _WAIT_S
    assert "nothing more is committed" not in caplog.text
    assert behind.sink.committed == []


def test_what_ends_a_thread_is_said_at_once(behind: Behind, caplog: pytest.LogCaptureFixture) -> None:
    """The job's next batch raises it, and may be far away."""
    behind.sink.gate.set()
    behind.sink.answers = [LostCommittableError("it is gone")]
    driver = behind.driver(Limit(3))
    behind.run(driver, 0).result(_WAIT_S)
    until(lambda: "sink warehouse: nothing more is committed: it is gone" in caplog.text)


def test_who_waits_for_room_is_let_go_at_the_end(behind: Behind) -> None:
    """Another run of the query begins, and its driver ends this one."""
    driver = behind.driver(Limit(1))
    behind.run(driver, 0).result(_WAIT_S)
    held = behind.run(driver, 1)
    until(lambda: driver.owned.completed == 1)
    closing = threading.Thread(target=driver.close)
    closing.start()
    with pytest.raises(SinkUnavailableError, match="the driver was closed while sinks were behind"):
        held.result(_WAIT_S)
    behind.sink.gate.set()
    closing.join(_WAIT_S)
    assert behind.driver(Limit(1)).owned.committed == 1


def test_r9_head_calls_committed_only_what_every_sink_has_committed() -> None:
    """Two sinks, of which one is held up while the other one commits everything."""
    records = [record(number) for number in range(3)]
    owned = Ownership("me.0", 1, head(completed=2, records=tuple(ref(number) for number in range(3))))
    gate = threading.Event()

    def carry_out(steps: Steps[None], sink: str) -> None:
        assert sink != "slow" or gate.wait(_WAIT_S)
        committed = {sink: [CommitOutcome.COMMITTED]}
        drive(steps, {"Swap": lambda _: True, "Commit": lambda _: committed, "ListPrepared": lambda _: {}})

    backlog = Backlog(owned, {"slow": Limit(5), "fast": Limit(5)}, carry_out, 10, threading.Event())
    for each in records:
        group = each.committables["warehouse"]
        both = replace(each, committables={"slow": group, "fast": group})
        backlog.add(both, lambda: False)
    until(lambda: owned.counted.get("fast") == 2)
    assert (owned.head.committed, owned.counted.get("slow")) == (-1, None)
    gate.set()
    backlog.drain(lambda: False, _WAIT_S)
    assert (owned.head.committed, owned.counted) == (2, {"slow": 2, "fast": 2})
    backlog.close()

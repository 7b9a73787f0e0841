"""H32: a start goes on without a sink whose rows wait in a log, and the sink joins the running driver later."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connectors.log.committer import LogCommitter
from connectors.log.place import LogPlace
from connectors.sql.log.ledger import LogTarget, SqlLedger
from connectors.sql.sqlite.sink import SqliteSink
from connectors.sql.sqlite.store import SqliteStore
from eos.errors import (
    ConnectorError,
    FencedError,
    IdentityError,
    PrepareError,
    SetBackError,
    SinkUnavailableError,
    TargetError,
)
from tests.twophase.test_effects import MemorySink, Setting, SparkFolder
from tests.twophase_values import INCARNATION
from twophase.backlog import Limit
from twophase.driver import Driver
from twophase.ids import Scope, TransactionId, sink_key
from twophase.local_head import LocalHead
from twophase.messages import Acknowledged, BatchStart, Failed
from twophase.news import DriverEvent, SinkAway, SinkJoined
from twophase.participants import Prepared
from twophase.retry import Patience
from twophase.values import CheckpointRecord, CommitOutcome, Committable, SinkState, StartingPoint

_WAIT_S = 20.0
_LIMIT = Limit(10, outlasts_outages=True)
_PATIENCE = Patience(deadline_s=0.2, first_wait_s=0.001, max_wait_s=0.01)


@dataclass
class FarSink(MemorySink):
    """A sink with a log, which counts, and whose server can be away. Its log (`waiting`) can always be written to."""

    permits_once: bool = True
    slots: frozenset[int] = frozenset({1})
    away: bool = False
    counted: int = -1
    order: list[int] = field(default_factory=list)  # of commits

    def _called(self, what: str) -> None:
        if self.away and what != "permit away":
            raise SinkUnavailableError("the server of warehouse does not answer", remedy="start it")
        super()._called(what)

    def inspect(self, incarnation: str, expected: Sequence[Committable]) -> SinkState:
        found = super().inspect(incarnation, ())
        return SinkState(found.claim_incarnation, found.claim_epoch, found.highest_witness, (), self.counted)

    def commit(
        self, checkpoint_id: int, committables: Sequence[Committable], *, own: bool = False, known: int | None = None
    ) -> Sequence[CommitOutcome]:
        self._called("commit")
        if self.counted >= checkpoint_id:
            return [CommitOutcome.ALREADY_COMMITTED] * len(committables)
        assert self.counted == checkpoint_id - 1, "a slot moves by one"
        assert {each.transaction for each in committables} <= self.waiting
        self.counted = checkpoint_id
        self.order.append(checkpoint_id)
        return super().commit(checkpoint_id, committables, own=own, known=known)

    def abort(self, prepared: Iterable[Prepared]) -> None:
        group = list(prepared)
        assert not {each.transaction for each in group} & self.visible
        super().abort(group)


@dataclass
class Far:
    """A pipeline whose sink may be away."""

    setting: Setting
    sink: FarSink
    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    drivers: list[Driver] = field(default_factory=list)
    news: list[DriverEvent] = field(default_factory=list)
    stopping: bool = False

    def driver(self, limit: Limit = _LIMIT, *, known: Iterable[str] = (INCARNATION,), **changes: Any) -> Driver:
        driver = self.setting.driver(
            limits={"warehouse": limit},
            known={"warehouse": list(known)},
            watcher=self.news.append,
            is_stopping=lambda: self.stopping,
            **changes,
        )
        driver.patience = _PATIENCE
        self.drivers.append(driver)
        return driver

    def started(self, limit: Limit = _LIMIT, **changes: Any) -> Driver:
        driver = self.driver(limit, **changes)
        driver.start()
        return driver

    def run(self, driver: Driver, number: int) -> Future[CheckpointRecord]:
        return self.threads.submit(self.setting.run, driver, number)

    def ran(self, checkpoints: int, limit: Limit = _LIMIT) -> None:
        """A driver has run, with the sink, and has ended."""
        driver = self.started(limit)
        for number in range(checkpoints):
            self.run(driver, number).result(_WAIT_S)
        driver.drain()
        driver.close()
        assert driver.owned.committed == checkpoints - 1


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Far]:
    sink = FarSink()
    made = Far(Setting(tmp_path, sink=sink), sink)
    yield made
    sink.away = False
    for driver in made.drivers:
        driver.close()
    made.threads.shutdown()


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _error_of(driver: Driver) -> ConnectorError:
    found: list[ConnectorError] = []

    def raised() -> bool:
        try:
            driver.check()
        except ConnectorError as error:
            found.append(error)
        return bool(found)

    _until(raised)
    return found[0]


def test_a_start_goes_on_without_a_sink_which_joins_and_gets_what_waits_in_order(far: Far) -> None:
    far.ran(2)
    far.sink.away = True
    far.sink.calls.clear()
    driver = far.started()
    assert (driver.owned.epoch, driver.away) == (2, frozenset({"warehouse"}))
    for number in (2, 3, 4):
        far.run(driver, number).result(_WAIT_S)
    assert (driver.owned.completed, driver.owned.committed) == (4, 1)
    assert far.sink.claimed == (INCARNATION, 1)
    assert (len(far.sink.visible), far.sink.calls) == (2, ["permit away"])
    far.sink.away = False
    _until(lambda: driver.owned.committed == 4)
    assert far.sink.order == [0, 1, 2, 3, 4]
    assert len(far.sink.visible) == 5
    assert far.sink.claimed == (INCARNATION, 2)
    assert not driver.away
    absences = [each for each in far.news if isinstance(each, SinkAway | SinkJoined)]
    assert [type(each) for each in absences] == [SinkAway, SinkJoined]


def test_a_second_start_without_the_sink_takes_on_what_waits(far: Far) -> None:
    far.ran(1)
    far.sink.away = True
    first = far.started()
    for number in (1, 2):
        far.run(first, number).result(_WAIT_S)
    first.close()
    second = far.started()
    far.run(second, 3).result(_WAIT_S)
    assert (second.owned.epoch, second.owned.completed, second.owned.committed) == (3, 3, 0)
    assert [each.waiting for each in far.news if isinstance(each, SinkAway)] == [(), (1, 2)]
    second.close()
    far.sink.away = False
    third = far.started()  # as any start with the sink
    assert (third.owned.committed, far.sink.order) == (3, [0, 1, 2, 3])


def test_what_waited_before_a_start_counts_for_the_bound(far: Far) -> None:
    limit = Limit(2, outlasts_outages=True)
    far.ran(1, limit)
    far.sink.away = True
    driver = far.started(limit)
    for number in (1, 2):
        far.run(driver, number).result(_WAIT_S)
    held = far.run(driver, 3)
    _until(lambda: driver.owned.completed == 3)
    driver.close()
    with pytest.raises(SinkUnavailableError):
        held.result(_WAIT_S)
    for _ in range(2):
        driver = far.started(limit)
        held = far.run(driver, 4)
        time.sleep(0.3)
        assert not held.done()
        assert (driver.owned.completed, driver.owned.committed) == (3, 0), "one more than may wait, and no other"
        far.stopping = True
        with pytest.raises(PrepareError, match="as much waits for sink warehouse as may"):
            held.result(_WAIT_S)
        far.stopping = False
        driver.close()
    driver = far.started(limit)
    held = far.run(driver, 4)
    far.sink.away = False
    held.result(_WAIT_S)
    driver.drain()
    assert (far.sink.order, len(far.sink.visible)) == ([0, 1, 2, 3, 4], 5)


def test_a_sink_that_keeps_its_slots_is_asked_for_no_permit_by_the_epoch_that_it_joins(far: Far) -> None:
    """A permit sets the number of slots, and what waits was written for the number that the sink has."""
    far.ran(1)
    far.sink.away = True
    driver = far.started()
    far.sink.away = False
    _until(lambda: not driver.away)  # before the first checkpoint
    far.sink.calls.clear()
    far.run(driver, 1).result(_WAIT_S)
    driver.drain()
    assert (far.sink.calls.count("permit away"), far.sink.calls.count("permit")) == (1, 0)


def test_a_sink_that_went_back_in_time_is_not_claimed_by_the_driver_that_it_would_join(far: Far) -> None:
    far.ran(3)
    far.sink.away = True
    driver = far.started()
    far.sink.counted = 1
    far.sink.away = False
    error = _error_of(driver)
    assert isinstance(error, SetBackError)
    assert "counts checkpoints up to 1, and had counted up to 2" in error.message
    assert far.sink.claimed == (INCARNATION, 1)


@pytest.mark.parametrize(
    ("claim", "kind"), [(("z" * 20, 1), IdentityError), ((INCARNATION, 7), IdentityError), (None, IdentityError)]
)
def test_a_sink_that_tells_another_story_does_not_join(
    far: Far, claim: tuple[str, int] | None, kind: type[ConnectorError]
) -> None:
    far.ran(2)
    far.sink.away = True
    driver = far.started()
    far.run(driver, 2).result(_WAIT_S)
    far.sink.claimed = claim
    far.sink.away = False
    assert isinstance(_error_of(driver), kind)
    assert far.sink.claimed == claim
    assert len(far.sink.visible) == 2


def test_a_driver_that_was_superseded_is_joined_by_no_sink(far: Far) -> None:
    far.ran(1)
    far.sink.away = True
    old = far.started()
    far.run(old, 1).result(_WAIT_S)
    new = far.started()
    far.run(new, 2).result(_WAIT_S)
    far.sink.away = False
    assert isinstance(_error_of(old), FencedError)
    _until(lambda: new.owned.committed == 2)
    assert (far.sink.claimed, far.sink.order) == ((INCARNATION, 3), [0, 1, 2])


def test_what_the_running_epoch_prepares_stays_when_a_sink_joins_and_older_leftovers_do_not(far: Far) -> None:
    far.ran(1)
    older, own = (TransactionId(Scope(INCARNATION, epoch, 7), sink_key("warehouse"), 0, 9) for epoch in (1, 2))
    far.sink.away = True
    driver = far.started()
    far.sink.waiting |= {older, own}
    far.sink.away = False
    _until(lambda: older not in far.sink.waiting)
    assert own in far.sink.waiting
    assert driver.owned.committed == 0


def _unknown(far: Far) -> Driver:
    far.ran(1)
    return far.driver(known=["another incarnation"])


def _no_backlog(far: Far) -> Driver:
    far.ran(1)
    return far.driver(Limit(10))


def _without_log(far: Far) -> Driver:
    far.ran(1)
    far.sink.slots = frozenset()
    return far.driver()


def _at_least_once(far: Far) -> Driver:
    far.ran(1)
    return far.driver(direct=True)


def _after_at_least_once(far: Far) -> Driver:
    far.ran(1)
    driver = far.driver(direct=True)
    driver.start()
    far.setting.run(driver, 1)
    return far.driver()


@pytest.mark.parametrize(
    "case", [Far.driver, _unknown, _no_backlog, _without_log, _at_least_once, _after_at_least_once]
)
def test_a_start_needs_a_sink_that_could_not_join(far: Far, case: Callable[[Far], Driver]) -> None:
    """Among them a pipeline that begins: whose the sink is, nobody knows."""
    driver = case(far)
    far.sink.away = True
    calls = len(far.sink.calls)
    with pytest.raises(SinkUnavailableError, match="does not answer"):
        driver.start()
    assert len(far.sink.calls) == calls


def test_only_an_outage_lets_a_start_go_on_without_a_sink(far: Far) -> None:
    far.ran(1)
    far.sink.trouble = [TargetError("the user may not read eos_claim")]
    with pytest.raises(TargetError):
        far.driver().start()


def test_a_sink_that_goes_away_again_while_it_joins_is_waited_for(far: Far) -> None:
    far.ran(1)
    far.sink.away = True
    driver = far.started()
    for number in (1, 2):
        far.run(driver, number).result(_WAIT_S)
    claimed = threading.Event()
    original = far.sink.commit

    def commit(
        checkpoint_id: int, committables: Sequence[Committable], *, own: bool = False, known: int | None = None
    ) -> Sequence[CommitOutcome]:
        if checkpoint_id == 2 and not claimed.is_set():
            claimed.set()
            far.sink.away = True
        return original(checkpoint_id, committables, own=own, known=known)

    far.sink.commit = commit  # type: ignore[method-assign]
    far.sink.away = False
    assert claimed.wait(_WAIT_S)
    far.sink.away = False
    _until(lambda: driver.owned.committed == 2)
    assert far.sink.order == [0, 1, 2]


# --- with a real log and a real ledger


@dataclass
class Real:
    """A pipeline into a file of SQLite, whose tasks seal segments, and whose database can be out of reach."""

    folder: Path
    slots: int = 2
    away: bool = False
    spark: SparkFolder = field(default_factory=SparkFolder)
    drivers: list[Driver] = field(default_factory=list)

    def __post_init__(self) -> None:
        with closing(sqlite3.connect(self.folder / "sink.db")) as database:
            database.execute("CREATE TABLE orders (id INTEGER)")

    def started(self) -> Driver:
        def connect() -> SqliteStore:
            if self.away:
                raise SinkUnavailableError("the database is out of reach")
            return SqliteStore(self.folder / "sink.db")

        target = LogTarget("warehouse", "orders", "sink.db", connect, self.slots)
        committer = LogCommitter("warehouse", SqlLedger(target, "orders"), self._sink.log.open())
        driver = Driver(
            "orders",
            LocalHead(self.folder / "head"),
            {"warehouse": committer},
            self.spark,
            f"run{len(self.drivers)}.1",
            INCARNATION,
            patience=_PATIENCE,
            limits={"warehouse": _LIMIT},
            known={"warehouse": [INCARNATION]},
        )
        self.drivers.append(driver)
        driver.start()
        return driver

    def run(self, driver: Driver, number: int) -> None:
        self.spark.planned = max(self.spark.planned, number)
        began = {"orders": StartingPoint({"orders/0": 0})}
        begin = BatchStart(number, {"orders": {"orders/0": 10 * number + 10}}, f"v1 {number}", 1.0, began)
        driver.checkpoint(begin, self)

    def run_writers(self, scope: Scope, *, direct: bool) -> Acknowledged | Failed:
        """See Batch: three tasks with ten rows each."""
        assert not direct
        return Acknowledged({"warehouse": tuple(self._written(scope, task) for task in range(3))}, 2.0)

    def discard(self, digest_methods: Sequence[int]) -> None:
        """See Batch."""

    def rows(self) -> list[int]:
        with closing(sqlite3.connect(self.folder / "sink.db")) as database:
            return [each for (each,) in database.execute("SELECT id FROM orders ORDER BY id")]

    def segments(self) -> list[Path]:
        return list((self.folder / "log").rglob("*.segment"))

    @property
    def _sink(self) -> SqliteSink:
        return SqliteSink("warehouse", self.folder / "sink.db", "orders", LogPlace(self.folder / "log", self.slots))

    def _written(self, scope: Scope, task: int) -> Committable:
        schema = pa.schema([("id", pa.int64())])
        transaction = TransactionId(scope, sink_key("warehouse"), task, 100 * scope.epoch + task)
        writer = self._sink.open(schema).writer(transaction)
        first = 30 * scope.checkpoint_id + 10 * task
        writer.write(pa.record_batch([list(range(first, first + 10))], schema=schema))
        return writer.prepare()


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Real]:
    made = Real(tmp_path)
    yield made
    made.away = False
    for driver in made.drivers:
        driver.close()
        driver.committers["warehouse"].close()


def test_segments_that_waited_are_applied_once_by_the_epoch_that_the_sink_joins(real: Real) -> None:
    first = real.started()
    real.run(first, 0)
    first.drain()
    first.close()
    real.away = True
    for number in (1, 2):
        driver = real.started()
        real.run(driver, number)
        assert (driver.owned.completed, driver.owned.committed, len(real.rows())) == (number, 0, 30)
        driver.close()
    third = real.started()
    real.run(third, 3)
    assert len(real.segments()) == 9
    real.away = False
    _until(lambda: third.owned.committed == 3)
    real.run(third, 4)
    third.drain()
    assert real.rows() == list(range(150))
    assert real.segments() == []
    with pytest.raises(FencedError):  # of epoch 1, whose claim is older now
        first.committers["warehouse"].permit(Scope(INCARNATION, 1, 5))


def test_a_start_with_the_sink_applies_what_starts_without_it_have_left(real: Real) -> None:
    first = real.started()
    first.close()
    real.away = True
    away = real.started()
    for number in (0, 1):
        real.run(away, number)
    real._written(Scope(INCARNATION, 2, 2), 0)  # decided by nobody
    away.close()
    real.away = False
    after = real.started()
    assert (after.owned.committed, real.rows(), real.segments()) == (1, list(range(60)), [])
    real.run(after, 2)
    after.drain()
    assert real.rows() == list(range(90))

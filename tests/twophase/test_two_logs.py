"""Two sinks with logs: while one is away, starts meet decisions that the other one has applied long ago (H32)."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from connectors.log.committer import LogCommitter
from connectors.log.place import LogPlace
from connectors.sql.log.ledger import LogTarget, SqlLedger
from connectors.sql.sqlite.sink import SqliteSink
from connectors.sql.sqlite.store import SqliteStore
from eos.errors import IdentityError, LostCommittableError, SetBackError, SinkUnavailableError
from tests.twophase.test_effects import SparkFolder
from tests.twophase_values import INCARNATION
from twophase.backlog import Limit
from twophase.driver import Driver
from twophase.ids import Scope, TransactionId, fresh_attempt, sink_key
from twophase.local_head import LocalHead
from twophase.messages import Acknowledged, BatchStart, Failed
from twophase.retry import Patience
from twophase.status import read_seen
from twophase.values import Committable, StartingPoint

_WAIT_S = 20.0
_SCHEMA = pa.schema([("id", pa.int64())])
_TASKS = 3
_LIMIT = Limit(10, outlasts_outages=True)


class _DiedError(Exception):
    """The process is killed."""


@dataclass
class Logs:
    """A pipeline into files of SQLite, one for each sink; each database can be out of reach."""

    folder: Path
    slots: dict[str, int]
    away: set[str] = field(default_factory=set)
    spark: SparkFolder = field(default_factory=SparkFolder)
    drivers: list[Driver] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in self.slots:
            with closing(sqlite3.connect(self.database(name))) as database:
                database.execute("CREATE TABLE orders (id INTEGER)")

    def database(self, name: str) -> Path:
        return self.folder / f"{name}.db"

    def started(self, *, direct: bool = False) -> Driver:
        driver = self.driver(direct=direct)
        driver.start()
        return driver

    def driver(self, incarnation: str = INCARNATION, *, direct: bool = False) -> Driver:
        driver = Driver(
            "orders",
            LocalHead(self.folder / "head"),
            {name: self._committer(name) for name in self.slots},
            self.spark,
            f"run{len(self.drivers)}.1",
            incarnation,
            patience=Patience(deadline_s=0.2, first_wait_s=0.001, max_wait_s=0.01),
            limits=dict.fromkeys(self.slots, _LIMIT),
            known={name: [INCARNATION] for name in self.slots},
            direct=direct,
        )
        self.drivers.append(driver)
        return driver

    def _committer(self, name: str) -> LogCommitter:
        def connect() -> SqliteStore:
            if name in self.away:
                raise SinkUnavailableError(f"the database of {name} is out of reach")
            return SqliteStore(self.database(name))

        target = LogTarget(name, "orders", f"{name}.db", connect, self.slots[name])
        return LogCommitter(name, SqlLedger(target, "orders"), self._sink(name).log.open())

    def _sink(self, name: str) -> SqliteSink:
        return SqliteSink(name, self.database(name), "orders", LogPlace(self.folder / "log", self.slots[name]))

    def run(self, driver: Driver, number: int) -> None:
        self.spark.planned = max(self.spark.planned, number)
        began = {"orders": StartingPoint({"orders/0": 0})}
        begin = BatchStart(number, {"orders": {"orders/0": 10 * number + 10}}, f"v1 {number}", 1.0, began)
        driver.checkpoint(begin, self)

    def run_writers(self, scope: Scope, *, direct: bool) -> Acknowledged | Failed:
        """See Batch: tasks with ten rows each."""

        def written(name: str) -> tuple[Committable, ...]:
            return tuple(self._written(name, scope, task, direct=direct) for task in range(_TASKS))

        return Acknowledged({name: written(name) for name in self.slots}, 2.0)

    def discard(self, digest_methods: Sequence[int]) -> None:
        """See Batch."""

    def _written(self, name: str, scope: Scope, task: int, *, direct: bool) -> Committable:
        transaction = TransactionId(scope, sink_key(name), task, fresh_attempt(task))
        sink = self._sink(name).open(_SCHEMA)
        first = 10 * (_TASKS * scope.checkpoint_id + task)
        batch = pa.record_batch([list(range(first, first + 10))], schema=_SCHEMA)
        if direct:
            directly = sink.direct_writer(transaction)
            directly.write(batch)
            return directly.commit()
        writer = sink.writer(transaction)
        writer.write(batch)
        return writer.prepare()

    def rows(self, name: str) -> list[int]:
        with closing(sqlite3.connect(self.database(name))) as database:
            return [each for (each,) in database.execute("SELECT id FROM orders ORDER BY id")]


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _all_rows(checkpoints: int) -> list[int]:
    return list(range(10 * _TASKS * checkpoints))


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Logs]:
    made = Logs(tmp_path, {"a": 2, "b": 2})
    yield made
    made.away.clear()
    for driver in made.drivers:
        driver.close()
        for committer in driver.committers.values():
            committer.close()


def _ran(logs: Logs, number: int, *, direct: bool = False) -> None:
    """A driver has run one checkpoint, and has ended once all sinks have it."""
    driver = logs.started(direct=direct)
    logs.run(driver, number)
    driver.drain()
    driver.close()


def _b_is_ahead(logs: Logs) -> None:
    """Sink a is away while b applies three checkpoints more."""
    _ran(logs, 0)
    logs.away = {"a"}
    driver = logs.started()
    for number in (1, 2, 3):
        logs.run(driver, number)
    _until(lambda: logs.rows("b") == _all_rows(4))
    driver.close()
    assert (driver.owned.completed, driver.owned.committed) == (3, 0)


def test_a_sink_that_joins_may_be_past_what_waits_for_it(logs: Logs) -> None:
    """Sink a has held `committed` back. Then b is away at a start, and finds applied what head does not know of."""
    _b_is_ahead(logs)
    logs.away = {"b"}
    driver = logs.started()
    logs.run(driver, 4)
    _until(lambda: logs.rows("a") == _all_rows(5))
    logs.away = set()
    driver.drain()
    assert (driver.owned.completed, driver.owned.committed) == (4, 4)
    assert [logs.rows(name) for name in logs.slots] == [_all_rows(5)] * 2


@pytest.mark.parametrize("slots", [1, 3])
def test_another_number_of_slots_while_another_sink_holds_committed_back(logs: Logs, slots: int) -> None:
    """Starts commit once more, for a, what b has applied by slots that it need not have any more."""
    _b_is_ahead(logs)
    logs.slots["b"] = slots
    for number in (4, 5):
        driver = logs.started()
        assert driver.away == {"a"}
        logs.run(driver, number)
        _until(lambda number=number: logs.rows("b") == _all_rows(number + 1))  # type: ignore[misc]
        driver.close()
    logs.away = set()
    driver = logs.started()
    assert (driver.owned.completed, driver.owned.committed) == (5, 5)
    assert [logs.rows(name) for name in logs.slots] == [_all_rows(6)] * 2


def test_a_slot_that_is_not_there_is_none_that_has_applied(logs: Logs) -> None:
    """The sink counts less: then nothing tells that it has applied a share of that slot."""
    _b_is_ahead(logs)
    with closing(sqlite3.connect(logs.database("b"))) as database, database:
        database.execute("DELETE FROM eos_slot WHERE slot = 1")
        database.execute("UPDATE eos_slot SET checkpoint_id = 0")
    with pytest.raises(LostCommittableError):
        logs.started()


def test_h34_a_log_goes_back_to_before_it_caught_up(logs: Logs) -> None:
    """Checkpoint 1 was at-least-once, 2 waits for b, and b went back to before it was told of 1: it lacks nothing."""
    _ran(logs, 0)
    _ran(logs, 1, direct=True)
    copy = logs.folder / "copy.db"
    shutil.copy(logs.database("b"), copy)
    third = logs.started()  # b is told of 1
    logs.away = {"b"}
    logs.run(third, 2)
    third.close()
    assert (third.owned.completed, third.owned.committed, len(logs.rows("b"))) == (2, 1, 60)
    shutil.copy(copy, logs.database("b"))
    logs.away = set()
    last = logs.started()
    logs.run(last, 3)
    last.drain()
    assert (last.owned.completed, last.owned.committed) == (3, 3)
    assert [logs.rows(name) for name in logs.slots] == [_all_rows(4)] * 2


def test_h34_a_log_that_lacks_what_it_had_counted_is_not_moved_over_it(logs: Logs) -> None:
    """The same, and b went back further: to before 0, which was exactly-once."""
    first = logs.started()
    copy = logs.folder / "copy.db"
    shutil.copy(logs.database("b"), copy)
    logs.run(first, 0)
    first.drain()
    first.close()
    second = logs.started(direct=True)
    logs.run(second, 1)
    second.close()
    third = logs.started()
    logs.away = {"b"}
    logs.run(third, 2)
    third.close()
    shutil.copy(copy, logs.database("b"))
    logs.away = set()
    with pytest.raises(IdentityError, match="sink b went back in time: it counts checkpoints up to -1"):
        logs.started()
    assert logs.rows("b") == []


def test_h34_a_reset_that_is_refused_moves_no_slot_over_what_is_lost(logs: Logs) -> None:
    """Only at-least-once checkpoints are passed over. Else a repair would find that the lost one is applied."""
    _b_is_ahead(logs)
    logs.away = set()
    lost = min((logs.folder / "log").rglob(f"*{sink_key('a')}*"), key=lambda path: path.name)
    lost.unlink()
    head = logs.drivers[-1].owned
    with pytest.raises(LostCommittableError, match="checkpoint 1"):
        logs.driver().reset(expected=head)
    of_slot = [row for row in logs.rows("a") if (row // 10) % _TASKS != 1]  # the other slot lacks nothing
    assert of_slot == [row for row in _all_rows(1) if row // 10 != 1]


def _repair_that_dies(logs: Logs) -> None:
    """Checkpoint 0, then 1 at-least-once; b goes back to before 0, and the repair dies over it. Then b is put back."""
    first = logs.started()
    copy, newest = logs.folder / "copy.db", logs.folder / "newest.db"
    shutil.copy(logs.database("b"), copy)
    logs.run(first, 0)
    first.drain()
    first.close()
    second = logs.started(direct=True)
    logs.run(second, 1)
    second.close()
    shutil.copy(logs.database("b"), newest)
    shutil.copy(copy, logs.database("b"))

    def dies(*_: object) -> Acknowledged | Failed:
        raise _DiedError

    with pytest.raises(_DiedError):
        logs.driver().repair(dies)
    shutil.copy(newest, logs.database("b"))


def test_h34_a_reset_after_a_repair_that_died_gives_up_nothing_of_at_least_once_checkpoints(logs: Logs) -> None:
    _repair_that_dies(logs)
    seen = read_seen(LocalHead(logs.folder / "head"))
    assert seen is not None
    assert (seen.head.completed, seen.head.committed) == (1, -1)
    begun = logs.driver("n" * 20).reset(expected=seen.head)
    assert begun.abandoned == ()
    assert [logs.rows(name) for name in logs.slots] == [_all_rows(2)] * 2


def test_h34_a_reset_after_a_repair_that_died_names_what_the_sink_may_lack(logs: Logs) -> None:
    _repair_that_dies(logs)
    shutil.copy(logs.folder / "copy.db", logs.database("b"))
    seen = read_seen(LocalHead(logs.folder / "head"))
    assert seen is not None
    with pytest.raises(LostCommittableError, match="checkpoint 0 in b: the sink neither holds nor shows them"):
        logs.driver("m" * 20).reset(expected=seen.head)
    begun = logs.driver("n" * 20).reset(expected=seen.head, abandon_lost=True)
    told = [(each.checkpoint_id, each.sinks, len(each.transactions)) for each in begun.abandoned]
    assert told == [(1, ("b",), 0), (0, ("b",), _TASKS)]
    assert [logs.rows(name) for name in logs.slots] == [_all_rows(2), []]


def test_h34_a_log_goes_back_between_catching_up_and_the_first_permit(logs: Logs) -> None:
    """A restart compares it, and goes on."""
    first = logs.started()
    logs.run(first, 0)
    first.drain()
    first.close()
    second = logs.started(direct=True)
    logs.run(second, 1)
    second.close()
    third = logs.started()
    with closing(sqlite3.connect(logs.database("b"))) as database, database:  # but the claim
        database.execute("UPDATE eos_slot SET checkpoint_id = 0")
    with pytest.raises(SetBackError, match="sink b went back in time: it counts checkpoints up to 0"):
        logs.run(third, 2)
    third.close()
    last = logs.started()
    logs.run(last, 2)
    last.drain()
    assert [logs.rows(name) for name in logs.slots] == [_all_rows(3)] * 2

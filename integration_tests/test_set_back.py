"""A sink that goes back in time: a backup is put back, or a replica that lagged takes over (H26, H27).

Real servers, whose data folders are replaced by a copy of an earlier moment; the real driver, head and sinks, without
Spark.
"""

from __future__ import annotations

import os
import secrets
import shutil
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pytest
import sqlalchemy

from connectors.contracts import DirectWriter, Sink, Writer
from connectors.log.place import LogPlace
from connectors.sql.mysql.sink import MySqlSink
from connectors.sql.postgres.sink import PostgresSink
from integration_tests.services.copied import CopiedMariadb, CopiedPostgres, CopiedServer
from twophase.driver import Driver
from twophase.errors import IdentityError, LostCommittableError, SetBackError
from twophase.ids import Scope, TransactionId, fresh_attempt, sink_key
from twophase.local_head import LocalHead
from twophase.messages import Acknowledged, Begin, Failed
from twophase.values import CheckpointRecord, Committable, OffsetRange, SparkState, StartingPoint

pytestmark = [pytest.mark.any_server, pytest.mark.timeout(300)]

W = TypeVar("W", Writer, DirectWriter)

_SCHEMA = pa.schema([("n", pa.int64())])


def _on_one_worker(name: str) -> object:
    """Workers of xdist would start the same server, and replace its data below each other's tests."""
    return pytest.param(name, marks=pytest.mark.xdist_group(f"copied-{name}"))


@pytest.fixture(scope="module", params=[_on_one_worker("postgresql"), _on_one_worker("mariadb")])
def server(request: pytest.FixtureRequest) -> Iterator[CopiedServer]:
    """A server of these tests alone."""
    made: CopiedServer = CopiedPostgres() if request.param == "postgresql" else CopiedMariadb()
    made.up()
    yield made
    made.down()


def _execute(url: str, *statements: str) -> list[tuple[object, ...]]:
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        results = [connection.exec_driver_sql(each) for each in statements]
        return [tuple(row) for row in results[-1]] if results[-1].returns_rows else []


@dataclass
class World:
    """A pipeline with one sink and two tasks, of which each checkpoint is given its rows."""

    folder: Path
    server: CopiedServer
    log: LogPlace | None = None
    sink: Sink = field(init=False)
    planned: int = -1
    done: int = -1
    starts: int = 0
    attempts: int = 0
    expected: list[int] = field(default_factory=list)
    given: dict[int, Sequence[int]] = field(default_factory=dict)  # by checkpoint: its rows
    meanwhile: Callable[[], None] = lambda: None  # once the tasks of a checkpoint have prepared

    def __post_init__(self) -> None:
        database = f"eos_{secrets.token_hex(6)}"
        is_postgres = self.server.url.startswith("postgresql")
        _execute(self.server.url + ("postgres" if is_postgres else ""), f"CREATE DATABASE {database}")
        self.url = f"{self.server.url}{database}"
        _execute(self.url, "CREATE TABLE t (n BIGINT)")
        kind = PostgresSink if is_postgres else MySqlSink
        self.sink = kind("warehouse", self.url, "t", self.log, None).open(_SCHEMA)

    def state(self, _incarnation: str) -> SparkState:
        """What Spark has planned, as a SparkLog tells it."""
        log = {number: f"offsets {number}" for number in range(self.planned + 1)}
        return SparkState("query" if self.planned >= 0 else None, self.planned, self.done, log)

    def start(self, *, direct: bool = False) -> Driver:
        """The next driver, started. `direct`: at-least-once."""
        driver = self.driver("i" * 20, direct=direct)
        driver.start()
        return driver

    def driver(self, incarnation: str, *, direct: bool = False) -> Driver:
        """The next driver, not started."""
        self.starts += 1
        sinks, head = {"warehouse": self.sink.committer("orders")}, LocalHead(self.folder)
        return Driver("orders", head, sinks, self, f"d{self.starts}", incarnation, retained=2, direct=direct)

    def checkpoint(self, driver: Driver, *rows: int) -> None:
        """One more checkpoint with these rows."""
        number = driver.owned.completed + 1
        self.planned, self.given[number] = number, rows
        ends = {"kafka": {"t/0": number + 1}}
        driver.checkpoint(
            Begin(number, ends, f"offsets {number}", 0.0, {"kafka": StartingPoint({"t/0": 0})}), _Job(self, rows)
        )
        driver.set_query("query")
        self.done = number
        self.expected += rows

    def write_again(
        self, scope: Scope, _record: CheckpointRecord, lost: Mapping[str, tuple[Committable, ...]]
    ) -> Acknowledged:
        """Spark's job of a repair: what a task has lost it writes again, all else it counts."""
        wanted = {each.transaction.task: each for each in lost["warehouse"]}
        done = []
        for task in range(2):
            transaction = self.transaction(scope, task)
            mine = list(self.given[scope.checkpoint_id][task::2])
            if task in wanted:
                writer = self.sink.writer(transaction, wanted[task])
                writer.write(pa.record_batch([pa.array(mine, pa.int64())], schema=_SCHEMA))
                done.append(writer.prepare())
            else:
                done.append(Committable(transaction, len(mine)))
        return Acknowledged({"warehouse": tuple(done)}, at=0.0)

    def transaction(self, scope: Scope, task: int) -> TransactionId:
        """The id of another attempt of a task."""
        self.attempts += 1
        return TransactionId(scope, sink_key("warehouse"), task, fresh_attempt(self.attempts))

    def set_back(self, driver: Driver, meanwhile: Callable[[], None], *, with_disk: bool) -> None:
        """Restore this process's memory, and with it the machine's disk, to before `meanwhile`. The sink stays.

        A copy of the process does it and ends, so that nothing here knows of it.
        """
        driver.committers["warehouse"].close()  # no machine that is restored has a connection
        disk, copy = self.folder.parent, self.folder.parent / "copy"
        for each in ("head", "log"):
            if (disk / each).exists():
                shutil.copytree(disk / each, copy / each)
        if (pid := os.fork()) == 0:
            try:
                meanwhile()
                os._exit(0)
            finally:
                traceback.print_exc()
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        if with_disk:
            for folder in copy.iterdir():
                shutil.rmtree(disk / folder.name)
                shutil.copytree(folder, disk / folder.name)

    def rows(self) -> Counter[int]:
        """What everybody sees."""
        return Counter(int(str(n)) for (n,) in _execute(self.url, "SELECT n FROM t"))


@dataclass
class _Job:
    """Spark's job: rows go to two tasks; a task without rows prepares nothing."""

    world: World
    rows: Sequence[int]

    def run_writers(self, scope: Scope, *, direct: bool = False) -> Acknowledged | Failed:
        done = []
        for task in range(2):
            transaction, sink = self.world.transaction(scope, task), self.world.sink
            batch = pa.record_batch([pa.array(list(self.rows[task::2]), pa.int64())], schema=_SCHEMA)
            if direct:
                done.append(_written(sink.direct_writer(transaction), batch).commit())
            else:
                done.append(_written(sink.writer(transaction), batch).prepare())
        self.world.meanwhile()
        return Acknowledged({"warehouse": tuple(done)}, at=0.0)

    def discard(self, digest_methods: Sequence[int]) -> Sequence[Mapping[str, tuple[int, int]]] | None:
        return None


def _written(writer: W, batch: pa.RecordBatch) -> W:
    """A task without rows writes nothing."""
    if batch.num_rows:
        writer.write(batch)
    return writer


@pytest.fixture(params=["two-phase", "write-ahead-log"])
def world(request: pytest.FixtureRequest, tmp_path: Path, server: CopiedServer) -> World:
    """A pipeline that has not begun."""
    return World(tmp_path / "head", server, LogPlace(tmp_path / "log") if request.param != "two-phase" else None)


def test_h26_a_backup_is_put_back_while_nothing_runs(world: World) -> None:
    """What came after has no rows, and would hide what is missing."""
    driver = world.start()
    world.checkpoint(driver, 0)
    world.server.copy()
    world.checkpoint(driver, 1, 2, 3)
    world.checkpoint(driver)
    assert world.rows() == Counter(range(4))
    world.server.put_back()
    found = "it counts checkpoints up to 0, head calls 2 committed; it lacks 2 transactions with 3 rows"
    with pytest.raises(IdentityError, match=found):
        world.start()
    assert world.rows() == Counter([0])


def test_h26_a_replica_that_lagged_takes_over_during_a_run(world: World) -> None:
    driver = world.start()
    world.checkpoint(driver, 0)
    world.server.copy()
    world.checkpoint(driver, 1, 2, 3)
    world.server.put_back()
    with pytest.raises((SetBackError, IdentityError)) as refused:  # a log notices it as it applies
        world.checkpoint(driver, 4)
    with pytest.raises(IdentityError, match=r"lacks \d transactions"):
        world.start()
    assert (world.rows(), isinstance(refused.value, SetBackError)) == (Counter([0]), world.log is None)


def test_h26_a_copy_of_the_newest_moment_is_accepted(world: World) -> None:
    driver = world.start()
    world.checkpoint(driver, 0, 1)
    world.server.copy()
    world.server.put_back()
    world.checkpoint(driver, 2, 3)
    world.server.copy()
    world.server.put_back()
    world.checkpoint(world.start(), 4)
    assert world.rows() == Counter(world.expected) == Counter(range(5))


@pytest.mark.parametrize("runs", [False, True], ids=["a start", "a run and its restart"])
def test_h27_what_the_copy_holds_prepared_is_committed_once_more(
    tmp_path: Path, server: CopiedServer, *, runs: bool
) -> None:
    """The replica has the PREPARE of checkpoint 1 and not its COMMIT: nothing is lost, and nothing is rolled back."""
    world = World(tmp_path / "head", server)
    driver = world.start()
    world.checkpoint(driver, 0)
    world.meanwhile = server.copy
    world.checkpoint(driver, 1, 2, 3)
    world.meanwhile = lambda: None
    if not runs:
        world.checkpoint(driver)
    server.put_back()
    assert world.rows() == Counter([0])
    if runs:
        with pytest.raises(SetBackError, match="it counts checkpoints up to 0, and had counted up to 1"):
            world.checkpoint(driver, 4)
    driver = world.start()
    assert world.rows() == Counter(range(4))
    world.checkpoint(driver, 5, 6)
    world.checkpoint(world.start(), 7)
    assert world.rows() == Counter(world.expected)
    with closing(world.sink.committer("orders")) as committer:
        assert committer.prepared("i" * 20) == []
        assert committer.inspect("i" * 20, ()).counted == driver.owned.completed + 1


@pytest.mark.parametrize("has_prepared", [True, False], ids=["prepared there", "gone there"])
def test_h27_a_reset_commits_what_the_copy_holds_prepared_and_names_what_is_gone(
    tmp_path: Path, server: CopiedServer, *, has_prepared: bool
) -> None:
    """The copy is from between PREPARE and COMMIT of checkpoint 1, or from before checkpoint 1."""
    world = World(tmp_path / "head", server)
    driver = world.start()
    world.checkpoint(driver, 0)
    if has_prepared:
        world.meanwhile = server.copy
    else:
        server.copy()
    world.checkpoint(driver, 1, 2, 3)
    server.put_back()
    begun = world.driver("n" * 20).reset(expected=driver.owned)
    given_up = [(each.checkpoint_id, len(each.transactions), each.ranges) for each in begun.abandoned]
    if has_prepared:
        assert (world.rows(), given_up) == (Counter(range(4)), [])
    else:
        assert (world.rows(), given_up) == (Counter([0]), [(1, 2, {"kafka": (OffsetRange("t/0", 1, 2),)})])
    with closing(world.sink.committer("orders")) as committer:
        assert (committer.prepared("i" * 20), committer.inspect("n" * 20, ()).counted) == ([], -1)


def test_h31_a_repair_writes_again_what_the_copy_lacks(world: World) -> None:
    """Each row once; nothing is lost where the copy is as new as head, so a second repair does nothing."""
    driver = world.start()
    world.checkpoint(driver, 0)
    world.server.copy()
    world.checkpoint(driver, 1, 2, 3)
    world.checkpoint(driver)
    world.server.put_back()
    with pytest.raises(IdentityError, match="lacks 2 transactions with 3 rows") as refused:
        world.start()
    assert "`eos repair`" in refused.value.remedy
    repaired = world.driver("i" * 20).repair(world.write_again)
    assert [(loss.record.checkpoint_id, loss.rows) for loss in repaired.losses] == [(1, 3)]
    assert world.rows() == Counter(range(4))
    assert world.driver("i" * 20).repair(world.write_again).losses == ()
    world.checkpoint(world.start(), 5)
    assert world.rows() == Counter(world.expected) == Counter([0, 1, 2, 3, 5])
    with closing(world.sink.committer("orders")) as committer:
        assert (committer.prepared("i" * 20), committer.inspect("i" * 20, ()).counted) == ([], 3)


def test_h31_what_head_keeps_no_record_of_is_not_repaired(world: World) -> None:
    driver = world.start()
    world.server.copy()
    for number in range(4):
        world.checkpoint(driver, number)
    world.server.put_back()
    with pytest.raises(IdentityError, match="checkpoint 0 cannot be looked up: records are kept from checkpoint 2 on"):
        world.driver("i" * 20).repair(world.write_again)
    assert world.rows() == Counter()


def test_h34_at_least_once_checkpoints_do_not_hide_what_the_copy_lacks(world: World) -> None:
    """More of them than head keeps records of: the newest record before them stays."""
    world.checkpoint(world.start(), 0)
    world.server.copy()
    world.checkpoint(world.start(), 1, 2, 3)
    driver = world.start(direct=True)
    for number in range(10, 16):
        world.checkpoint(driver, number)
    assert world.rows() == Counter(world.expected)
    world.server.put_back()
    for direct in (True, False):
        with pytest.raises(IdentityError, match="it counts checkpoints up to 0, head calls 7 committed; it lacks 2"):
            world.start(direct=direct)
    assert world.rows() == Counter([0])


@pytest.mark.parametrize("direct", [False, True], ids=["exactly-once", "at-least-once"])
def test_h34_what_the_copy_holds_prepared_is_committed_after_at_least_once_checkpoints(
    tmp_path: Path, server: CopiedServer, *, direct: bool
) -> None:
    """What came at-least-once after the copy is gone, and is not promised; each row of before is there once."""
    world = World(tmp_path / "head", server)
    driver = world.start()
    world.checkpoint(driver, 0)
    world.meanwhile = server.copy
    world.checkpoint(driver, 1, 2, 3)
    world.meanwhile = lambda: None
    driver = world.start(direct=True)
    for number in range(10, 16):
        world.checkpoint(driver, number)
    server.put_back()
    assert world.rows() == Counter([0])
    driver = world.start(direct=direct)
    assert world.rows() == Counter(range(4))
    world.checkpoint(driver, 20, 21)
    world.checkpoint(world.start(), 22)
    assert world.rows() == Counter([*range(4), 20, 21, 22])
    with closing(world.sink.committer("orders")) as committer:
        assert committer.prepared("i" * 20) == []


def test_h34_a_repair_goes_on_over_at_least_once_checkpoints(world: World) -> None:
    """What came at-least-once since is gone, and is not promised: nothing tells which of its rows are there."""
    world.checkpoint(world.start(), 0)
    world.server.copy()
    world.checkpoint(world.start(), 1, 2, 3)
    world.checkpoint(world.start(direct=True), 4, 5)
    world.server.put_back()
    repaired = world.driver("i" * 20).repair(world.write_again)
    assert [(loss.record.checkpoint_id, loss.rows) for loss in repaired.losses] == [(1, 3)]
    assert world.rows() == Counter(range(4))
    world.checkpoint(world.start(), 6)
    assert world.rows() == Counter([0, 1, 2, 3, 6])


@pytest.mark.parametrize("before", [(1, 2, 3), ()], ids=["rows", "no rows"])
def test_h33_a_machine_is_restored_with_its_memory(world: World, before: tuple[int, ...]) -> None:
    """Driver, head and log go back; the driver goes on without a start, and writes the checkpoint with other rows."""
    driver = world.start()
    world.checkpoint(driver, 0)
    world.set_back(driver, lambda: world.checkpoint(driver, *before), with_disk=True)
    assert world.rows() == Counter([0, *before])
    said = "already has checkpoint 1, which this driver is only about to write"
    with pytest.raises((SetBackError, LostCommittableError), match=said if world.log is None else "lost: checkpoint 1"):
        world.checkpoint(driver, 4, 5)
    refused = r"(holds rows of checkpoint|counts checkpoints up to) 1, the newest completed is 0: head was set back"
    for _ in range(2):
        with pytest.raises((IdentityError, LostCommittableError), match=f"{refused}|lost: checkpoint 1"):
            world.start()
    assert world.rows() == Counter([0, *before])


def test_h33_a_machine_is_restored_with_its_memory_to_long_before(world: World) -> None:
    """Further than head and the sink keep history."""
    driver = world.start()
    world.checkpoint(driver, 0)

    def meanwhile() -> None:
        for number in range(1, 8):
            world.checkpoint(driver, number)

    world.set_back(driver, meanwhile, with_disk=True)
    assert world.rows() == Counter(range(8))
    with pytest.raises(SetBackError, match=r"already has checkpoint [17], which this driver is only about to write"):
        world.checkpoint(driver, 10, 11)
    with pytest.raises(IdentityError, match=r"(holds rows of checkpoint|counts checkpoints up to) 7, the newest"):
        world.start()
    assert world.rows() == Counter(range(8))


def test_h33_the_memory_of_a_driver_alone_is_restored(world: World) -> None:
    """The driver is stopped, and the next start goes on: every row is there once."""
    driver = world.start()
    world.checkpoint(driver, 0)
    world.set_back(driver, lambda: world.checkpoint(driver, 1, 2, 3), with_disk=False)
    with pytest.raises((SetBackError, IdentityError), match=r"already has checkpoint 1|cannot follow 1"):
        world.checkpoint(driver, 4, 5)
    assert world.rows() == Counter(range(4))
    world.planned = world.done = 1  # Spark's folder did not go back either
    world.checkpoint(world.start(), 6, 7)
    assert world.rows() == Counter([0, 1, 2, 3, 6, 7])
    with closing(world.sink.committer("orders")) as committer:
        assert committer.prepared("i" * 20) == []

"""A sink that goes back in time: a backup is put back, or a replica that lagged takes over (H26, H27).

Real servers, whose data folders are replaced by a copy of an earlier moment; the real driver, head and sinks, without
Spark.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy

from connectors.log.place import LogPlace
from connectors.sql.mysql.sink import MySqlSink
from connectors.sql.postgres.sink import PostgresSink
from eos.errors import IdentityError, SetBackError
from integration_tests.services.copied import CopiedMariadb, CopiedPostgres, CopiedServer
from tests.resumed_machine_suite import ResumedMachineSuite
from tests.world import INCARNATION, PIPELINE, SCHEMA, World
from twophase.values import OffsetRange

pytestmark = [pytest.mark.any_server, pytest.mark.timeout(300)]


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


def execute(url: str, *statements: str) -> list[tuple[object, ...]]:
    """Return the rows of the last statement."""
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        results = [connection.exec_driver_sql(each) for each in statements]
        return [tuple(row) for row in results[-1]] if results[-1].returns_rows else []


class ServerWorld(World):
    """A pipeline into a table of a server."""

    def __init__(self, machine: Path, server: CopiedServer, *, has_log: bool = False) -> None:
        self.server = server
        database = f"eos_{secrets.token_hex(6)}"
        is_postgres = server.url.startswith("postgresql")
        execute(server.url + ("postgres" if is_postgres else ""), f"CREATE DATABASE {database}")
        url = f"{server.url}{database}"
        execute(url, "CREATE TABLE t (n BIGINT)")
        kind, log = PostgresSink if is_postgres else MySqlSink, LogPlace(machine / "log") if has_log else None
        sink = kind("warehouse", url, "t", log, None).open(SCHEMA)
        super().__init__(machine, sink, lambda: [int(str(n)) for (n,) in execute(url, "SELECT n FROM t")], has_log)


@pytest.fixture(params=["two-phase", "write-ahead-log"])
def world(request: pytest.FixtureRequest, tmp_path: Path, server: CopiedServer) -> ServerWorld:
    """A pipeline that has not begun."""
    return ServerWorld(tmp_path / "machine", server, has_log=request.param != "two-phase")


def test_h26_a_backup_is_put_back_while_nothing_runs(world: ServerWorld) -> None:
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


def test_h26_a_replica_that_lagged_takes_over_during_a_run(world: ServerWorld) -> None:
    driver = world.start()
    world.checkpoint(driver, 0)
    world.server.copy()
    world.checkpoint(driver, 1, 2, 3)
    world.server.put_back()
    with pytest.raises((SetBackError, IdentityError)) as refused:  # a log notices it as it applies
        world.checkpoint(driver, 4)
    with pytest.raises(IdentityError, match=r"lacks \d transactions"):
        world.start()
    assert (world.rows(), isinstance(refused.value, SetBackError)) == (Counter([0]), not world.has_log)


def test_h26_a_copy_of_the_newest_moment_is_accepted(world: ServerWorld) -> None:
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
    world = ServerWorld(tmp_path / "machine", server)
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
    with closing(world.sink.committer(PIPELINE)) as committer:
        assert committer.prepared(INCARNATION) == []
        assert committer.inspect(INCARNATION, ()).counted == driver.owned.completed + 1


@pytest.mark.parametrize("has_prepared", [True, False], ids=["prepared there", "gone there"])
def test_h27_a_reset_commits_what_the_copy_holds_prepared_and_names_what_is_gone(
    tmp_path: Path, server: CopiedServer, *, has_prepared: bool
) -> None:
    """The copy is from between PREPARE and COMMIT of checkpoint 1, or from before checkpoint 1."""
    world = ServerWorld(tmp_path / "machine", server)
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
    with closing(world.sink.committer(PIPELINE)) as committer:
        assert (committer.prepared(INCARNATION), committer.inspect("n" * 20, ()).counted) == ([], -1)


def test_h31_a_repair_writes_again_what_the_copy_lacks(world: ServerWorld) -> None:
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
    repaired = world.driver().repair(world.rewrite_missing)
    assert [(loss.record.checkpoint_id, loss.rows) for loss in repaired.losses] == [(1, 3)]
    assert world.rows() == Counter(range(4))
    assert world.driver().repair(world.rewrite_missing).losses == ()
    world.checkpoint(world.start(), 5)
    assert world.rows() == Counter(world.expected) == Counter([0, 1, 2, 3, 5])
    with closing(world.sink.committer(PIPELINE)) as committer:
        assert (committer.prepared(INCARNATION), committer.inspect(INCARNATION, ()).counted) == ([], 3)


def test_h31_what_head_keeps_no_record_of_is_not_repaired(world: ServerWorld) -> None:
    driver = world.start()
    world.server.copy()
    for number in range(4):
        world.checkpoint(driver, number)
    world.server.put_back()
    with pytest.raises(IdentityError, match="checkpoint 0 cannot be looked up: records are kept from checkpoint 2 on"):
        world.driver().repair(world.rewrite_missing)
    assert world.rows() == Counter()


def test_h34_at_least_once_checkpoints_do_not_hide_what_the_copy_lacks(world: ServerWorld) -> None:
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
    world = ServerWorld(tmp_path / "machine", server)
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
    with closing(world.sink.committer(PIPELINE)) as committer:
        assert committer.prepared(INCARNATION) == []


def test_h34_a_repair_goes_on_over_at_least_once_checkpoints(world: ServerWorld) -> None:
    """What came at-least-once since is gone, and is not promised: nothing tells which of its rows are there."""
    world.checkpoint(world.start(), 0)
    world.server.copy()
    world.checkpoint(world.start(), 1, 2, 3)
    world.checkpoint(world.start(direct=True), 4, 5)
    world.server.put_back()
    repaired = world.driver().repair(world.rewrite_missing)
    assert [(loss.record.checkpoint_id, loss.rows) for loss in repaired.losses] == [(1, 3)]
    assert world.rows() == Counter(range(4))
    world.checkpoint(world.start(), 6)
    assert world.rows() == Counter([0, 1, 2, 3, 6])


class TestResumedMachine(ResumedMachineSuite):
    """See `ResumedMachineSuite`."""

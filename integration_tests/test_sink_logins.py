"""Connections that tasks keep, on real servers: logins counted, state that is left, and drivers that take over."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
import sqlalchemy

from connectors.sql import pool
from connectors.sql.bulk_writer import BulkWriter
from connectors.testing.rows import rows
from connectors.testing.sink_driver import SinkDriver
from eos.errors import ConnectorError, PermitRevokedError
from integration_tests.services.postgres_native import Postgres
from integration_tests.test_compliance import DatabaseTarget, MySqlTarget, PostgresTarget
from twophase.ids import Scope

_CHECKPOINTS: Final = 10
_TASKS: Final = 3
_END_ON_POSTGRES: Final = "SELECT pg_terminate_backend({})"


@dataclass
class Server:
    """A server as its administrator sees it, on one connection."""

    engine: sqlalchemy.Engine
    counting: str
    listing: str  # the tasks' idle connections, and a task's that works
    numbering: str  # of a connection itself
    ending: str

    def logins(self) -> int:
        """How many there have been to the test's database, or to the server."""
        return int(self._asked(self.counting)[0][-1])

    def end(self, session: Any) -> None:
        """End the connection of a session."""
        ((number,),) = session.execute(self.numbering)
        self._asked(self.ending.format(number))

    def end_idle(self) -> int:
        """End the tasks' connections; return how many."""
        found = self._asked(self.listing)
        for row in found:
            self._asked(self.ending.format(row[0]))
        return len(found)

    def execute(self, statement: str) -> None:
        """Change the server, as its administrator."""
        self._asked(statement)

    def connections(self) -> int:
        """How many the tasks have."""
        return len(self._asked(self.listing))

    def _asked(self, statement: str) -> list[Any]:
        with self.engine.connect() as connection:
            result = connection.exec_driver_sql(statement)
            return list(result) if result.returns_rows else []


def on_postgres(postgres: Postgres, url: str) -> Server:
    """The server of this database. The driver's connections are called `eos`, an idle one of a task has no name."""
    name = sqlalchemy.make_url(url).database
    listing = f"SELECT pid FROM pg_stat_activity WHERE datname = '{name}' AND application_name <> 'eos'"
    counting = f"SELECT sessions FROM pg_stat_database WHERE datname = '{name}'"
    return Server(_engine(postgres.admin_url), counting, listing, "SELECT pg_backend_pid()", _END_ON_POSTGRES)


def on_mysql(admin_url: str, url: str) -> Server:
    """The server of this database. It counts its logins alone."""
    name = sqlalchemy.make_url(url).database
    listing = f"SELECT ID FROM information_schema.PROCESSLIST WHERE DB = '{name}'"
    return Server(
        _engine(admin_url), "SHOW GLOBAL STATUS LIKE 'Connections'", listing, "SELECT CONNECTION_ID()", "KILL {}"
    )


def _engine(url: str) -> sqlalchemy.Engine:
    return sqlalchemy.create_engine(url, poolclass=sqlalchemy.StaticPool, isolation_level="AUTOCOMMIT")


@dataclass
class Case:
    """A sink whose tasks keep their connections, in this process as in a worker."""

    target: DatabaseTarget
    server: Server
    direct: bool

    def __post_init__(self) -> None:
        forget_all()  # of tests that ran before in this process
        self.driver = SinkDriver(self.target)
        self.driver.start()
        self.number = 0

    def checkpoint(self) -> None:
        """A whole checkpoint: a hundred rows in each of its tasks."""
        first = self.number * _TASKS * 100
        shares = [rows(first + task * 100, first + (task + 1) * 100) for task in range(_TASKS)]
        if self.direct:
            for task, share in enumerate(shares):
                self.driver.write_directly(self.scope(), *share, task=task)
        else:
            self.driver.checkpoint(self.number, *shares)
        self.number += 1

    def scope(self) -> Scope:
        """Of the next checkpoint."""
        return Scope(self.driver.incarnation, self.driver.epoch, self.number)

    def assert_exact(self) -> None:
        """Every row of every checkpoint is there, once."""
        assert self.number > 0
        assert self.target.rows() == Counter(rows(0, self.number * _TASKS * 100))

    def kept(self) -> Any:
        """The one connection that is idle."""
        (idle,) = pool._pool.idle
        return idle.connection


def forget_all() -> None:
    """Close what is idle."""
    for each in list(pool._pool.idle):
        pool.forget(each.login)


_MYSQL_ONLY: Final = pytest.mark.only_on("MySQL", "MariaDB binds a prepared branch to its connection")


@pytest.fixture(
    params=[
        "postgresql-two-phase",
        "postgresql-at-least-once",
        pytest.param("mysql-at-least-once", marks=pytest.mark.alone),  # it counts all logins to the server
        pytest.param("mysql-two-phase", marks=[_MYSQL_ONLY, pytest.mark.alone]),
    ]
)
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    """Each kind of sink whose tasks keep their connections."""
    kind, _, commit = request.param.partition("-")
    made = (_postgres_case if kind == "postgresql" else _mysql_case)(request, direct=commit == "at-least-once")
    yield made
    made.driver.close()
    forget_all()


@pytest.fixture
def prepared(request: pytest.FixtureRequest) -> Iterator[Case]:
    """PostgreSQL with two-phase commit."""
    made = _postgres_case(request, direct=False)
    yield made
    made.driver.close()
    forget_all()


def _postgres_case(request: pytest.FixtureRequest, *, direct: bool) -> Case:
    url = request.getfixturevalue("postgres_database")
    return Case(PostgresTarget(url, None), on_postgres(request.getfixturevalue("postgres"), url), direct)


def _mysql_case(request: pytest.FixtureRequest, *, direct: bool) -> Case:
    url = request.getfixturevalue("database")
    return Case(MySqlTarget(url, None), on_mysql(request.getfixturevalue("services").admin_database_url, url), direct)


def counted(server: Server, act: Callable[[], None]) -> int:
    """How many logins it takes. PostgreSQL counts them a moment later."""
    time.sleep(1.5)
    before = server.logins()
    act()
    time.sleep(1.5)
    return server.logins() - before


def test_checkpoints_log_in_no_more_than_once(case: Case) -> None:
    def run() -> None:
        for _ in range(_CHECKPOINTS):
            case.checkpoint()

    assert counted(case.server, run) == 1  # of the first task of all
    case.assert_exact()


@pytest.mark.alone
@pytest.mark.only_on("MariaDB", "MySQL lets go of a branch at XA PREPARE")
def test_each_task_of_xa_logs_in_to_mariadb(request: pytest.FixtureRequest) -> None:
    """A prepared branch stays with its connection (connectors.sql.mysql.xa)."""
    made = _mysql_case(request, direct=False)
    assert counted(made.server, made.checkpoint) == _TASKS
    made.assert_exact()
    assert made.server.connections() == 1  # the driver's
    made.driver.close()


@pytest.mark.parametrize("what", ["ended", "timed out"])
def test_a_connection_that_the_server_ends_while_it_is_idle_costs_one_login_and_no_row(case: Case, what: str) -> None:
    case.checkpoint()
    mine = case.kept()
    if what == "ended":
        case.server.end(mine)
    else:
        idle = "SET idle_session_timeout = '500ms'" if "postgres" in case.target.url else "SET SESSION wait_timeout = 1"
        mine.execute(idle)
        time.sleep(2.5)
    assert not mine.answers()
    assert counted(case.server, case.checkpoint) == 1
    assert case.kept() is not mine
    case.assert_exact()


@pytest.mark.alone
def test_a_server_that_is_killed_between_two_checkpoints_costs_one_login(prepared: Case, postgres: Postgres) -> None:
    prepared.checkpoint()
    mine = prepared.kept()
    prepared.server.engine.dispose()
    postgres.kill()
    postgres.up()
    prepared.driver.start()  # the driver's connection is gone as well
    assert counted(prepared.server, prepared.checkpoint) == 1
    assert prepared.kept() is not mine
    prepared.assert_exact()


def test_a_connection_with_an_open_transaction_is_kept_by_no_worker(prepared: Case) -> None:
    prepared.checkpoint()
    session = prepared.kept()
    pool._pool.idle.clear()
    session.execute("BEGIN")
    pool.give_back(_login(prepared), session, 600)
    assert pool._pool.idle == []
    assert not session.answers()
    prepared.checkpoint()
    prepared.assert_exact()


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_what_a_task_leaves_in_its_session_is_gone_for_the_next(request: pytest.FixtureRequest, kind: str) -> None:
    made = (_postgres_case if kind == "postgresql" else _mysql_case)(request, direct=True)
    made.checkpoint()
    session = made.kept()
    fresh = _state(made, type(session)(made.target.url))
    pool._pool.idle.clear()
    for statement in _LEFT[kind]:
        session.execute(statement)
    changed = _state(made, session, close=False)
    assert {name for name, value in fresh.items() if changed[name] != value} == fresh.keys()
    pool.give_back(_login(made), session, 600)
    assert made.kept() is session
    assert _state(made, pool.take(_login(made), _none)) == fresh
    made.driver.close()
    forget_all()


def _none() -> Any:
    pytest.fail("a new connection")


def _login(case: Case) -> pool.Login:
    writer = case.driver.sink.direct_writer(case.driver.writer(case.scope())._transaction)  # type: ignore[attr-defined]
    assert isinstance(writer, BulkWriter)
    return writer._find_login()


_LEFT: Final = {
    "postgresql": [
        "CREATE TEMP TABLE compliance (n INT)",  # hides the target
        "SET search_path = pg_catalog",
        "SET lock_timeout = 0",
        "SET synchronous_commit = off",
        "SET timezone = 'Asia/Kathmandu'",
        "SET datestyle = 'SQL, DMY'",
        "SET application_name = 'eos-of-an-older-permit'",
        "SELECT pg_advisory_lock(4711)",
        "PREPARE of_a_task AS SELECT 1",
        "LISTEN of_a_task",
    ],
    "mysql": [
        "CREATE TEMPORARY TABLE compliance (n INT)",
        "SET SESSION sql_mode = ''",
        "SET SESSION innodb_lock_wait_timeout = 50",
        "SET SESSION time_zone = '+05:45'",
        "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "SET SESSION autocommit = 0",
        "SET NAMES latin1",
        "SET @of_a_task = 1",
        "SELECT GET_LOCK('eos-of-an-older-permit', 0)",
        "SET SESSION foreign_key_checks = 0",
    ],
}
"""What a task could leave on its connection, a statement for each entry of `_STATES`."""

_STATES: Final = {
    "postgresql": {
        "temporary tables": "SELECT count(*) FROM pg_class WHERE relpersistence = 't' AND relkind = 'r'",
        "search_path": "SHOW search_path",
        "lock_timeout": "SHOW lock_timeout",
        "synchronous_commit": "SHOW synchronous_commit",
        "timezone": "SHOW timezone",
        "datestyle": "SHOW datestyle",
        "name": "SHOW application_name",
        "locks": "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
        "statements": "SELECT count(*) FROM pg_prepared_statements",
        "channels": "SELECT count(*) FROM pg_listening_channels()",
    },
    "mysql": {
        "temporary tables": "SELECT COUNT(*) FROM compliance",
        "sql_mode": "SELECT @@sql_mode",
        "lock wait": "SELECT @@innodb_lock_wait_timeout",
        "time zone": "SELECT @@time_zone",
        "isolation": "SHOW VARIABLES WHERE Variable_name IN ('tx_isolation', 'transaction_isolation')",
        "autocommit": "SELECT @@autocommit",
        "names": "SELECT @@character_set_client, @@character_set_results, @@collation_connection",
        "variable": "SELECT @of_a_task",
        "lock": "SELECT IS_USED_LOCK('eos-of-an-older-permit') = CONNECTION_ID()",
        "foreign keys": "SELECT @@foreign_key_checks",
    },
}


def _state(case: Case, session: Any, *, close: bool = True) -> dict[str, Any]:
    """What a task finds on its connection."""
    kind = "postgresql" if "postgres" in case.target.url else "mysql"
    found = {name: session.execute(statement) for name, statement in _STATES[kind].items()}
    if close:
        session.close()
    return found


def test_r5_a_task_of_an_older_driver_writes_nothing_by_its_kept_connection(prepared: Case) -> None:
    """Its worker lives on, wakes up, and has a connection that was logged in before the take-over."""
    prepared.checkpoint()
    older = prepared.driver.permit(prepared.number)
    mine = prepared.kept()
    newer = SinkDriver(prepared.target, prepared.driver.pipeline, incarnation=prepared.driver.incarnation)
    newer.epoch, newer.decided = prepared.driver.epoch, dict(prepared.driver.decided)
    newer.start()
    with pytest.raises(PermitRevokedError):
        prepared.driver.prepare(older, *rows(9000, 9010))
    assert not mine.answers()
    assert pool._pool.idle == []
    newer.checkpoint(prepared.number, rows(300, 400), rows(400, 500), rows(500, 600))
    prepared.number += 1
    prepared.assert_exact()
    newer.close()


def test_h17_a_start_ends_a_task_that_hangs_on_a_kept_connection_and_no_other(prepared: Case) -> None:
    """The name of the permit is on the connection while that has it, and no longer."""
    prepared.checkpoint()
    hanging = prepared.driver.writer(prepared.driver.permit(prepared.number))
    mine = prepared.kept()
    prepared.driver.write(hanging, *rows(9000, 9010))
    assert pool._pool.idle == []  # it has taken the kept one
    newer = SinkDriver(prepared.target, prepared.driver.pipeline, incarnation=prepared.driver.incarnation)
    newer.epoch, newer.decided = prepared.driver.epoch, dict(prepared.driver.decided)
    newer.start()
    with pytest.raises(ConnectorError):
        hanging.prepare()
    hanging.abort()
    assert not mine.answers()
    newer.checkpoint(prepared.number, rows(300, 400), rows(400, 500), rows(500, 600))
    prepared.number += 1
    last = prepared.kept()
    again = SinkDriver(prepared.target, prepared.driver.pipeline, incarnation=prepared.driver.incarnation)
    again.epoch, again.decided = newer.epoch, dict(newer.decided)
    again.start()
    assert last.answers()
    prepared.assert_exact()
    newer.close()
    again.close()

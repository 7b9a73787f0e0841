"""A start refuses a database that may lose what it has acknowledged, or that mixes connections up."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
import sqlalchemy

from connectors.api.contracts import Finding
from connectors.log.place import LogPlace
from connectors.sql.head import require_head
from connectors.sql.mysql.engine import Session as MySqlSession
from connectors.sql.mysql.sink import MySqlSink
from connectors.sql.postgres.engine import Session
from connectors.sql.postgres.sink import PostgresSink
from eos.errors import SpecError, TargetError
from integration_tests.services import Services
from integration_tests.services.pgbouncer_native import pgbouncer
from integration_tests.services.postgres_native import Postgres

ROWS = pa.schema([("id", pa.int64())])
TABLE = "CREATE TABLE rows_in (id BIGINT)"


def fatal(findings: Sequence[Finding]) -> dict[str, Finding]:
    """By the check, without the sink's name."""
    return {each.check.partition(": ")[2]: each for each in findings if each.fatal and not each.ok}


@contextmanager
def _global(services: Services, name: str, value: str) -> Iterator[None]:
    with MySqlSession(services.admin_database_url) as admin:
        before = admin.execute(f"SELECT @@global.{name}")[0][0]
        admin.execute(f"SET GLOBAL {name} = {value}")
        try:
            yield
        finally:
            admin.execute(f"SET GLOBAL {name} = %s", before)


@pytest.mark.alone
def test_mysql_that_does_not_sync_its_commits_is_refused(services: Services, database: str, tmp_path: Path) -> None:
    with MySqlSession(database) as session:
        session.execute(TABLE)
    sinks = [
        MySqlSink("w", database, "rows_in"),
        MySqlSink("w", database, "rows_in", log=LogPlace(tmp_path, 2)),
        MySqlSink("w", database, "rows_in", repeats=True),
    ]
    for sink in sinks:
        assert sink.open(ROWS).columns == ("id",)
    require_head(database)
    with _global(services, "innodb_flush_log_at_trx_commit", "2"):
        for sink in sinks:
            with pytest.raises(TargetError, match=r"sink w at .*\n.*innodb_flush_log_at_trx_commit: 2") as refused:
                sink.open(ROWS)
            assert "SET GLOBAL innodb_flush_log_at_trx_commit = 1" in refused.value.remedy
            assert "innodb_flush_log_at_trx_commit" in fatal(sink.check(ROWS))
        with pytest.raises(SpecError, match=r"checkpoint\.head: .*\n.*innodb_flush_log_at_trx_commit: 2"):
            require_head(database)


@contextmanager
def _altered(postgres: Postgres, name: str, value: str) -> Iterator[None]:
    def set_to(statement: str) -> None:
        with Session(postgres.admin_url) as admin:
            admin.execute(statement)
            admin.execute("SELECT pg_reload_conf()")

    def is_now(wanted: str) -> bool:
        with Session(postgres.admin_url) as admin:
            return bool(admin.execute("SELECT current_setting(%s) = %s", name, wanted)[0][0])

    set_to(f"ALTER SYSTEM SET {name} = {value}")
    try:
        _await(lambda: is_now(value))
        yield
    finally:
        set_to(f"ALTER SYSTEM RESET {name}")
        _await(lambda: not is_now(value))


def _await(condition: object) -> None:
    assert callable(condition)
    deadline_s = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


@pytest.mark.alone
@pytest.mark.any_server
def test_postgresql_that_does_not_sync_its_commits_is_refused(postgres: Postgres, postgres_database: str) -> None:
    with Session(postgres_database) as session:
        session.execute(TABLE)
    sink = PostgresSink("w", postgres_database, "rows_in")
    assert sink.open(ROWS).columns == ("id",)
    require_head(postgres_database)
    with _altered(postgres, "fsync", "off"):
        with pytest.raises(TargetError, match="fsync: off") as refused:
            sink.open(ROWS)
        assert "set fsync = on" in refused.value.remedy
        with pytest.raises(SpecError, match="fsync: off"):
            require_head(postgres_database)


@pytest.fixture
def limited(postgres: Postgres, postgres_database: str) -> Iterator[str]:
    """The URL of a user who may read the table, and nothing else."""
    name = f"eos_{secrets.token_hex(5)}"
    with Session(postgres_database) as session:
        session.execute(TABLE)
    with Session(postgres.admin_url) as admin:
        admin.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'only-for-this-test'")
    try:
        with Session(postgres_database) as session:
            session.execute(f"GRANT SELECT ON rows_in TO {name}")
        url = sqlalchemy.make_url(postgres_database).set(username=name, password="only-for-this-test")
        yield url.render_as_string(hide_password=False)
    finally:
        with Session(postgres_database) as session:
            session.execute("DROP TABLE rows_in")
        with Session(postgres.admin_url) as admin:
            admin.execute(f"DROP ROLE {name}")


@pytest.mark.any_server
def test_a_user_of_postgresql_who_may_not_insert_is_refused(
    postgres_database: str, limited: str, tmp_path: Path
) -> None:
    sink = PostgresSink("w", limited, "rows_in", log=LogPlace(tmp_path, 2))
    with pytest.raises(TargetError, match="INSERT: not allowed") as refused:
        sink.open(ROWS)
    assert "GRANT INSERT ON" in refused.value.remedy
    with Session(postgres_database) as session:
        session.execute(f"GRANT INSERT (id) ON rows_in TO {sqlalchemy.make_url(limited).username}")
    assert sink.open(ROWS).columns == ("id",)
    assert "INSERT" not in fatal(sink.check(ROWS))


class _PreparesNothing(Postgres):
    """As PostgreSQL comes: `max_prepared_transactions` is 0."""

    kind = "postgres-unprepared"
    wanted_port = "15453"

    @property
    def settings(self) -> Sequence[str]:
        """See Postgres."""
        return (*super().settings, "shared_buffers=16MB", "max_prepared_transactions=0")


@pytest.fixture
def unprepared() -> Iterator[str]:
    """The URL of a database whose server prepares no transaction."""
    server = _PreparesNothing()
    server.up()
    try:
        with Session(f"{server.url}postgres") as session:
            session.execute("CREATE DATABASE unprepared")
        yield f"{server.url}unprepared"
    finally:
        server.down()


@pytest.mark.any_server
def test_postgresql_that_prepares_nothing_is_refused_where_transactions_are_prepared(
    unprepared: str, tmp_path: Path
) -> None:
    with Session(unprepared) as session:
        session.execute(TABLE)
    two_phase = PostgresSink("w", unprepared, "rows_in")
    with pytest.raises(TargetError, match="max_prepared_transactions: 0") as refused:
        two_phase.open(ROWS)
    assert "`commit: write-ahead-log`" in refused.value.remedy
    assert "max_prepared_transactions" in fatal(two_phase.check(ROWS))
    others = [
        PostgresSink("w", unprepared, "rows_in", log=LogPlace(tmp_path, 2)),
        PostgresSink("w", unprepared, "rows_in", repeats=True),
    ]
    for sink in others:
        assert sink.open(ROWS).columns == ("id",)
        assert fatal(sink.check(ROWS)) == {}


@pytest.mark.any_server
@pytest.mark.parametrize("busy", [0, 3])
def test_a_pooler_that_mixes_connections_up_is_refused(postgres_database: str, tmp_path: Path, busy: int) -> None:
    """`busy`: connections whose transactions were open at once, so that the pool has others to choose from."""
    with Session(postgres_database) as session:
        session.execute(TABLE)
    with pgbouncer(postgres_database, tmp_path, "transaction") as pooled:
        others = [Session(pooled) for _ in range(busy)]
        for each in others:
            each.execute("BEGIN")
        for each in others:
            each.execute("ROLLBACK")
        sink = PostgresSink("w", pooled, "rows_in")
        with pytest.raises(
            TargetError, match="pooler: through a pooler that gives each transaction another"
        ) as refused:
            sink.open(ROWS)
        assert "pool_mode = session" in refused.value.remedy
        assert "pooler" in fatal(sink.check(ROWS))
        with pytest.raises(SpecError, match=r"checkpoint\.head: .*\n(.*\n)*.*pooler"):
            require_head(pooled)
        for each in others:
            each.close()


@pytest.mark.any_server
def test_a_pooler_in_session_mode_and_the_server_itself_are_taken(postgres_database: str, tmp_path: Path) -> None:
    with Session(postgres_database) as session:
        session.execute(TABLE)
    with pgbouncer(postgres_database, tmp_path, "session") as pooled:
        for url, kind in ((postgres_database, "directly"), (pooled, "one server connection for each connection")):
            sink = PostgresSink("w", url, "rows_in")
            assert sink.open(ROWS).columns == ("id",)
            (found,) = [each for each in sink.check(ROWS) if each.check == "w: pooler"]
            assert found.ok
            assert kind in found.detail
        assert sqlalchemy.make_url(pooled).port != sqlalchemy.make_url(postgres_database).port

"""`commit: upsert` on MySQL and MariaDB: rows are put by REPLACE where nobody can tell, and nowhere else."""

from __future__ import annotations

import secrets
from dataclasses import replace

import pytest
import sqlalchemy

from connectors.sql.mysql import store as module
from connectors.sql.mysql.store import MySqlStore, can_replace
from connectors.sql.mysql.target import read_target
from integration_tests.merging import LONG, Make, Merging
from integration_tests.merging import make as make
from integration_tests.services import Services

KV = [("k", LONG), ("v", LONG)]
MYSQL = pytest.mark.parametrize("kind", ["mysql"])


def replaces(made: Merging, url: str | None = None) -> bool:
    store = MySqlStore(url or made.url)
    try:
        return can_replace(store, read_target(store, "merged"), [name for name, _ in KV])
    finally:
        store.close()


def checkpoints(made: Merging) -> None:
    """New rows, a row again, one that goes."""
    made.start()
    made.checkpoint(0, [(1, 1, 0, 1, False), (2, 2, 0, 2, False), (3, 3, 0, 3, False)])
    made.checkpoint(1, [(2, 20, 0, 4, False), (3, 0, 0, 5, True), (4, 4, 0, 6, False)])
    assert made.rows("k, v") == [(1, 1), (2, 20), (4, 4)]


@MYSQL
def test_a_table_of_its_own(make: Make) -> None:
    made = make("k BIGINT PRIMARY KEY, v BIGINT, twice BIGINT AS (2 * v)", KV, "k")
    assert replaces(made)
    checkpoints(made)
    assert made.rows("k, twice") == [(1, 2), (2, 40), (4, 8)]


@MYSQL
def test_rows_of_other_tables_stay(make: Make) -> None:
    """REPLACE would take them away with the row that they refer to."""
    made = make("k BIGINT PRIMARY KEY, v BIGINT", KV, "k").start()
    made.checkpoint(0, [(2, 2, 0, 1, False)])
    made.execute(
        "CREATE TABLE child (k BIGINT, FOREIGN KEY (k) REFERENCES merged (k) ON DELETE CASCADE)",
        "INSERT INTO child VALUES (2)",
    )
    assert replaces(made)
    made.checkpoint(1, [(2, 20, 0, 2, False)])
    assert made.execute("SELECT * FROM child") == [(2,)]
    made.checkpoint(2, [(2, 0, 0, 3, True)])
    assert made.rows() == []
    assert made.execute("SELECT * FROM child") == []  # a deletion is one


@MYSQL
def test_a_column_that_is_not_written_keeps_its_value(make: Make) -> None:
    made = make("k BIGINT PRIMARY KEY, v BIGINT, note BIGINT DEFAULT 7", KV, "k").start()
    assert not replaces(made)
    made.checkpoint(0, [(1, 1, 0, 1, False)])
    made.execute("UPDATE merged SET note = 9")
    made.checkpoint(1, [(1, 2, 0, 2, False)])
    assert made.rows() == [(1, 2, 9)]


@MYSQL
def test_a_table_that_is_called_as_the_one_in_which_rows_waited(make: Make) -> None:
    """A temporary table hides one of its name; MariaDB merged into that, and the rows were gone with it."""
    made = replace(make("k BIGINT PRIMARY KEY, v BIGINT, note BIGINT DEFAULT 7", KV, "k"), table="eos_stage")
    checkpoints(made)


@MYSQL
def test_many_rows_are_merged_some_at_a_time(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement must end before its connection is given up: what is decided would never be applied."""
    monkeypatch.setattr(module, "_MERGED_AT_ONCE", 2)
    statements: list[str] = []
    checked = MySqlStore._checked

    def noted(self: MySqlStore, statement: str) -> None:
        statements.append(statement.split()[0])
        checked(self, statement)

    made = make("k BIGINT PRIMARY KEY, v BIGINT, note BIGINT DEFAULT 7", KV, "k").start()
    monkeypatch.setattr(MySqlStore, "_checked", noted)
    made.checkpoint(0, [(k, k, 0, k, False) for k in range(7)])
    assert statements == ["INSERT"] * 4
    made.checkpoint(1, [*((k, 0, 0, 10 + k, True) for k in range(3)), *((k, 10 * k, 0, 10 + k, False) for k in (3, 8))])
    assert statements[4:] == ["DELETE", "DELETE", "INSERT"]
    assert made.rows("k, v") == [(3, 30), (4, 4), (5, 5), (6, 6), (8, 80)]


@MYSQL
def test_foreign_keys_of_the_table_itself_are_checked(make: Make) -> None:
    made = make("", KV, "k")
    made.execute(
        "CREATE TABLE parent (v BIGINT PRIMARY KEY)",
        "INSERT INTO parent VALUES (1), (2), (3), (20), (4)",
        "CREATE TABLE merged (k BIGINT PRIMARY KEY, v BIGINT, FOREIGN KEY (v) REFERENCES parent (v))",
    )
    assert not replaces(made)
    checkpoints(made)


@MYSQL
@pytest.mark.parametrize("allowed", [True, False], ids=["seen", "hidden"])
def test_triggers_of_updates(make: Make, services: Services, allowed: bool) -> None:
    """Whether we may see them or not."""
    made = make("k BIGINT PRIMARY KEY, v BIGINT", KV, "k")
    url = sqlalchemy.make_url(made.url)
    where = url.database
    made.execute("CREATE TABLE told (what VARCHAR(9), k BIGINT)")
    for name, event, row in (("goes", "DELETE", "OLD"), ("changes", "UPDATE", "NEW")):
        told = f"INSERT INTO {where}.told VALUES ('{event}', {row}.k)"
        admin(services, f"CREATE TRIGGER {where}.{name} AFTER {event} ON {where}.merged FOR EACH ROW {told}")
    user = f"u{secrets.token_hex(5)}"
    if not allowed:
        admin(services, f"CREATE USER {user} IDENTIFIED BY 'eos-test'")
        rights = "SELECT, INSERT, UPDATE, DELETE, CREATE, CREATE TEMPORARY TABLES"
        admin(services, f"GRANT {rights} ON {where}.* TO {user}")
        made.url = url.set(username=user, password="eos-test").render_as_string(hide_password=False)
    try:
        assert not replaces(made)
        checkpoints(made)
    finally:
        if not allowed:
            admin(services, f"DROP USER {user}")
    assert made.execute("SELECT * FROM told ORDER BY k") == [("UPDATE", 2), ("DELETE", 3)]


def admin(services: Services, statement: str) -> None:
    engine = sqlalchemy.create_engine(
        services.admin_database_url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        connection.exec_driver_sql(statement)

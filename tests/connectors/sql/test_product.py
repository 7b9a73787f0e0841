"""Managed databases, proxies and poolers, by the words that they say of themselves; and the oldest servers."""

from __future__ import annotations

from typing import cast

import pytest

from connectors.sql.mysql import product as mysql
from connectors.sql.mysql import requirements
from connectors.sql.mysql.dialect import Dialect
from connectors.sql.mysql.engine import Session
from connectors.sql.postgres import product as postgres
from connectors.sql.postgres import requirements as of_postgres
from connectors.sql.postgres.engine import Session as PostgresSession


@pytest.mark.parametrize(
    ("greeting", "variables", "name", "fatal"),
    [
        (
            "9.7.4",
            {"version": "9.7.4", "version_comment": "MySQL Community Server - GPL"},
            "a server of its own",
            False,
        ),
        ("5.5.5-10.11.6-MariaDB", {"version": "10.11.6-MariaDB", "wsrep_on": "OFF"}, "a server of its own", False),
        ("8.0.30-Vitess", {}, "Vitess", True),
        ("8.0.34", {"version": "8.0.34-PlanetScale"}, "PlanetScale", True),
        ("5.7.25-TiDB-v7.1.0", {}, "TiDB", True),
        ("5.7.32", {"version_comment": "SingleStoreDB source distribution"}, "SingleStore", True),
        ("8.0.11 (ProxySQL)", {"version": "8.0.36"}, "ProxySQL", False),
        ("8.0.28", {"version_comment": "Source distribution", "aurora_version": "3.05.2"}, "Amazon Aurora", False),
        ("5.5.5-10.11.6-MariaDB", {"wsrep_on": "ON"}, "a Galera cluster", True),
    ],
)
def test_what_answers(greeting: str, variables: dict[str, str], name: str, fatal: bool) -> None:
    found = mysql.product(greeting, variables)
    assert (found.name, found.fatal) == (name, fatal)
    assert bool(found.trouble) == bool(found.remedy) == (name != "a server of its own")
    assert bool(found.with_log) == bool(found.log_remedy)
    assert "not built" not in found.remedy
    if fatal and name != "SingleStore":
        assert "`commit: write-ahead-log`" in found.remedy
        assert "`commit: upsert`" in found.remedy
        assert "no test of this framework runs" in found.with_log


def test_what_these_servers_lack_is_not_offered() -> None:
    tidb = mysql.product("5.7.25-TiDB-v7.1.0", {})
    assert "`commit: upsert` needs CREATE TEMPORARY TABLE … SELECT, which TiDB does not have" in tidb.remedy
    singlestore = mysql.product("5.7.32", {"version_comment": "SingleStoreDB source distribution"})
    assert "commit:" not in singlestore.remedy
    assert "no InnoDB tables" in singlestore.with_log


class _Answers:
    """A session of a server that no test can start: its version, and its variables."""

    def __init__(self, greeting: str, **variables: str) -> None:
        self.dialect = Dialect(greeting)
        self._variables = variables

    def execute(self, _statement: str, *names: str) -> list[tuple[str, str]]:
        return [(name, self._variables[name]) for name in names if name in self._variables]


@pytest.mark.parametrize(
    ("greeting", "ok", "reason"),
    [
        ("8.0.28", False, "8.0.30"),
        ("8.0.29", False, "the binary log and InnoDB"),
        ("8.0.30", True, ""),
        ("9.7.0", True, ""),
        ("5.5.5-10.5.1-MariaDB-log", False, "10.5.2"),
        ("5.5.5-10.5.2-MariaDB-log", True, ""),
    ],
)
def test_the_oldest_server_that_keeps_what_is_prepared(greeting: str, ok: bool, reason: str) -> None:
    session = cast("Session", _Answers(greeting, xa_detach_on_prepare="ON"))
    version = next(iter(requirements.can_prepare(session)))
    assert (version.check, version.ok, version.fatal) == ("version", ok, True)
    assert reason in version.remedy
    assert "`commit: write-ahead-log`" in version.remedy


def test_branches_that_stay_with_their_connection_are_refused() -> None:
    session = cast("Session", _Answers("8.0.36", xa_detach_on_prepare="OFF"))
    assert [each.check for each in requirements.can_prepare(session) if not each.ok] == ["xa_detach_on_prepare"]


@pytest.mark.parametrize(
    ("version", "citus", "name", "fatal"),
    [
        (
            "PostgreSQL 15.18 (Debian 15.18-0+deb12u1) on x86_64-pc-linux-gnu, compiled by gcc (Debian 12.2.0) 12.2.0",
            False,
            "a server of its own",
            True,
        ),
        ("PostgreSQL 16.2 on x86_64-pc-linux-gnu, compiled by gcc", True, "Citus", False),
        (
            "CockroachDB CCL v23.1.11 (x86_64-pc-linux-gnu, built 2023/09/27 01:53:43, go1.19.10)",
            False,
            "CockroachDB",
            True,
        ),
        (
            "PostgreSQL 11.2-YB-2.18.0.0-b0 on x86_64-pc-linux-gnu, compiled by clang version 15.0.3, 64-bit",
            False,
            "YugabyteDB",
            True,
        ),
    ],
)
def test_what_answers_as_postgresql(version: str, citus: bool, name: str, fatal: bool) -> None:
    found = postgres.product(version, citus=citus)
    assert (found.name, found.fatal) == (name, fatal)
    assert bool(found.trouble) == (name != "a server of its own")


class _Settings:
    """A session of a server with these settings."""

    def __init__(self, **settings: str) -> None:
        self._settings = settings

    def execute(self, _statement: str, *names: str) -> list[tuple[str, ...]]:
        return [tuple(self._settings[name] for name in names)]


def test_pages_that_are_not_written_whole_are_a_warning() -> None:
    """Some storage writes each page as a whole. No storage makes up for a commit that is not synced."""
    session = cast("PostgresSession", _Settings(fsync="off", full_page_writes="off"))
    found = {each.check: (each.ok, each.fatal) for each in of_postgres.durability(session)}
    assert found == {"fsync": (False, True), "full_page_writes": (False, False)}


@pytest.mark.parametrize(
    ("variables", "wrong"),
    [
        ({"innodb_flush_log_at_trx_commit": "1", "log_bin": "OFF"}, []),
        ({"innodb_flush_log_at_trx_commit": "1", "log_bin": "ON", "sync_binlog": "1"}, []),
        ({"innodb_flush_log_at_trx_commit": "2", "log_bin": "OFF"}, ["innodb_flush_log_at_trx_commit"]),
        ({"innodb_flush_log_at_trx_commit": "1", "log_bin": "ON", "sync_binlog": "0"}, ["sync_binlog"]),
        ({}, ["innodb_flush_log_at_trx_commit"]),
    ],
)
def test_r6_a_server_that_may_forget_what_it_has_acknowledged_is_refused(
    variables: dict[str, str], wrong: list[str]
) -> None:
    session = cast("Session", _Answers("9.7.0", **variables))
    assert [each.check for each in requirements.durability(session) if each.fatal and not each.ok] == wrong


def test_a_server_that_takes_no_writes_is_refused() -> None:
    for variables, ok in (
        ({"read_only": "ON"}, False),
        ({"innodb_read_only": "ON"}, False),
        ({"read_only": "OFF"}, True),
    ):
        assert requirements.writable(cast("Session", _Answers("9.7.0", **variables))).ok == ok


@pytest.mark.parametrize(("most", "ok"), [("0", False), ("100", True)])
def test_a_postgresql_server_that_prepares_nothing_is_refused(most: str, ok: bool) -> None:
    found = of_postgres.prepared_allowed(cast("PostgresSession", _Settings(max_prepared_transactions=most)))
    assert (found.ok, found.fatal) == (ok, True)

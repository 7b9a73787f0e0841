"""The settings of a connection, which the servers' own may contradict, and the meaning of what servers answer.

The real test servers run in another time zone than UTC, and MySQL's at REPEATABLE READ (integration_tests/services).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from connectors.sql.dead_letters import read_dead_letters
from connectors.sql.head import SqlHead
from connectors.sql.mysql.engine import Session as MySqlSession
from connectors.sql.mysql.errors import ServerError as MySqlError
from connectors.sql.mysql.store import MySqlStore
from connectors.sql.postgres.engine import Session as PostgresSession
from connectors.sql.postgres.errors import ServerError as PostgresError
from connectors.sql.postgres.store import PostgresStore
from connectors.sql.statements import StatementError, in_transaction
from eos.errors import ConnectorError, HeadAccessError, HeadError, HeadUnknownError
from tests.played.mysql import mysql
from tests.played.postgres import postgres
from tests.played.script import Asks, Changed, Cut, Named, Refused, Script
from tests.played.two_phase import SERVERS, Played
from twophase.head import Versioned


@pytest.fixture
def of_mysql() -> Iterator[tuple[str, Script]]:
    with mysql() as found:
        yield found


@pytest.fixture
def of_postgres() -> Iterator[tuple[str, Script]]:
    with postgres() as found:
        yield found


def test_a_connection_to_mysql_reads_committed_rows_in_utc(of_mysql: tuple[str, Script]) -> None:
    url, script = of_mysql
    MySqlSession(url, let_go_s=77).close()
    first, second = script.statements("^SET SESSION")
    assert first == "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
    settings = dict(each.split(" = ") for each in second.removeprefix("SET SESSION ").split(", ") if " = " in each)
    assert settings["time_zone"] == "'+00:00'"
    assert settings["autocommit"] == "1"
    assert settings["completion_type"] == "'NO_CHAIN'"  # else a COMMIT opens a transaction
    assert settings["sql_notes"] == "1"  # rounding a decimal is only a note
    assert settings["lock_wait_timeout"] == "20"  # a year by default (H17)
    assert settings["wait_timeout"] == "77"
    assert settings["innodb_lock_wait_timeout"] == "3"
    modes = settings["sql_mode"].strip("'").split(",")
    assert {"STRICT_ALL_TABLES", "NO_ZERO_DATE", "NO_AUTO_VALUE_ON_ZERO"} <= set(modes)
    assert "NO_BACKSLASH_ESCAPES" not in modes


def test_a_server_that_asks_for_a_file_gets_none_at_any_door(of_mysql: tuple[str, Script]) -> None:
    """In answer to any statement, of a sink, of head or of a command; and is told of as a server that fails."""
    url, script = of_mysql
    read_dead_letters(url, "letters", {})
    head = SqlHead(url, "orders")
    assert head.read() is None
    with MySqlSession(url) as session:
        script.on("^(SELECT 1|INSERT INTO t)", Asks("/etc/passwd"))
        with pytest.raises(MySqlError, match="a local file that this statement does not send"):
            session.execute("SELECT 1")
        with pytest.raises(MySqlError, match="a local file that this statement does not send"):
            session.send("INSERT INTO t VALUES (1)")
    script.on("FROM (letters|eos_head)", Asks("/etc/passwd"))
    with pytest.raises(ConnectorError, match="a local file that this statement does not send"):
        read_dead_letters(url, "letters", {})
    with pytest.raises(HeadError):
        head.read()
    assert len(script.files) >= 4
    assert set(script.files) == {b""}


def test_no_command_of_the_url_has_mysql_read_texts_in_another_character_set(of_mysql: tuple[str, Script]) -> None:
    """In GBK the backslash before a quote is the second byte of a character, and the rest of a record would be SQL."""
    url, script = of_mysql
    own = "SET NAMES gbk"
    with MySqlSession(f"{url}?init_command={own}") as session:
        session.driver.reset()
        assert script.statements("^SET NAMES")[-2:] == [own, "SET NAMES utf8mb4"]
    read_dead_letters(f"{url}?init_command={own}", "letters", {})
    names = script.statements("^SET NAMES")
    assert names.count(own) >= 3
    assert {after for each, after in pairwise([*names, "nothing"]) if each == own} == {"SET NAMES utf8mb4"}


def test_a_connection_to_postgresql_reads_committed_rows_in_utc(of_postgres: tuple[str, Script]) -> None:
    url, script = of_postgres
    PostgresSession(url, let_go_s=77).close()
    (settings,) = script.statements("set_config")
    for name, value in {
        "timezone": "UTC",
        "client_encoding": "UTF8",
        "datestyle": "ISO, YMD",
        "bytea_output": "hex",
        "default_transaction_isolation": "read committed",
        "default_transaction_read_only": "off",
        "standard_conforming_strings": "on",
        "statement_timeout": "0",
        "lock_timeout": "3s",
        "idle_in_transaction_session_timeout": "77s",
    }.items():
        assert f"set_config('{name}', '{value}', false)" in settings
    assert "WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false)" in settings  # of synchronous_commit


def test_the_driver_waits_a_second_for_a_lock_and_then_between_its_calls(
    of_mysql: tuple[str, Script], of_postgres: tuple[str, Script]
) -> None:
    MySqlStore(of_mysql[0]).close()
    PostgresStore(of_postgres[0]).close()
    assert of_mysql[1].statements("innodb_lock_wait_timeout = 1,")
    assert of_postgres[1].statements("'lock_timeout', '1s'")
    for name, server in SERVERS.items():
        with server() as played:
            played.connect().close()
            assert played.script.statements("innodb_lock_wait_timeout = 1,|'lock_timeout', '1s'"), name


@pytest.fixture(params=SERVERS)
def played(request: pytest.FixtureRequest) -> Iterator[Played]:
    with SERVERS[request.param]() as found:
        yield found


def test_a_block_that_fails_is_rolled_back_and_one_that_ends_is_committed(played: Played) -> None:
    begin = "^BEGIN|^START TRANSACTION"
    with played.connect() as session:
        with in_transaction(session):
            session.execute("SELECT 1")
        played.script.on("boom", played.duplicate)
        with pytest.raises(StatementError), in_transaction(session):
            session.execute("boom")
        assert played.script.order(begin, "SELECT 1$", "boom", "^COMMIT", "^ROLLBACK") == [
            *(begin, "SELECT 1$", "^COMMIT"),
            *(begin, "boom", "^ROLLBACK"),
        ]


def test_a_commit_without_an_answer_is_an_error_and_its_rollback_hides_nothing(played: Played) -> None:
    played.script.on("^COMMIT", Cut())
    with played.connect() as session, pytest.raises(StatementError) as caught, in_transaction(session):
        session.execute("SELECT 1")
    assert caught.value.disconnected


def test_a_commit_that_postgresql_turns_into_a_rollback_is_an_error(of_postgres: tuple[str, Script]) -> None:
    url, script = of_postgres
    script.on("^COMMIT", Named("ROLLBACK"))
    with PostgresSession(url) as session:
        with pytest.raises(PostgresError, match="rolled back instead of COMMIT"), in_transaction(session):
            session.execute("INSERT INTO t VALUES (1)")
        session.execute("ROLLBACK")  # is one


@pytest.mark.parametrize("server", [mysql, postgres])
def test_dead_letters_are_read_in_utc(server: object) -> None:
    with server() as (url, script):  # type: ignore[operator]
        assert read_dead_letters(url, "letters", {}) == []
        zone, reading = r"^SET time_zone = '\+00:00'|^SET timezone = 'UTC'", "FROM letters"
        assert script.order(zone, reading) == [zone, reading]


DISCONNECTED = {"mysql": (1053, 1927, 2006, 2013, 4031), "postgres": ("57P01", "57P02", "57P05", "25P03", "08006")}
STILL_THERE = {"mysql": (1205, 1213, 1397, 1399, 1062), "postgres": ("55P03", "40P01", "42704", "55000", "57014")}


@pytest.mark.parametrize(("numbers", "gone"), [(DISCONNECTED, True), (STILL_THERE, False)])
def test_after_which_errors_an_answer_is_not_known(numbers: dict[str, tuple[int | str, ...]], gone: bool) -> None:
    for number in numbers["mysql"]:
        assert MySqlError(int(number), "").disconnected == gone, number
    for state in numbers["postgres"]:
        assert PostgresError(str(state), "").disconnected == gone, state
    assert PostgresError("", "").disconnected


def test_which_errors_leave_a_prepared_transaction_in_doubt() -> None:
    """XAER_NOTA, XAER_RMFAIL; undefined object, and one in a wrong state, as while another connection ends it."""
    assert [number for number in range(1390, 1410) if MySqlError(number, "").in_doubt] == [1397, 1399]
    assert [number for number in (1402, 1613, 1614, 1397) if MySqlError(number, "").rolled_back] == [1402, 1613, 1614]
    states = ("42704", "55000", "55P03", "42710", "25P02")
    assert [state for state in states if PostgresError(state, "").in_doubt] == ["42704", "55000"]
    assert [state for state in states if PostgresError(state, "").lock_wait] == ["55P03"]
    assert [number for number in (1205, 1213, 1206) if MySqlError(number, "").lock_wait] == [1205]


HEADS = pytest.mark.parametrize("server", [mysql, postgres])
TAKEN = {mysql: Refused(1062, "Duplicate entry"), postgres: Refused("23505", "duplicate key")}
DENIED = {mysql: Refused(1142, "UPDATE command denied"), postgres: Refused("42501", "permission denied")}
SWAPPING = "UPDATE eos_head"


@HEADS
def test_r1_a_swap_of_head_lands_only_where_a_row_is_changed(server: object) -> None:
    with server() as (url, script):  # type: ignore[operator]
        head = SqlHead(url, "orders")
        script.on(SWAPPING, Changed(1), Changed(0))
        assert head.swap(Versioned(3, b"three"), b"four")
        assert not head.swap(Versioned(3, b"three"), b"four")
        script.on("INSERT INTO eos_head", Changed(1), TAKEN[server])  # type: ignore[index]
        assert head.swap(None, b"one")
        assert not head.swap(None, b"one")
        head.close()


@HEADS
def test_r6_a_swap_of_head_without_an_answer_is_an_unknown_outcome(server: object) -> None:
    """It may have landed: only a read of head tells."""
    with server() as (url, script):  # type: ignore[operator]
        head = SqlHead(url, "orders")
        assert head.read() is None
        script.on(SWAPPING, Cut(), Changed(1))
        script.on("^COMMIT", lambda _: Cut() if SWAPPING in script.asked[-2][1] else Changed())
        for _ in range(2):  # of the UPDATE, and of its COMMIT
            with pytest.raises(HeadUnknownError):
                head.swap(Versioned(3, b"three"), b"four")
        followed = [(one, other) for (_, one), (_, other) in pairwise(script.asked) if SWAPPING in one]
        assert "COMMIT" in [other for _, other in followed], "the second was to be cut off in its COMMIT"
        script.on(SWAPPING, DENIED[server])  # type: ignore[index]
        with pytest.raises(HeadError):
            head.swap(Versioned(3, b"three"), b"four")
        head.close()


@HEADS
def test_a_right_that_is_missing_is_said_to_whoever_reads_head(server: object) -> None:
    with server() as (url, script):  # type: ignore[operator]
        script.on("FROM eos_head", DENIED[server])  # type: ignore[index]
        head = SqlHead(url, "orders")
        with pytest.raises(HeadAccessError, match="denied"):
            head.read()
        head.close()


def test_r6_head_in_postgresql_commits_to_the_disk_and_holds_no_lock_for_long(of_postgres: tuple[str, Script]) -> None:
    url, script = of_postgres
    head = SqlHead(url, "orders")
    head.read()
    (settings,) = {each for each in script.statements("set_config") if "application_name" not in each}
    assert "set_config('synchronous_commit', CASE current_setting('synchronous_commit')" in settings
    assert "set_config('idle_in_transaction_session_timeout', '60s', false)" in settings
    head.close()

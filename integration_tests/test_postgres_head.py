"""Head in a PostgreSQL database: the suite that every head register passes, and what it has acknowledged is on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing

import pytest
import sqlalchemy

from connectors.sql.head import SqlHead, check_head, require_head
from connectors.sql.postgres import requirements
from connectors.sql.postgres.engine import Session
from eos.errors import HeadError
from integration_tests.services.postgres_native import Postgres
from tests.head_store_suite import HeadStoreSuite
from twophase.head import HeadStore, Versioned

pytestmark = pytest.mark.any_server


@pytest.fixture
def again(postgres_database: str) -> Callable[[], HeadStore]:
    return lambda: SqlHead(postgres_database, "orders 中")


class TestSqlHead(HeadStoreSuite):
    """See `HeadStoreSuite`."""


def set_for_the_role(database: str, value: str) -> None:
    name = sqlalchemy.make_url(database).database
    with Session(database) as session:
        session.execute(f"ALTER ROLE eos IN DATABASE {name} SET synchronous_commit = {value}")


_SETTINGS = {"off": "on", "local": "on", "remote_write": "on", "on": "on", "remote_apply": "remote_apply"}


@pytest.mark.parametrize("of_the_role", _SETTINGS)
def test_a_swap_is_on_disk_whatever_the_role_is_set_to(postgres_database: str, of_the_role: str) -> None:
    """As the very transaction of the swap has it; and a sink's connection, too."""
    with closing(SqlHead(postgres_database, "orders")) as head:
        assert head.swap(None, b"first")
        with Session(postgres_database) as session:
            session.execute("CREATE TABLE seen (value TEXT)")
            session.execute(
                "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS"
                " $$BEGIN INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NEW; END$$"
            )
            session.execute("CREATE TRIGGER notes BEFORE UPDATE ON eos_head FOR EACH ROW EXECUTE FUNCTION note()")
    set_for_the_role(postgres_database, of_the_role)
    with closing(SqlHead(postgres_database, "orders")) as head:
        assert head.swap(Versioned(1, b"first"), b"second")
    with Session(postgres_database) as session:
        assert session.execute("SELECT value FROM seen") == [(_SETTINGS[of_the_role],)]
        assert session.execute("SHOW synchronous_commit") == [(_SETTINGS[of_the_role],)]


@pytest.mark.alone
def test_h6_a_crash_of_heads_server_takes_no_decision_back(postgres_database: str, postgres: Postgres) -> None:
    set_for_the_role(postgres_database, "off")
    with closing(SqlHead(postgres_database, "orders")) as head:
        for version in range(20):
            assert head.swap(head.read(), b"value %d" % version)
        postgres.kill()
        postgres.up()
        assert head.read() == Versioned(20, b"value 19")


def test_doctor_asks_the_server_of_head_what_it_asks_that_of_a_sink(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {each.check: each for each in check_head("head", postgres_database)}
    assert {"head: reachable", "head: fsync", "head: full_page_writes", "head: session settings"} <= found.keys()
    assert [each for each in found.values() if not each.ok] == []
    read = requirements.read_settings

    def lax(session: Session, *names: str) -> Mapping[str, str]:
        return {name: "off" if name == "fsync" else value for name, value in read(session, *names).items()}

    monkeypatch.setattr(requirements, "read_settings", lax)
    (wrong,) = [each for each in check_head("head", postgres_database) if not each.ok]
    assert (wrong.check, wrong.fatal, wrong.detail) == ("head: fsync", True, "off")
    assert wrong.remedy.startswith("set fsync = on")


def test_doctor_says_that_the_server_of_head_is_away(postgres_database: str) -> None:
    away = sqlalchemy.make_url(postgres_database).set(port=1).render_as_string(hide_password=False)
    (found,) = check_head("head", away)
    assert (found.check, found.ok, found.fatal) == ("head: reachable", False, True)
    with pytest.raises(HeadError, match="port 1 failed") as refused:
        require_head(away)
    assert refused.value.retriable, "a start tries again"

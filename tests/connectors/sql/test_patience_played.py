"""A server of PostgreSQL that does not answer, on a played one: given up when it works on nothing, and no sooner."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from connectors.sql.postgres import patience
from connectors.sql.postgres.engine import Session
from connectors.sql.postgres.errors import ServerError
from tests.played.postgres import postgres
from tests.played.script import Answer, Script, Silent

LOOKING = "LEFT JOIN pg_stat_activity"
ENDING = "SELECT pg_terminate_backend"
WORKING, IDLE, WAITING = ("active", None), ("idle in transaction", "ClientRead"), ("active", "ClientRead")


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Session, Script]]:
    """A connection whose statement `slow` is never answered, noticed after 0.1 s instead of half a minute."""
    with postgres() as (url, script):
        session = Session(url)
        monkeypatch.setattr(patience, "NOTICED_S", 0.1)
        monkeypatch.setattr(patience, "ASK_AGAIN_S", 0.1)
        script.on("^slow", Silent())
        yield session, script
        session.close()


def sees(script: Script, *states: tuple[str, str | None]) -> None:
    """What another connection is told of this one, one answer after another."""
    script.on(LOOKING, *([(4711, *each)] for each in states))


def test_a_server_that_works_on_nothing_twice_is_given_up_and_ended(played: tuple[Session, Script]) -> None:
    """It may just have answered: once is not enough."""
    session, script = played
    sees(script, WORKING, IDLE, WORKING, IDLE)
    with pytest.raises(ServerError, match="the server works on none") as caught:
        session.execute("slow")
    assert caught.value.disconnected, "what became of the statement is not known"
    assert len(script.statements(LOOKING)) == 5
    assert len(script.statements(ENDING)) == 1
    assert all(number > 1 for number, each in script.asked if LOOKING in each)


def test_a_server_that_works_is_waited_for(played: tuple[Session, Script], monkeypatch: pytest.MonkeyPatch) -> None:
    """However long: a commit must be brought to its end."""
    session, script = played
    monkeypatch.setattr(patience, "WAITING_S", 0.3)
    sees(script, WORKING)
    threading.Timer(1.0, session.close).start()
    began_s = time.monotonic()
    with suppress(ServerError):
        session.execute("slow")
    assert time.monotonic() - began_s > 0.9
    assert script.statements(LOOKING)
    assert script.statements(ENDING) == []


@pytest.mark.parametrize(("said", "limit"), [(WAITING, "WAITING_S"), (None, "UNKNOWN_S")])
def test_a_line_that_is_slow_and_a_server_that_nobody_reaches_have_longer(
    played: tuple[Session, Script], monkeypatch: pytest.MonkeyPatch, said: tuple[str, str] | None, limit: str
) -> None:
    session, script = played
    monkeypatch.setattr(patience, "WAITING_S", 60.0)
    monkeypatch.setattr(patience, "UNKNOWN_S", 60.0)
    monkeypatch.setattr(patience, limit, 0.5)

    def look(_statement: str) -> Answer:
        return [] if said is None else [(4711, *said)]  # no row: another server, or nobody has an account of it

    script.on(LOOKING, look)
    began_s = time.monotonic()
    with pytest.raises(ServerError, match="no answer for"):
        session.execute("slow")
    assert time.monotonic() - began_s >= 0.5

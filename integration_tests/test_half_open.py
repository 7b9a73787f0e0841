"""Connections that die without a word, although something between still acknowledges what it no longer carries.

Those to brokers are waited for once, not once for each client that has one; those to PostgreSQL as long as it works.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar, cast

import pytest

from connectors.kafka.pool import borrowed_consumer, shared_admin
from connectors.kafka.positions import latest
from connectors.kafka.ranges import messages
from connectors.kafka.settings import Connection
from connectors.kafka.sink.markers import Markers, partition_of_marker
from connectors.kafka.sink.place import Place
from connectors.kafka.sink.producer import TransactionalProducer
from connectors.kafka.sink.target import ensure_markers
from connectors.sql.head import SqlHead
from connectors.sql.postgres import patience
from connectors.sql.postgres.engine import Session
from connectors.sql.postgres.errors import ServerError
from connectors.sql.postgres.patience import Backend, Watchdog
from connectors.sql.postgres.serverside import ServerSide
from eos.errors import HeadUnknownError, SourceError
from integration_tests.chaos.brokers import Brokers
from integration_tests.chaos.servers import link_to, through
from integration_tests.harness.link import Link
from integration_tests.services.postgres_native import Postgres
from twophase.values import OffsetRange

pytestmark = pytest.mark.in_turns

T = TypeVar("T")

_QUICK_S = 5.0
_KEY = "eos.half-open.0"


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with Brokers(tmp_path_factory.mktemp("kafka")) as started:
        yield started


def _kill_connections(brokers: Brokers) -> None:
    """Those of now carry nothing more, and neither side hears of it; new ones are as good as ever."""
    for link in brokers.links:
        link.stall()
        link.restore()


def _asked_and_read(connection: Connection, split: str) -> int:
    """How many records a client for questions and a consumer find."""
    with shared_admin(connection) as admin:
        end = latest(admin, [split])[split]
    with borrowed_consumer(connection) as client:
        return sum(len(chunk) for chunk in messages(client, [OffsetRange(split, 0, end)]))


@pytest.mark.timeout(180)
def test_one_connection_that_is_dead_tells_of_all(brokers: Brokers) -> None:
    marked = Place(Connection(brokers.linked, "eos-half-open", connect_timeout_s=4.0), markers="marked")
    with shared_admin(marked.connection) as admin:
        ensure_markers(admin, marked.markers)
    producer = TransactionalProducer(marked, _KEY, 1_000_000)
    producer.begin()
    producer.commit(_KEY, partition_of_marker(_KEY), {"applied": 7})
    split = f"marked/{partition_of_marker(_KEY)}"
    at_once = replace(marked.connection, isolation_level="read_uncommitted")
    several = [replace(at_once, group_id=f"eos-half-open-{number}") for number in range(3)]
    for connection in several:
        assert _asked_and_read(connection, split) == 1
    _kill_connections(brokers)
    with pytest.raises(SourceError, match="no answer"):
        _asked_and_read(several[0], split)
    for connection in several:
        began_s = time.monotonic()
        assert _asked_and_read(connection, split) == 1
        assert time.monotonic() - began_s < _QUICK_S


@pytest.mark.timeout(180)
def test_a_transaction_goes_on_over_new_connections(brokers: Brokers) -> None:
    place = Place(Connection(brokers.linked, "eos-half-open"), markers="gone-on", transaction_timeout_s=20.0)
    with shared_admin(place.connection) as admin:
        ensure_markers(admin, place.markers)
    producer = TransactionalProducer(place, _KEY, 1_000_000)
    for applied in range(2):  # the first one makes the connections
        producer.begin()
        if applied:
            _kill_connections(brokers)
        producer.commit(_KEY, partition_of_marker(_KEY), {"applied": applied})
    found = Markers(replace(place.connection, group_id="eos-half-open-after"), place.markers).markers([_KEY])
    assert found[_KEY].applied == 1


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "NOTICED_S", 1.0)
    monkeypatch.setattr(patience, "ASK_AGAIN_S", 0.5)
    monkeypatch.setattr(patience, "WAITING_S", 3.0)
    monkeypatch.setattr(patience, "UNKNOWN_S", 4.0)


@pytest.fixture
def link(postgres: Postgres) -> Iterator[Link]:
    with link_to(postgres.url) as link:
        yield link


@pytest.fixture
def session(postgres_database: str, link: Link, impatient: None) -> Iterator[Session]:
    del impatient
    with Session(through(postgres_database, link)) as session:
        yield session


@dataclass
class _Timed:
    """A watchdog that counts how long its questions take: a busy server opens a connection late."""

    watchdog: Watchdog
    asked_s: float = 0.0

    def backend_state(self) -> Backend:
        return self._timed(self.watchdog.backend_state)

    def kill(self) -> None:
        self._timed(self.watchdog.kill)

    def _timed(self, ask: Callable[[], T]) -> T:
        began_s = time.monotonic()
        answer = ask()
        self.asked_s += time.monotonic() - began_s
        return answer


def _gives_up(session: Session, act: Callable[[], object], words: str, *, after_s: float) -> None:
    timed = _Timed(cast("Watchdog", session.driver.watchdog))
    session.driver.watchdog = timed
    began_s = time.monotonic()
    with pytest.raises(ServerError, match=words) as caught:
        act()
    assert caught.value.disconnected
    assert session.driver.closed
    assert after_s < time.monotonic() - began_s < after_s + _QUICK_S + timed.asked_s


def test_postgres_is_waited_for_as_long_as_it_works(session: Session) -> None:
    assert session.execute("SELECT 1 FROM pg_sleep(6)") == [(1,)]


def test_a_statement_that_postgres_never_got_is_given_up(session: Session, link: Link) -> None:
    link.stall()
    link.restore()  # for the one that asks
    words = "no answer for .* s, and the server works on none"
    _gives_up(session, lambda: session.execute("SELECT 1"), words, after_s=1.0)


def test_an_answer_of_postgres_that_never_came_is_given_up(session: Session, link: Link) -> None:
    with ThreadPoolExecutor() as threads:
        sleep = partial(session.execute, "SELECT 1 FROM pg_sleep(3)")
        waiting = threads.submit(_gives_up, session, sleep, "the server works on none", after_s=3.0)
        time.sleep(0.5)
        link.stall()
        link.restore()
        waiting.result()


def test_postgres_that_cannot_be_asked_is_given_up_later(session: Session, link: Link) -> None:
    session.driver.watchdog = replace(cast("ServerSide", session.driver.watchdog), server_began=datetime.now(UTC))
    link.stall()
    link.restore()
    _gives_up(session, lambda: session.execute("SELECT 1"), "no connection can query", after_s=4.0)


def test_rows_that_postgres_never_got_are_given_up_later_and_lock_nothing(
    session: Session, postgres_database: str, link: Link
) -> None:
    table = f"numbers_{secrets.token_hex(4)}"
    session.execute(f"CREATE TABLE {table} (n BIGINT)")

    def rows() -> Iterator[memoryview]:
        """The server waits for more, as it does of one that sends slowly."""
        yield memoryview(b"1\n")
        link.stall()
        link.restore()
        yield memoryview(b"2\n")

    copy = partial(session.copy, f"COPY {table} FROM STDIN", cast("list[memoryview]", rows()))
    _gives_up(session, copy, "the server waits", after_s=3.0)
    with Session(postgres_database) as other:
        other.execute(f"DROP TABLE {table}")  # waits for a lock no longer than lock_timeout


@pytest.mark.usefixtures("impatient")
def test_a_swap_whose_answer_never_came_is_in_doubt_and_locks_nothing(postgres_database: str, link: Link) -> None:
    pipeline = f"half-open-{secrets.token_hex(4)}"
    head = SqlHead(through(postgres_database, link), pipeline)
    assert head.swap(None, b"first")
    with Session(postgres_database) as other, ThreadPoolExecutor() as threads:
        other.execute("BEGIN")
        other.execute("SELECT 1 FROM eos_head WHERE pipeline = %s FOR UPDATE", pipeline)
        swapping = threads.submit(head.swap, head.read(), b"second")
        time.sleep(1)
        link.stall()
        link.restore()
        other.execute("ROLLBACK")
        began_s = time.monotonic()
        with pytest.raises(HeadUnknownError, match="works on none"):
            swapping.result()
    found = head.read()
    assert found is not None
    assert (found.version, found.value) == (1, b"first")
    assert head.swap(found, b"third")
    assert time.monotonic() - began_s < 2 * _QUICK_S
    head.close()

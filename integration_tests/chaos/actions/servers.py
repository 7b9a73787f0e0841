"""Brokers and databases that are killed or stopped for a while, and the connections to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from integration_tests.chaos.actions.drivers import running
from integration_tests.chaos.arena import Arena
from integration_tests.chaos.effect import Effect, soon
from integration_tests.chaos.plan import Fault
from integration_tests.chaos.progress import await_completed
from integration_tests.chaos.servers import DatabaseServer
from integration_tests.harness.link import Link
from integration_tests.harness.oracle import PostgresTable, SinkTable

_LED_S: Final = 60.0  # until a broker that is back leads what it led before
_SLOW_BYTES_PER_S: Final = 20_000.0


def broker_killed(arena: Arena, fault: Fault) -> AbstractContextManager[Effect]:
    """At least until others have its leaderships."""
    brokers = arena.stack.brokers

    def start(number: int) -> None:
        brokers.start(number)
        brokers.await_all()

    return _broker_away(arena, fault, brokers.kill, start)


def broker_stopped(arena: Arena, fault: Fault) -> AbstractContextManager[Effect]:
    """At least until others have its leaderships."""
    return _broker_away(arena, fault, arena.stack.brokers.stop, arena.stack.brokers.go_on)


def database_killed(arena: Arena, fault: Fault) -> AbstractContextManager[Effect]:
    """Started again at the end."""
    server = arena.stack.servers[fault.target]
    return _database_away(server, server.kill, server.start)


def database_stopped(arena: Arena, fault: Fault) -> AbstractContextManager[Effect]:
    """It keeps its connections."""
    server = arena.stack.servers[fault.target]
    return _database_away(server, server.stop, server.go_on)


def cut(arena: Arena, fault: Fault) -> AbstractContextManager[Effect]:
    """Each connection ends at once, and each new one."""
    link = arena.links[fault.target]
    link.cut()
    return _restored(link)


@contextmanager
def sink_away(arena: Arena, fault: Fault) -> Iterator[Effect]:
    """A sink with a backlog holds up neither the running pipeline nor a start; it catches up when it is back."""
    link, table = arena.links[fault.target], arena.tables[fault.target]
    link.cut()
    try:
        await_completed(arena, f"{fault.target} is away")
        was_at = _newest(table)
        await_completed(arena, f"{fault.target} is away for longer")
        running(arena).kill()
        await_completed(arena, f"a start without {fault.target}")
        head = arena.head()
        yield Effect(_newest(table) == was_at and head is not None and head.waiting > 1)
    finally:
        link.restore()


@contextmanager
def store_stopped(arena: Arena, _: Fault) -> Iterator[Effect]:
    """It keeps its connections, and carries out late what it was sent meanwhile. Seen is that it does not answer."""
    assert arena.store is not None
    arena.store.stop()
    try:
        yield Effect(not arena.store.answers())
    finally:
        arena.store.go_on()


def slow(arena: Arena, fault: Fault) -> AbstractContextManager[Effect]:
    """In both directions."""
    link = arena.links[fault.target]
    link.bytes_per_s = _SLOW_BYTES_PER_S
    return _restored(link)


def half_open(arena: Arena, fault: Fault) -> AbstractContextManager[Effect]:
    """Neither side hears anything any more, nor that the other one is gone."""
    link = arena.links[fault.target]
    link.stall()
    return _restored(link)


def _newest(table: SinkTable | PostgresTable) -> int:
    ((newest,),) = table.execute(f"SELECT COALESCE(MAX(id), -1) FROM {table.name}")
    return int(newest)


@contextmanager
def _broker_away(
    arena: Arena, fault: Fault, begin: Callable[[int], None], end: Callable[[int], None]
) -> Iterator[Effect]:
    """Seen is that it led something, and leads nothing any more."""
    number, effect = int(fault.target.removeprefix("broker-")), Effect()

    def led() -> set[int] | None:
        return arena.stack.brokers.led_by(number, arena.topic)

    was_leader = soon(lambda: bool(led()), _LED_S)
    begin(number)
    try:
        yield effect
        effect.is_seen = was_leader and soon(lambda: led() == set())
    finally:
        end(number)


@contextmanager
def _database_away(server: DatabaseServer, begin: Callable[[], None], end: Callable[[], None]) -> Iterator[Effect]:
    begin()
    try:
        yield Effect(not server.answers())
    finally:
        end()


@contextmanager
def _restored(link: Link) -> Iterator[Effect]:
    """Seen is what a connection has met; the pipeline may have none to this server for some seconds."""
    effect = Effect()
    try:
        yield effect
        effect.is_seen = soon(lambda: link.disturbed > 0)
    finally:
        link.restore()

"""Clients kept between calls: connecting anew costs more than reading a small range.

A consumer serves one reader at a time and is thrown away after any error; the client for questions is shared. Spark
forks its workers, and a client does not survive that: a child starts with an empty pool and never touches its parent's.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from connectors.kafka.client import Client, open_admin, open_consumer
from connectors.kafka.settings import Connection

_MAX_IDLE = 4  # consumers; of more, the one that has been idle longest is closed


class _Pool:
    def __init__(self) -> None:
        self.process = os.getpid()
        self.lock = threading.Lock()
        self.idle: list[Client] = []  # consumers, the one that has been idle longest first
        self.admins: dict[Connection, Client] = {}


_pool = _Pool()
_parents: list[_Pool] = []
"""Pools of the processes this one was forked from: kept, for to close them here would wait for threads that are not."""


def _own() -> _Pool:
    global _pool
    if _pool.process != os.getpid():
        _parents.append(_pool)
        _pool = _Pool()
    return _pool


@contextmanager
def borrowed_consumer(connection: Connection) -> Iterator[Client]:
    """A consumer with nothing assigned, for this block alone. Called once per range; closed if the block fails."""
    pool = _own()
    client = _take(pool, connection) or open_consumer(connection)
    try:
        yield client
        client.handle.unassign()  # ends fetching, and frees what was fetched ahead
    except BaseException:  # whatever it was, its queues may hold something that the next reader must not see
        client.handle.close()
        raise
    with pool.lock:
        pool.idle.append(client)
        surplus = [pool.idle.pop(0)] if len(pool.idle) > _MAX_IDLE else []
    for longest in surplus:  # with the lock free: closing asks the broker
        longest.handle.close()


def _take(pool: _Pool, connection: Connection) -> Client | None:
    with pool.lock:
        for position, client in enumerate(pool.idle):
            if client.connection == connection:
                return pool.idle.pop(position)
    return None


@contextmanager
def shared_admin(connection: Connection) -> Iterator[Client]:
    """The process's client for questions to a cluster. May be used by several threads; forgotten if the block fails."""
    pool = _own()
    with pool.lock:
        client = pool.admins.get(connection)
        if client is None:
            client = pool.admins[connection] = open_admin(connection)
    try:
        yield client
    except BaseException:
        with pool.lock:
            if pool.admins.get(connection) is client:
                del pool.admins[connection]
        raise

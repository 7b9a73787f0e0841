"""Clients kept between calls: connecting anew costs more than reading a small range.

A consumer serves one reader at a time; the client for questions is shared. After any error all clients of that cluster
are thrown away: where one connection has died without a word the others have, too, and each would be waited for.
Spark forks its workers, and a client does not survive that: a child starts with an empty pool and never touches its
parent's.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from connectors.kafka.client import Client, open_admin, open_consumer
from connectors.kafka.settings import Connection

_MAX_IDLE = 4  # consumers; of more, the one that has been idle longest is closed
_MAX_ADMINS = 4
"""Clients for questions; of more, the least recently used is dropped. A process may serve many pipelines, one
after another, and a client whose cluster has ended tries to reach it for ever."""


class _Pool:
    def __init__(self) -> None:
        self.process = os.getpid()
        self.lock = threading.Lock()
        self.idle: list[Client] = []  # consumers, the one that has been idle longest first
        self.admins: dict[Connection, Client] = {}  # in the order of their last use
        self.monitors: dict[Connection, Client] = {}  # the same, for questions that must not disturb the others


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
        _forget(pool, connection)
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
    client = _admin(pool, pool.admins, connection)
    try:
        yield client
    except BaseException:
        _forget(pool, connection)
        raise


@contextmanager
def monitor_admin(connection: Connection) -> Iterator[Client]:
    """Yield the process's client for monitoring a cluster. An error in the block closes only this client.

    Its requests wait behind none of `shared_admin`, and its errors close no connection that a checkpoint uses.
    """
    pool = _own()
    client = _admin(pool, pool.monitors, connection)
    try:
        yield client
    except BaseException:
        with pool.lock:
            if pool.monitors.get(connection) is client:
                del pool.monitors[connection]
        raise


def _admin(pool: _Pool, admins: dict[Connection, Client], connection: Connection) -> Client:
    with pool.lock:
        client = admins.pop(connection) if connection in admins else open_admin(connection)
        admins[connection] = client
        surplus = [admins.pop(next(iter(admins)))] if len(admins) > _MAX_ADMINS else []
    del surplus  # with the lock free: its end waits for its threads. Who still uses it has it until then.
    return client


def _forget(pool: _Pool, failed: Connection) -> None:
    """Drop all clients of the cluster that nobody uses at this moment; those in use are their users' to drop."""

    def is_there(connection: Connection) -> bool:
        return connection.bootstrap_servers == failed.bootstrap_servers

    with pool.lock:
        dropped = [client for client in pool.idle if is_there(client.connection)]
        pool.idle = [client for client in pool.idle if not is_there(client.connection)]
        for connection in filter(is_there, list(pool.admins)):
            del pool.admins[connection]
    for client in dropped:  # with the lock free: closing asks the broker
        client.handle.close()

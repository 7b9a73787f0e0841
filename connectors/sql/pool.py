"""Connections of tasks, kept in the worker from task to task: a login costs more than a task with few rows.

A connection serves one task at a time. It enters the pool only in the state that it had after its login, and takes its
settings anew when it leaves. After any error all idle connections of that login are closed: where one has died without
a sign the others have, too, and each would be waited for. Spark forks its workers, and a connection does not survive
that: a child starts with an empty pool and never touches its parent's.

Nothing of the protocol rests on a connection that ends. A task's transaction locks its permit first (R5), so a task of
an older driver finds the permit gone on a kept connection as on a new one. An idle connection holds no lock.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol, Self, TypeVar, cast

from sqlalchemy.engine import make_url

from connectors.sql.statements import StatementError

MOST_IDLE: Final = 8
"""Idle connections of a worker; beyond that the connection that has been idle longest is closed."""

IDLE_S: Final = 30.0
"""After so long without a task a connection is closed."""


class Poolable(Protocol):
    """A connection that another task may have."""

    opened_s: float  # at this time.monotonic() it logged in

    def renew(self) -> None:
        """Apply its own settings. Raises StatementError."""

    def reset(self) -> None:
        """Return to the state after the login: nothing open, locked or set. Raises StatementError."""

    def close(self) -> None:
        """Disconnect. Never raises."""


@dataclass(frozen=True, slots=True)
class Login:
    """All that must be equal for a connection to be used again."""

    place: str  # server, user, database and options, without the password
    url: str = field(repr=False)  # a secret
    files: tuple[tuple[str, int, int], ...]  # with keys, certificates or passwords: name, change (ns), size
    settings: tuple[int, ...]

    @classmethod
    def of(cls, url: str, files: Sequence[str], *settings: int) -> Self:
        """Return the login of a URL, with its files as they are now. A file that is missing is left out."""
        return cls(_place(url), url, tuple(_states(files)), settings)

    def replaces(self, older: Login) -> bool:
        """Whether it is the same login with other credentials."""
        return self.place == older.place and (self.url, self.files) != (older.url, older.files)


@lru_cache(maxsize=64)
def _place(url: str) -> str:
    return make_url(url).set(password=None).render_as_string()


def _states(files: Sequence[str]) -> list[tuple[str, int, int]]:
    found = []
    for name in files:
        with suppress(OSError):
            state = Path(name).stat()
            found.append((name, state.st_mtime_ns, state.st_size))
    return found


@dataclass(frozen=True, slots=True)
class _Idle:
    login: Login
    connection: Poolable
    until_s: float  # by time.monotonic()


class _Pool:
    def __init__(self) -> None:
        self.process = os.getpid()
        self.lock = threading.Condition()
        self.idle: list[_Idle] = []  # the connection that has been idle longest first
        self.closer: threading.Thread | None = None  # runs while there are idle connections
        self.looks_s = 0.0  # the closer looks at them by time.monotonic(), or when it is notified


_pool = _Pool()
_parents: list[_Pool] = []
"""Pools of the processes this one was forked from. Kept: to close a parent's connection here would end it there."""

C = TypeVar("C", bound=Poolable)


def take(login: Login, connect: Callable[[], C]) -> C:
    """Return a connection of this login for one task: an idle one that still answers, else a new one.

    Idle connections of the same login with older credentials are closed. Raises StatementError.
    """
    pool = _own()
    _close_where(pool, login.replaces)
    while (idle := _pop(pool, login)) is not None:
        try:
            idle.renew()
        except StatementError:  # the server has closed it, was restarted, or lets this user do nothing any more
            idle.close()
            forget(login)
        except BaseException:
            idle.close()
            raise
        else:
            return cast("C", idle)  # of one login all come from one `connect`
    return connect()


def give_back(login: Login, connection: Poolable, most_s: float) -> None:
    """Keep a connection for the worker's next task, until it is `most_s` old. Never raises StatementError.

    Only for a connection on which nothing is open or prepared: a server may roll that back.
    """
    pool, now_s = _own(), time.monotonic()
    until_s = min(now_s + IDLE_S, connection.opened_s + most_s)
    if until_s <= now_s:
        connection.close()
        return
    try:
        connection.reset()
    except StatementError:  # what the task did is done, whatever became of its connection
        connection.close()
        forget(login)
        return
    except BaseException:
        connection.close()
        raise
    with pool.lock:
        pool.idle.append(_Idle(login, connection, until_s))
        surplus = [pool.idle.pop(0)] if len(pool.idle) > MOST_IDLE else []
        if pool.closer is not None and until_s < pool.looks_s:
            pool.lock.notify()
        if pool.closer is None:
            pool.closer = threading.Thread(target=_close_in_time, args=(pool,), name="eos-idle", daemon=True)
            pool.closer.start()
    _close(surplus)


def forget(login: Login) -> None:
    """Close the idle connections of this login: something is wrong with one of them, or with the server."""
    _close_where(_own(), lambda each: each == login)


def _own() -> _Pool:
    global _pool
    if _pool.process != os.getpid():
        _parents.append(_pool)
        _pool = _Pool()
    return _pool


def _pop(pool: _Pool, login: Login) -> Poolable | None:
    with pool.lock:
        for position, each in enumerate(pool.idle):
            if each.login == login and each.until_s > time.monotonic():
                return pool.idle.pop(position).connection
    return None


def _close_where(pool: _Pool, ends: Callable[[Login], bool]) -> None:
    with pool.lock:
        closed = [each for each in pool.idle if ends(each.login)]
        pool.idle = [each for each in pool.idle if not ends(each.login)]
    _close(closed)


def _close_in_time(pool: _Pool) -> None:
    """Close each connection when its time is over; returns when none is idle."""
    while True:
        with pool.lock:
            now_s = time.monotonic()
            over = [each for each in pool.idle if each.until_s <= now_s]
            pool.idle = [each for each in pool.idle if each.until_s > now_s]
            if not over and pool.idle:
                pool.looks_s = min(each.until_s for each in pool.idle)
                pool.lock.wait(pool.looks_s - now_s)
            elif not over:
                pool.closer = None
                return
        _close(over)


def _close(connections: Sequence[_Idle]) -> None:
    """With the lock free: closing may write to the server."""
    for each in connections:
        each.connection.close()

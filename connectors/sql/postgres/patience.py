"""How long an answer is waited for: as long as the server works on it, which it is asked by another connection.

TCP finds out that the other machine is gone (connectors.sql.silence). It does not where something between, a proxy or
a load balancer, acknowledges what it no longer carries: there a driver would wait for ever for what it has to decide
or commit. A time limit for statements would be no cure, since a commit may take long, and must be brought to its end.
"""

from __future__ import annotations

import time
from enum import Enum
from typing import Any, Final, Protocol, TypeVar

import psycopg
from psycopg.abc import PQGen

from connectors.sql.silence import NOTICED_S

ASK_AGAIN_S: Final = 5.0
"""What has just been answered may be on its way: only a server that has nothing to do twice in a row is believed."""

WAITING_S: Final = 120.0
"""So long nothing may come or go where the server waits as well: the line may be slow."""

UNKNOWN_S: Final = 600.0
"""And so long where no connection can query the server: where it has no room for one who asks, it may be working."""

_T = TypeVar("_T")


class Backend(Enum):
    """What the server does for a connection, as another one sees it."""

    WORKING = "the server works on one"
    IDLE = "the server works on none"
    WAITING = "the server waits for this connection"
    UNKNOWN = "no connection can query the server"


class Watchdog(Protocol):
    """Somebody who can ask the server about a connection. May block for a minute; raises nothing."""

    def backend_state(self) -> Backend:
        """What the server does for it."""

    def kill(self) -> None:
        """Have the server end it, so that it holds no locks any more; nothing happens where that cannot be done."""


class PatientConnection(psycopg.Connection[Any]):
    """One that gives up, as if it were cut, when it waits for an answer that nobody works on."""

    watchdog: Watchdog | None = None  # until it is known which one of the server's connections it is

    def wait(self, gen: PQGen[_T], *arguments: Any, **options: Any) -> _T:
        """See psycopg.Connection. Every statement, and each part of a COPY, goes through here."""
        return super().wait(self._attended(gen), *arguments, **options)

    def _attended(self, gen: PQGen[_T]) -> PQGen[_T]:
        """The same. It is resumed ten times a second, and told whether anything could be read or written."""
        silence = _Silence(self.watchdog)
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    silence = _Silence(self.watchdog)
                elif reason := silence.grows():
                    if self.watchdog is not None:
                        self.watchdog.kill()
                    self.pgconn.finish()
                    raise psycopg.OperationalError(reason)
                wanted = gen.send(ready)
        except StopIteration as end:
            result: _T = end.value
            return result


class _Silence:
    """Since something came or went."""

    def __init__(self, watchdog: Watchdog | None) -> None:
        self._watchdog = watchdog
        self._since_s = time.monotonic()
        self._look_at_s = self._since_s + NOTICED_S
        self._was_idle = False

    def grows(self) -> str:
        """Nothing has come. Why there is nothing more to wait for; empty as long as there is."""
        now_s = time.monotonic()
        if now_s < self._look_at_s:
            return ""
        found = self._watchdog.backend_state() if self._watchdog is not None else Backend.UNKNOWN
        if found is Backend.WORKING:
            self._since_s, self._look_at_s, self._was_idle = now_s, now_s + NOTICED_S, False
            return ""
        lasts_s = now_s - self._since_s
        if (found is Backend.IDLE and self._was_idle) or lasts_s >= self._longest_s(found):
            return f"no answer for {lasts_s:.0f} s, and {found.value}"
        self._look_at_s, self._was_idle = time.monotonic() + ASK_AGAIN_S, found is Backend.IDLE
        return ""

    def _longest_s(self, found: Backend) -> float:
        if self._watchdog is None:  # it does not yet do anything that takes long
            return NOTICED_S
        return UNKNOWN_S if found is Backend.UNKNOWN else WAITING_S

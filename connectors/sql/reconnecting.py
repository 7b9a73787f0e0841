"""A connection that is reused from call to call, and replaced after any error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, Protocol, TypeVar

from connectors.sql.statements import translate_errors

IDLE_S: Final = 30.0
"""A connection that was not used for longer may be gone without a sign."""


class _Connection(Protocol):
    def answers(self) -> bool: ...

    def close(self) -> None: ...


C = TypeVar("C", bound=_Connection)


class ReconnectingConnection(Generic[C]):
    """A connection that opens when it is first used. Used by one thread at a time."""

    def __init__(self, where: str, connect: Callable[[], C], idle_s: float = IDLE_S) -> None:
        """`where`: for messages, without secrets. `connect`: a new connection each time; may raise StatementError."""
        self._where = where
        self._connect = connect
        self._connection: C | None = None
        self._idle_s = idle_s
        self._used_at = 0.0

    @contextmanager
    def use(self, doing: str) -> Iterator[C]:
        """The connection, for a block whose StatementErrors come out as one of eos.errors."""
        done = False
        try:
            with translate_errors(f"{self._where}, {doing}"):
                yield self.open()
                done = True
        finally:
            if not done:
                self.close()

    def open(self) -> C:
        """The connection inside a block of `use`: a new one if the block has closed it. Raises StatementError."""
        idle_s = time.monotonic() - self._used_at
        if self._connection is not None and idle_s > self._idle_s and not self._connection.answers():
            self.close()
        if self._connection is None:
            self._connection = self._connect()
        self._used_at = time.monotonic()
        return self._connection

    def close_if_idle(self) -> None:
        """Disconnect a connection that may be broken without a sign. Never raises."""
        if time.monotonic() - self._used_at > self._idle_s:
            self.close()

    def close(self) -> None:
        """Disconnect; the next call connects again. Never raises."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

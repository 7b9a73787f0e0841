"""The task's half of a sink that writes while rows come: one transaction on one connection, of whichever variant.

The connection is taken at the first row and never replaced: rows sent before a loss are gone with it (H14). An earlier
task of the worker may have used it (connectors.sql.pool). A batch is encoded while the one before it is on its way to
the server, so that two of them are in memory at the most.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from connectors.sql import pool
from connectors.sql.sender import Sender
from connectors.sql.statements import Connected, StatementError, savepoint, translated
from eos.errors import BadRowError
from twophase import faults
from twophase.ids import TransactionId


class Session(Connected, pool.Poolable, Protocol):
    """The task's connection. What is prepared stays prepared when it is closed."""


@dataclass(frozen=True, slots=True)
class Payload:
    """Encoded rows, ready to be sent."""

    send: Callable[[], None]  # blocks until the server has them; raises BadRowError, StatementError
    rows: int
    bytes: int


S = TypeVar("S", bound=Session)


class BulkWriter(ABC, Generic[S]):
    """One attempt of one task. Used by one thread; sends on another one of its own.

    A database says how it connects and encodes, a variant how its transaction begins and ends.
    """

    def __init__(self, where: str, transaction: TransactionId) -> None:
        """`where`: sink and server, for messages, without secrets."""
        self._where = f"{where}, task {transaction.task}"
        self._transaction = transaction
        self._session: S | None = None
        self._login: pool.Login | None = None  # of the session
        self._sender = Sender()
        self._rows = 0
        self._bytes = 0

    @abstractmethod
    def _find_login(self) -> pool.Login:
        """Which connections of earlier tasks may be used, at this moment."""

    @abstractmethod
    def _connect(self) -> S:
        """A new connection."""

    @abstractmethod
    def _encode(self, session: S, batch: pa.RecordBatch, first_row: int) -> Iterator[Payload]:
        """Rows in parts of bounded size. Raises BadRowError for a value that does not fit its column."""

    @abstractmethod
    def _begin(self, session: S) -> None:
        """Begin the transaction that rows may be written in."""

    def _roll_back(self, session: S) -> None:
        """Undo what is open."""
        session.execute("ROLLBACK")

    def write(self, batch: pa.RecordBatch) -> None:
        """See Writer. The first call with rows connects."""
        if batch.num_rows == 0:
            return
        with translated(f"{self._where}, writing"), self._bad_rows_named():
            session = self._opened()
            for payload in self._encode(session, batch, self._rows + 1):
                self._submit(payload)

    def write_whole(self, batch: pa.RecordBatch) -> None:
        """See Writer and DirectWriter. Between savepoints, and the server has answered before it returns.

        A connection that is lost has lost its savepoints, too, so that what an outage did is no fault of a row.
        """
        if batch.num_rows == 0:
            return
        doing = f"{self._where}, writing"
        rows, size_bytes = self._rows, self._bytes
        with translated(doing), savepoint(self._opened()):
            try:
                self.write(batch)
                with translated(doing), self._bad_rows_named():
                    self._sender.wait()
            except BadRowError:
                with contextlib.suppress(BadRowError):
                    self._sender.wait()  # the part before: what is wrong with the server is not the row's fault
                self._rows, self._bytes = rows, size_bytes
                raise

    def _opened(self) -> S:
        """The connection, in its transaction. The first call takes one."""
        if self._session is None:
            self._login = self._find_login()
            self._session = pool.take(self._login, self._connect)
            self._begin(self._session)
        return self._session

    def abort(self) -> None:
        """See Writer. What is prepared already is left to the driver, who alone knows whether it was accepted (H1)."""
        session = self._session
        if session is None:
            return
        self._sender.settle()  # the connection is free when the statement has ended, however
        with contextlib.suppress(StatementError):  # closing the connection makes the server roll back by itself
            self._roll_back(session)
        self._disconnect()
        if self._login is not None:
            pool.forget(self._login)

    def _submit(self, payload: Payload) -> None:
        first = self._rows == 0
        self._sender.submit(payload.send)
        self._rows += payload.rows
        self._bytes += payload.bytes
        if first:
            self._sender.wait()
            faults.point("writing", self._transaction.scope.checkpoint_id, self._transaction.sink)

    def _give_back(self, most_s: float) -> None:
        """Leave the connection to later tasks, until it is `most_s` old. Called when nothing is open on it."""
        self._sender.close()
        session, self._session = self._session, None
        if session is not None and self._login is not None:
            pool.give_back(self._login, session, most_s)

    def _disconnect(self) -> None:
        self._sender.close()
        if self._session is not None:
            self._session.close()
        self._session = None

    @contextlib.contextmanager
    def _bad_rows_named(self) -> Iterator[None]:
        try:
            yield
        except BadRowError as error:
            raise BadRowError(f"{self._where}: {error.message}", remedy=error.remedy) from error

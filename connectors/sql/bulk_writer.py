"""The task's half of a database sink: one transaction on one connection.

`BulkWriter` is the part that two-phase commit and at-least-once share. `DirectBulkWriter` commits a plain transaction
at its end (at-least-once); `two_phase.writer` prepares one.

The connection is taken at the first row and never replaced: rows sent before a loss are gone with it (H14). An earlier
task of the worker may have used it (connectors.sql.pool). A batch is encoded while the one before it is on its way to
the server, so that two of them are in memory at the most.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

import pyarrow as pa

from connectors.sql import pool
from connectors.sql.statements import Connected, StatementError, savepoint, translate_errors
from eos.errors import BadRowError
from twophase import faults
from twophase.ids import TransactionId
from twophase.values import Committable


class Sender:
    """Used by one thread. Two batches are in memory at the most: the one under way and the one being encoded."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "eos-sender")
        self._under_way: Future[None] | None = None

    def submit(self, send: Callable[[], None]) -> None:
        """Begin `send` when the one before it has ended. Raises what that one raised."""
        self.wait()
        self._under_way = self._thread.submit(send)

    def wait(self) -> None:
        """Return when nothing is under way. Raises what `send` raised, once."""
        under_way = self._under_way
        if under_way is not None:
            wait([under_way])  # interrupted here, it is still under way
            self._under_way = None
            under_way.result()

    def settle(self) -> None:
        """Return when nothing is under way, however it has ended."""
        if self._under_way is not None:
            self._under_way.exception()

    def close(self) -> None:
        """Let the thread go, when nothing is under way any more."""
        self._thread.shutdown()


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
        with translate_errors(f"{self._where}, writing"), self._bad_rows_named():
            session = self._opened()
            for payload in self._encode(session, batch, self._rows + 1):
                self._submit(payload)

    def write_atomic(self, batch: pa.RecordBatch) -> None:
        """See Writer and DirectWriter. Between savepoints, and the server has answered before it returns.

        A connection that is lost has lost its savepoints, too, so that what an outage did is no fault of a row.
        """
        if batch.num_rows == 0:
            return
        doing = f"{self._where}, writing"
        rows, size_bytes = self._rows, self._bytes
        with translate_errors(doing), savepoint(self._opened()):
            try:
                self.write(batch)
                with translate_errors(doing), self._bad_rows_named():
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


_KEPT_S: Final = 60
"""A connection is replaced at this age: a server's name may point to another server by then. No permit tells a task
that it writes to the older server, so the time is as short as a resolver usually remembers a name."""


class DirectBulkWriter(BulkWriter[S]):
    """See DirectWriter. No witness is left, so that an unanswered commit is a failure, and its rows come again."""

    def commit(self) -> Committable:
        session = self._session
        if session is not None:
            with translate_errors(f"{self._where}, committing"), self._bad_rows_named():
                self._sender.wait()
                session.execute("COMMIT")
            self._give_back(_KEPT_S)
        faults.point("written", self._transaction.scope.checkpoint_id)
        return Committable(self._transaction, rows=self._rows, bytes=self._bytes)

    def _begin(self, session: S) -> None:
        session.execute(session.begin)

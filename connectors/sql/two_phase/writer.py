"""The task's half of a two-phase sink: one transaction on one connection, prepared at its end (R5).

The connection is opened at the first row and never replaced: rows sent before a loss are gone with it (H14). A batch is
encoded while the one before it is on its way to the server, so that two of them are in memory at the most.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from connectors.sql import tables
from connectors.sql.sender import Sender
from connectors.sql.statements import Connected, StatementError, translated
from connectors.sql.two_phase import permits
from twophase import faults
from twophase.errors import BadRowError, PermitRevokedError
from twophase.ids import TransactionId
from twophase.values import Committable


class Session(Connected, Protocol):
    """The task's connection."""

    def close(self) -> None:
        """Disconnect; what is prepared stays prepared. Never raises."""


@dataclass(frozen=True, slots=True)
class Payload:
    """Encoded rows, ready to be sent."""

    send: Callable[[], None]  # blocks until the server has them; raises BadRowError, StatementError
    rows: int
    bytes: int


S = TypeVar("S", bound=Session)


class TwoPhaseWriter(ABC, Generic[S]):
    """One attempt of one task. Used by one thread; sends on another one of its own.

    A database says how it connects, begins, encodes, prepares and rolls back.
    """

    def __init__(self, where: str, transaction: TransactionId) -> None:
        """`where`: sink and server, for messages, without secrets."""
        self._where = f"{where}, task {transaction.task}"
        self._transaction = transaction
        self._session: S | None = None
        self._sender = Sender()
        self._rows = 0
        self._bytes = 0

    @abstractmethod
    def _connect(self, holders: str) -> S:
        """A new connection, marked as one of the permit's holders."""

    @abstractmethod
    def _start(self, session: S) -> None:
        """Begin the transaction."""

    @abstractmethod
    def _encode(self, session: S, batch: pa.RecordBatch, first_row: int) -> Iterator[Payload]:
        """Rows in parts of bounded size. Raises BadRowError for a value that does not fit its column."""

    @abstractmethod
    def _prepare(self, session: S) -> None:
        """Prepare what is open."""

    @abstractmethod
    def _roll_back(self, session: S) -> None:
        """Undo what is open."""

    def write(self, batch: pa.RecordBatch) -> None:
        """See Writer. The first call with rows connects and raises PermitRevokedError if the permit is gone."""
        if batch.num_rows == 0:
            return
        with translated(f"{self._where}, writing"), self._bad_rows_named():
            session = self._session or self._begin()
            for payload in self._encode(session, batch, self._rows + 1):
                self._submit(payload)

    def prepare(self) -> Committable:
        """See Writer. A writer without rows prepares nothing and says so in its committable."""
        session = self._session
        if session is None:
            return Committable(self._transaction, rows=0, data={tables.EMPTY: "1"})
        with translated(f"{self._where}, preparing"), self._bad_rows_named():
            self._sender.wait()
            tables.insert_witness(session, self._transaction, self._rows)
            self._prepare(session)
        self._disconnect()
        faults.point("prepared", self._transaction.scope.checkpoint_id)
        return Committable(self._transaction, rows=self._rows, bytes=self._bytes)

    def abort(self) -> None:
        """See Writer. What is prepared already is left to the driver, who alone knows whether it was accepted (H1)."""
        session = self._session
        if session is None:
            return
        self._sender.settle()  # the connection is free when the statement has ended, however
        with contextlib.suppress(StatementError):  # closing the connection makes the server roll back by itself
            self._roll_back(session)
        self._disconnect()

    def _begin(self) -> S:
        """Connect, begin, and take the permit shared: it cannot be revoked before this transaction is prepared."""
        scope, sink = self._transaction.scope, self._transaction.sink
        session = self._session = self._connect(permits.holders(scope, sink))
        self._start(session)
        if not permits.lock_permit(session, scope, sink):
            message = f"{self._where}: the permit of {scope} is gone; its checkpoint was aborted or its driver replaced"
            raise PermitRevokedError(message)
        return session

    def _submit(self, payload: Payload) -> None:
        first = self._rows == 0
        self._sender.submit(payload.send)
        self._rows += payload.rows
        self._bytes += payload.bytes
        if first:
            self._sender.wait()
            faults.point("writing", self._transaction.scope.checkpoint_id)

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

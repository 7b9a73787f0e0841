"""The task's half of a two-phase sink: a transaction under a permit, prepared at its end (R5)."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final, Self

from connectors.sql import tables
from connectors.sql.bulk_writer import BulkWriter, S
from connectors.sql.statements import StatementError, translate_errors
from connectors.sql.two_phase import permits
from eos.errors import IdentityError, PermitRevokedError
from twophase import faults
from twophase.ids import TransactionId
from twophase.values import Committable, origin

_KEPT_S: Final = 600
"""A connection is replaced at this age, as that to head: a server's name may point to another server by then. A task
finds no permit on the older one."""


class TwoPhaseWriter(BulkWriter[S]):
    """See Writer. A database says how its transaction begins, and how it is prepared and undone."""

    _lost: TransactionId | None = None

    def in_place_of(self, lost: Committable | None) -> Self:
        """Write what that one has lost, if there is one (see Sink.writer). Called before the first row."""
        self._lost = origin(lost) if lost is not None else None
        return self

    @abstractmethod
    def _start(self, session: S, holders: str) -> None:
        """Mark the connection as one of the permit's holders, and begin the transaction."""

    @abstractmethod
    def _prepare(self, session: S) -> bool:
        """Prepare what is open; return whether the connection has nothing to do with it any more."""

    def prepare(self) -> Committable:
        """See Writer. A writer without rows prepares nothing and says so in its committable."""
        session = self._session
        if session is None:
            return Committable(self._transaction, rows=0, data={tables.EMPTY: "1"})
        with translate_errors(f"{self._where}, preparing"), self._bad_rows_named():
            self._sender.wait()
            tables.insert_witness(session, self._transaction, self._rows)
            if self._lost is not None:
                self._hold_witness_of(session, self._lost)
            is_free = self._prepare(session)
        if is_free:
            self._give_back(_KEPT_S)
        else:
            self._disconnect()
        faults.point("prepared", self._transaction.scope.checkpoint_id, self._transaction.sink)
        return Committable(self._transaction, rows=self._rows, bytes=self._bytes)

    def _begin(self, session: S) -> None:
        """Take the permit shared: it cannot be revoked before this transaction is prepared.

        Raises PermitRevokedError if it is gone.
        """
        scope, sink = self._transaction.scope, self._transaction.sink
        self._start(session, permits.holders(scope, sink))
        if not permits.lock_permit(session, scope, sink):
            message = f"{self._where}: the permit of {scope} is gone; its checkpoint was aborted or its driver replaced"
            raise PermitRevokedError(message)

    def _hold_witness_of(self, session: S, lost: TransactionId) -> None:
        """Of the two only one can ever be committed then, whatever was thought of the other."""
        try:
            tables.insert_witness(session, lost, self._rows)
        except StatementError as error:
            if not error.duplicate_key:
                raise
            message = f"{self._where}: {lost} was taken for lost, and its rows stand in the table"
            raise IdentityError(message, remedy="run `eos repair` again: it checks again what is lost") from error

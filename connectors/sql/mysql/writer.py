"""The task's half of a MySQL or MariaDB sink: one XA branch on one connection (R5).

The connection is opened at the first row and never replaced: rows sent before a loss are gone with it (H14). A batch is
encoded while the one before it is on its way to the server, so that two of them are in memory at the most.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from connectors.sql import tables
from connectors.sql.address import masked
from connectors.sql.mysql import stragglers, xa
from connectors.sql.mysql.bulk import Bulk, Payload
from connectors.sql.mysql.engine import Session
from connectors.sql.mysql.errors import ServerError
from connectors.sql.mysql.fit import ColumnPlan
from connectors.sql.sender import Sender
from connectors.sql.statements import translated
from connectors.sql.two_phase import permits
from twophase import faults
from twophase.errors import BadRowError, PermitRevokedError
from twophase.ids import TransactionId
from twophase.values import Committable


class MySqlWriter:
    """One attempt of one task. Used by one thread; sends on another one of its own."""

    def __init__(
        self, name: str, url: str, target: str, plans: Sequence[ColumnPlan], transaction: TransactionId
    ) -> None:
        self._where = f"sink {name} at {masked(url)}, task {transaction.task}"
        self._url = url
        self._target = target
        self._plans = plans
        self._transaction = transaction
        self._session: Session | None = None
        self._bulk: Bulk | None = None
        self._sender = Sender()
        self._rows = 0
        self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """See Writer. The first call with rows connects and raises PermitRevokedError if the permit is gone."""
        if batch.num_rows == 0:
            return
        with translated(f"{self._where}, writing"):
            bulk = self._bulk or self._begin()
            try:
                for payload in bulk.encode(batch, self._rows + 1):
                    self._submit(bulk, payload)
            except BadRowError as error:
                raise BadRowError(f"{self._where}: {error.message}", remedy=error.remedy) from error

    def prepare(self) -> Committable:
        """See Writer. A writer without rows prepares nothing and says so in its committable."""
        session = self._session
        if session is None:
            return Committable(self._transaction, rows=0, data={tables.EMPTY: "1"})
        with translated(f"{self._where}, preparing"):
            try:
                self._sender.wait()
            except BadRowError as error:
                raise BadRowError(f"{self._where}: {error.message}", remedy=error.remedy) from error
            tables.insert_witness(session, self._transaction, self._rows)
            xa.prepare(session, self._transaction)
        self._disconnect()
        faults.point("prepared", self._transaction.scope.checkpoint_id)
        return Committable(self._transaction, rows=self._rows, bytes=self._bytes)

    def abort(self) -> None:
        """See Writer. What is prepared already is left to the driver, who alone knows whether it was accepted (H1)."""
        session = self._session
        if session is None:
            return
        self._sender.settle()  # the connection is free when the statement has ended, however
        with contextlib.suppress(ServerError):  # closing the connection makes the server roll back by itself
            xa.end_and_rollback(session, self._transaction)
        self._disconnect()

    def _begin(self) -> Bulk:
        """Connect, open the branch, and take the permit shared: it cannot be revoked before this branch is prepared."""
        session = self._session = Session(self._url)
        stragglers.mark(
            session, permits.holders(self._transaction.scope, self._transaction.sink), self._transaction.task
        )
        local, max_packet = session.execute("SELECT @@local_infile, @@max_allowed_packet")[0]
        xa.start(session, self._transaction)
        scope = self._transaction.scope
        if not permits.lock_permit(session, scope, self._transaction.sink):
            message = f"{self._where}: the permit of {scope} is gone; its checkpoint was aborted or its driver replaced"
            raise PermitRevokedError(message)
        bulk = self._bulk = Bulk(self._target, self._plans, local=bool(local), max_packet_bytes=int(max_packet))
        return bulk

    def _submit(self, bulk: Bulk, payload: Payload) -> None:
        first = self._rows == 0
        assert self._session is not None
        self._sender.submit(partial(bulk.send, self._session, payload))
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

"""A task's at-least-once writer for small stores: rows wait in a temporary file, and land in one step at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final

import pyarrow as pa

from connectors.row_spool import RowSpool
from connectors.stores.contracts import PreparingStore, TokenStore
from connectors.stores.rows import RowForm
from connectors.stores.token import direct_slot, transaction_name
from eos.errors import SinkUnavailableError
from twophase import faults
from twophase.ids import TransactionId
from twophase.values import Committable

_ATTEMPTS: Final = 20

Rows = Callable[[], Iterator[pa.RecordBatch]]
"""Gives the rows from the first one on, each time."""

Land = Callable[[TransactionId, Rows], bool]
"""Adds rows in one step; False: other attempts of the task were faster, and nothing happened."""


class StoreDirectWriter:
    """See DirectWriter."""

    def __init__(self, name: str, land: Land, form: RowForm, transaction: TransactionId) -> None:
        self._where = f"sink {name}, task {transaction.task}"
        self._land = land
        self._form = form
        self._transaction = transaction
        self._spool = RowSpool(self._where, form.schema)
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """See DirectWriter. Raises BadRowError for a value that is invalid, PrepareError for a full disk."""
        if not batch.num_rows:
            return
        self._spool.write(self._form.convert(batch, self._rows + 1))
        if not self._rows:
            faults.point("writing", self._transaction.scope.checkpoint_id)
        self._rows += batch.num_rows

    def write_atomic(self, batch: pa.RecordBatch) -> None:
        """See DirectWriter. An invalid value is found before anything of its batch is kept."""
        self.write(batch)

    def commit(self) -> Committable:
        size = self._spool.finish()
        if self._rows:
            with closing(self._spool):
                self._put()
        faults.point("written", self._transaction.scope.checkpoint_id)
        return Committable(self._transaction, rows=self._rows, bytes=size)

    def abort(self) -> None:
        self._spool.close()

    def _put(self) -> None:
        if not self._land(self._transaction, self._spool.read):
            message = f"{self._where}: other attempts of the task were faster {_ATTEMPTS} times"
            raise SinkUnavailableError(message, remedy="the task is run again")


def land_in_token_store(store: TokenStore, transaction: TransactionId, rows: Rows) -> bool:
    """Add rows under a slot that belongs to this task number, whatever pipeline and attempt it is of.

    The token only serializes attempts of one task; no decision reads it.
    """
    slot = direct_slot(transaction)
    return any(store.apply(slot, store.applied(slot), str(transaction), rows()) for _ in range(_ATTEMPTS))


def land_in_preparing_store(store: PreparingStore, transaction: TransactionId, rows: Rows) -> bool:
    """Prepare rows and commit them at once. See `land_in_token_store`. A start aborts what a crash leaves behind."""
    slot, name = direct_slot(transaction), transaction_name(transaction)
    store.prepare(name, rows())
    return any(store.commit(slot, store.witness(slot), str(transaction), [name]) for _ in range(_ATTEMPTS))

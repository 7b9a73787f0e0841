"""A task's at-least-once writer for small stores: rows wait in a temporary file, and land in one step at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from tempfile import TemporaryFile, gettempdir
from typing import IO, Final

import pyarrow as pa

from connectors.stores.contracts import PreparingStore, TokenStore
from connectors.stores.rows import RowForm
from connectors.stores.token import direct_slot, transaction_name
from eos.errors import PrepareError, SinkUnavailableError
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
        self._file: IO[bytes] | None = None
        self._waiting: pa.RecordBatchStreamWriter | None = None
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """See DirectWriter. Raises BadRowError for a value that is invalid, PrepareError for a full disk."""
        if not batch.num_rows:
            return
        rows = self._form.convert(batch, self._rows + 1)
        with self._kept():
            if self._waiting is None:
                self._file = TemporaryFile()  # noqa: SIM115 closed by whichever call ends this writer
                self._waiting = pa.ipc.new_stream(self._file, self._form.schema)
            self._waiting.write_batch(rows)
        if not self._rows:
            faults.point("writing", self._transaction.scope.checkpoint_id)
        self._rows += batch.num_rows

    def write_whole(self, batch: pa.RecordBatch) -> None:
        """See DirectWriter. An invalid value is found before anything of its batch is kept."""
        self.write(batch)

    def commit(self) -> Committable:
        size = 0
        if self._file is not None and self._waiting is not None:
            with self._kept():
                self._waiting.close()
                self._file.flush()
            size = self._file.tell()
            with self._file:
                self._put(self._file)
        faults.point("written", self._transaction.scope.checkpoint_id)
        return Committable(self._transaction, rows=self._rows, bytes=size)

    def abort(self) -> None:
        if self._file is not None:
            with suppress(OSError):  # a full disk refuses the buffer once more, and the rows are given up anyway
                self._file.close()

    def _put(self, file: IO[bytes]) -> None:
        def rows() -> Iterator[pa.RecordBatch]:
            file.seek(0)
            return iter(pa.ipc.open_stream(file))

        if not self._land(self._transaction, rows):
            message = f"{self._where}: other attempts of the task were faster {_ATTEMPTS} times"
            raise SinkUnavailableError(message, remedy="the task is run again")

    @contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            message = f"{self._where}: the temporary file does not take the rows: {error}"
            remedy = f"make room in {gettempdir()}, or name another folder by TMPDIR; lower max_records_per_checkpoint"
            raise PrepareError(message, remedy=remedy) from error


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

"""The task's half of a SQLite sink that runs at-least-once.

A file has one writer at a time. So rows wait in a temporary file until the task has all of them: nobody waits for a
task that still reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import pyarrow as pa

from connectors.row_spool import RowSpool
from connectors.sql.sqlite.errors import SqliteError
from connectors.sql.sqlite.store import SqliteStore
from connectors.sql.sqlite.values import Stored
from connectors.sql.statements import in_transaction, translate_errors
from twophase import faults
from twophase.ids import TransactionId
from twophase.values import Committable

_TURN_S: Final = 300.0
"""How long a task waits until others have written their rows."""


class SqliteDirectWriter:
    """At-least-once writer of SQLite."""

    def __init__(self, name: str, path: Path, table: str, form: Stored, transaction: TransactionId) -> None:
        self._where = f"sink {name}, task {transaction.task}"
        self._path = path
        self._table = table
        self._form = form
        self._transaction = transaction
        self._spool = RowSpool(self._where, form.schema)
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """See DirectWriter. Raises BadRowError for a value that the table cannot hold."""
        if not batch.num_rows:
            return
        self._spool.write(self._form.convert(batch, self._rows + 1))
        if not self._rows:
            faults.point("writing", self._transaction.scope.checkpoint_id)
        self._rows += batch.num_rows

    def write_atomic(self, batch: pa.RecordBatch) -> None:
        """See DirectWriter. The file of the database checks constraints only as it takes the rows at the task's end. So
        the batch is inserted before that in a transaction of its own, which is rolled back."""
        if batch.num_rows:
            self._try_out(self._form.convert(batch, self._rows + 1))
        self.write(batch)

    def commit(self) -> Committable:
        size = self._spool.finish()
        if self._rows:
            with closing(self._spool), translate_errors(f"{self._where}, writing"):
                self._put()
        faults.point("written", self._transaction.scope.checkpoint_id)
        return Committable(self._transaction, rows=self._rows, bytes=size)

    def abort(self) -> None:
        self._spool.close()

    def _put(self) -> None:
        """Insert all rows in one transaction."""

        def insert(store: SqliteStore) -> None:
            with in_transaction(store):
                store.load(self._table, self._spool.read())

        self._in_turn(insert)

    def _try_out(self, rows: pa.RecordBatch) -> None:
        """Insert these rows and roll back. Raises BadRowError."""

        def insert(store: SqliteStore) -> None:
            store.execute(store.begin)
            try:
                store.load(self._table, [rows])
            finally:
                store.execute("ROLLBACK")

        with translate_errors(f"{self._where}, writing"):
            self._in_turn(insert)

    def _in_turn(self, insert: Callable[[SqliteStore], None]) -> None:
        """Call `insert`, and retry it while another connection holds the file: nothing was done then."""
        until = time.monotonic() + _TURN_S
        while True:
            try:
                with closing(SqliteStore(self._path)) as store:
                    return insert(store)
            except SqliteError as error:
                if not error.lock_wait or time.monotonic() > until:
                    raise

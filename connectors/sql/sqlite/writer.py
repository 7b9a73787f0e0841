"""The task-side half of the SQLite sink: rows into one segment. It never opens the database."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from connectors.sql.sqlite.columns import Binding
from connectors.sql.sqlite.log import committable, segment_name, while_preparing
from connectors.sql.sqlite.values import stored_rows, stored_schema
from twophase import faults
from twophase.ids import TransactionId
from twophase.values import Committable
from wal.errors import WalError
from wal.segment import SegmentWriter
from wal.storage import Storage


class SqliteWriter:
    """See Writer. A task without rows leaves no segment.

    No permit is asked for: a segment that comes too late is under a name that nobody has decided on, so that it is
    never applied, and it is deleted with the next checkpoint.
    """

    def __init__(self, storage: Storage, table: str, bindings: Sequence[Binding], transaction: TransactionId) -> None:
        self._storage = storage
        self._table = table
        self._bindings = bindings
        self._transaction = transaction
        self._segment: SegmentWriter | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Convert and append. Raises BadRowError for a value that the column cannot hold, PrepareError for the disk."""
        if not batch.num_rows:
            return
        rows = stored_rows(self._table, self._bindings, batch)
        first = self._segment is None
        try:
            if self._segment is None:
                name = segment_name(self._transaction)
                self._segment = SegmentWriter(self._storage, name, stored_schema(self._bindings))
            self._segment.write(rows)
        except WalError as error:
            raise while_preparing(error) from error
        if first:
            faults.point("writing", self._transaction.scope.checkpoint_id)

    def prepare(self) -> Committable:
        """Seal the segment: durable and named, and not yet a row of the table. Raises PrepareError."""
        result = Committable(self._transaction, rows=0)
        if self._segment is not None:
            try:
                result = committable(self._transaction, self._segment.seal())
            except WalError as error:
                raise while_preparing(error) from error
        faults.point("prepared", self._transaction.scope.checkpoint_id)
        return result

    def abort(self) -> None:
        """Forget the rows. What a seal that failed half-way has left is deleted by the committer."""
        if self._segment is not None:
            self._segment.discard()

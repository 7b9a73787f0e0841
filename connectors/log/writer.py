"""The task-side half of every sink with a log: rows into one segment. It never asks the sink itself anything."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from connectors.log.segments import committable, segment_name, while_preparing
from twophase import faults
from twophase.ids import TransactionId
from twophase.values import Committable
from wal.errors import WalError
from wal.segment import SegmentRef, SegmentWriter
from wal.storage import Storage


class Form(Protocol):
    """How rows lie in the log. Picklable.

    Everything about a value that can be found wrong in a task is found here: after the decision it would be too late.
    """

    @property
    def schema(self) -> pa.Schema:
        """Of the segments. Says all that is needed to apply them: the spec may have changed by then."""

    def convert(self, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        """Rows as they come to rows of `schema`. Raises BadRowError that names column and row.

        `first_row`: number of the first row in this attempt, from 1; for messages.
        """


class Output(Protocol):
    """The place for rows of one form: a segment, or the part of one that belongs to a table."""

    def begin(self, schema: pa.Schema) -> None:
        """Begin with the first row. Calls after the first do nothing. Raises PrepareError."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows of the schema. Raises PrepareError."""


class RowWriter(Protocol):
    """Writes the rows of one form to an output."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows. Raises BadRowError for a value that the target cannot hold, PrepareError for the disk."""

    def flush(self) -> None:
        """Write what is still in memory. Nothing follows. Raises PrepareError, IncomparableRowsError."""


class Segment:
    """Implements Output by the segment of a transaction. A claim can sweep it away from its first row on."""

    def __init__(self, storage: Storage, transaction: TransactionId) -> None:
        self._storage = storage
        self._transaction = transaction
        self._segment: SegmentWriter | None = None

    def begin(self, schema: pa.Schema) -> None:
        if self._segment is None:
            try:
                self._segment = SegmentWriter(self._storage, segment_name(self._transaction), schema)
            except WalError as error:
                raise while_preparing(error) from error

    def write(self, batch: pa.RecordBatch) -> None:
        assert self._segment is not None, "not begun"
        try:
            self._segment.write(batch)
        except WalError as error:
            raise while_preparing(error) from error

    def seal(self) -> SegmentRef | None:
        """Publish it, durable and under its name. None: it has no rows. Raises PrepareError."""
        if self._segment is None:
            return None
        try:
            return self._segment.seal()
        except WalError as error:
            raise while_preparing(error) from error

    def discard(self) -> None:
        """Forget the rows. What a seal that failed half-way has left is deleted by the committer."""
        if self._segment is not None:
            self._segment.discard()


class AppendingRowWriter:
    """Implements RowWriter: rows as they come."""

    def __init__(self, form: Form, output: Output) -> None:
        self._form = form
        self._output = output
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        rows = self._form.convert(batch, self._rows + 1)
        self._output.begin(self._form.schema)
        self._output.write(rows)
        self._rows += batch.num_rows

    def flush(self) -> None:
        pass


class LogWriter:
    """See Writer. A task without rows leaves no segment.

    No permit is asked for: a segment that comes too late is under a name that nobody has decided on, so that it is
    never applied, and it is deleted with the next checkpoint.
    """

    def __init__(self, rows: RowWriter, segment: Segment, slots: int, transaction: TransactionId) -> None:
        self._row_writer = rows
        self._segment = segment
        self._slots = slots
        self._transaction = transaction
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Convert and append. Raises BadRowError for a value that the target cannot hold, PrepareError for the disk."""
        if not batch.num_rows:
            return
        first = self._rows == 0
        self._row_writer.write(batch)
        self._rows += batch.num_rows
        if first:
            faults.point("writing", self._transaction.scope.checkpoint_id, self._transaction.sink)

    def write_atomic(self, batch: pa.RecordBatch) -> None:
        """See Writer. What is wrong with a row is found before anything of its batch is in the segment."""
        self.write(batch)

    def prepare(self) -> Committable:
        """Seal the segment: durable and named, and not yet applied. Raises PrepareError."""
        self._row_writer.flush()
        ref = self._segment.seal()
        faults.point("prepared", self._transaction.scope.checkpoint_id, self._transaction.sink)
        return committable(self._transaction, self._slots, self._rows, ref)

    def abort(self) -> None:
        """Forget the rows."""
        self._segment.discard()


def appending_writer(storage: Storage, form: Form, slots: int, transaction: TransactionId) -> LogWriter:
    """In a task: a writer of rows as they come. See Sink.writer."""
    segment = Segment(storage, transaction)
    return LogWriter(AppendingRowWriter(form, segment), segment, slots, transaction)

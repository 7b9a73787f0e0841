"""At-least-once tasks that keep their rows in a temporary file until they have all of them.

So nobody waits for a task that still reads: not other writers of a file that has one writer at a time, and a small
store takes the rows of a task in one step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from tempfile import TemporaryFile, gettempdir
from typing import IO

import pyarrow as pa

from connectors.log.writer import Form
from eos.errors import PrepareError
from twophase import faults
from twophase.ids import TransactionId
from twophase.values import Committable


class RowSpool:
    """A temporary file of rows. Belongs to one task: `write` for each batch, then `finish`, `read` and `close`."""

    def __init__(self, where: str, schema: pa.Schema) -> None:
        self._where = where  # the sink and the task, for messages
        self._schema = schema
        self._file: IO[bytes] | None = None  # None until the first batch: a task without rows has no file
        self._stream: pa.RecordBatchStreamWriter | None = None

    def write(self, rows: pa.RecordBatch) -> None:
        """Append rows. Raises PrepareError for a full disk."""
        with self._refusals():
            if self._stream is None:
                self._file = TemporaryFile()  # noqa: SIM115 `close` closes it
                self._stream = pa.ipc.new_stream(self._file, self._schema)
            self._stream.write_batch(rows)

    def finish(self) -> int:
        """Write what is buffered, and return the size in bytes; 0 without rows. Raises PrepareError for a full disk."""
        if self._file is None or self._stream is None:
            return 0
        with self._refusals():
            self._stream.close()
            self._file.flush()
        return self._file.tell()

    def read(self) -> Iterator[pa.RecordBatch]:
        """Return all rows, from the first one on. Called after `finish` of a spool with rows, once for each attempt."""
        assert self._file is not None
        self._file.seek(0)
        return iter(pa.ipc.open_stream(self._file))

    def close(self) -> None:
        """Delete the file. Never raises: a full disk refuses the buffer once more, and the rows are given up."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            message = f"{self._where}: the temporary file does not take the rows: {error}"
            remedy = f"make room in {gettempdir()}, or name another folder by TMPDIR; lower max_records_per_checkpoint"
            raise PrepareError(message, remedy=remedy) from error


class SpoolingWriter(ABC):
    """See DirectWriter. A subclass says how the rows of the task land at its end."""

    def __init__(self, name: str, form: Form, transaction: TransactionId) -> None:
        self._where = f"sink {name}, task {transaction.task}"
        self._form = form
        self._transaction = transaction
        self._spool = RowSpool(self._where, form.schema)
        self._rows = 0

    @abstractmethod
    def _put(self) -> None:
        """Add all rows of the spool to the target in one step."""

    def write(self, batch: pa.RecordBatch) -> None:
        """See DirectWriter. Raises BadRowError for a value that the form refuses, PrepareError for a full disk."""
        if not batch.num_rows:
            return
        self._spool.write(self._form.convert(batch, self._rows + 1))
        if not self._rows:
            faults.point("writing", self._transaction.scope.checkpoint_id)
        self._rows += batch.num_rows

    def write_atomic(self, batch: pa.RecordBatch) -> None:
        """See DirectWriter. A value that the form refuses is found before anything of its batch is kept."""
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

"""Rows of one at-least-once task, kept in a temporary file until the task has all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from tempfile import TemporaryFile, gettempdir
from typing import IO

import pyarrow as pa

from eos.errors import PrepareError


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

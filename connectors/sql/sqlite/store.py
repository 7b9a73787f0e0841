"""A connection that applies the log to a SQLite file. See connectors.sql.log.store.Store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import types
from sqlalchemy import Connection, Dialect
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DBAPIError

from connectors.sql.log.merging import on_conflict, split
from connectors.sql.sqlite.database import COMMENT_OF, open_engine
from connectors.sql.sqlite.errors import SqliteError
from eos.errors import BadRowError

_ENDED: Final = (
    "a row was refused, and the transaction is over: a trigger has to refuse by RAISE(ABORT, …), not RAISE(ROLLBACK, …)"
)

IDLE_S: Final = 0.0
"""The file is looked at before each use: it may have been replaced, and what was opened be nobody's any more."""


class SqliteStore:
    """See Store. A transaction holds the file's write lock from its first moment; nothing else is locked."""

    def __init__(self, path: Path) -> None:
        """Open a file that exists. Raises SqliteError."""
        self.begin = "BEGIN IMMEDIATE"
        self.for_share = self.for_update = ""
        self.utc_now = "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now')"
        self.ddl: Dialect = sqlite.dialect()
        self.comment_of = COMMENT_OF
        self._path = path
        self._engine = open_engine(path)
        try:
            self._connection: Connection = self._engine.connect()
            self._file = _identity(path)
        except DBAPIError as error:
            raise SqliteError(path, error.orig) from error
        except OSError as error:
            raise SqliteError(path, error) from error

    def execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run one statement; returns its rows. Raises SqliteError."""
        if statement.startswith("ROLLBACK") and not self._in_transaction:
            if statement == "ROLLBACK":
                return []  # SQLite has rolled back by itself, as after a full disk
            raise SqliteError(self._path, sqlite3.OperationalError(_ENDED))
        try:
            done = self._connection.exec_driver_sql(statement % (("?",) * len(values)), values)
            return [tuple(row) for row in done] if done.returns_rows else []
        except DBAPIError as error:
            raise SqliteError(self._path, error.orig) from error

    def load(self, table: str, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            if batch.num_rows:
                self._insert(table, batch)

    def merge(self, table: str, key: Sequence[str], batches: Iterable[pa.RecordBatch]) -> None:
        quote = self.ddl.identifier_preparer.quote_identifier
        # As the index compares them; the column may have a collation of its own.
        where = " AND ".join(f"{quote(name)} = ? COLLATE BINARY" for name in key)
        for batch in batches:
            gone, kept = split(batch, key)
            if gone.num_rows:
                self._each(f"DELETE FROM {quote(table)} WHERE {where}", gone)
            if kept.num_rows:
                self._insert(table, kept, on_conflict(quote, key, kept.schema.names))

    def mark(self, name: str, member: int | None = None) -> None:
        """See Store. Nobody can end another process's transaction here."""

    def end(self, name: str, member: int | None = None) -> int:
        del name, member
        return 0

    def answers(self) -> bool:
        """Whether the path still names the file that was opened."""
        try:
            return _identity(self._path) == self._file
        except OSError:
            return False

    def close(self) -> None:
        self._connection.close()
        self._engine.dispose()

    @property
    def _in_transaction(self) -> bool:
        driver = self._connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        return driver.in_transaction

    def _insert(self, table: str, batch: pa.RecordBatch, conflict: str = "") -> None:
        quote = self.ddl.identifier_preparer.quote_identifier
        names = ", ".join(quote(name) for name in batch.schema.names)
        marks = ", ".join("?" * batch.num_columns)
        # OR ABORT overrides a conflict clause of the table's own, which could drop or replace rows in silence.
        stored = self._each(f"INSERT OR ABORT INTO {quote(table)} ({names}) VALUES ({marks}) {conflict}", batch)
        if stored != batch.num_rows:
            message = f"table {table} took {stored} of {batch.num_rows} rows"
            raise BadRowError(message, remedy="a trigger of the table leaves rows out: change it and start again")

    def _each(self, statement: str, batch: pa.RecordBatch) -> int:
        rows = list(zip(*(_values(column) for column in batch.columns), strict=True))
        try:
            return self._connection.exec_driver_sql(statement, rows).rowcount
        except DBAPIError as error:
            raise SqliteError(self._path, error.orig) from error


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _values(array: pa.Array) -> list[object]:
    """Python values of one column, made by NumPy in one go where that keeps them as they are."""
    number = types.is_integer(array.type) or types.is_floating(array.type)
    slow = number and array.null_count  # NumPy has no NULL for them: integers would become floats
    values: list[object] = array.to_pylist() if slow else array.to_numpy(zero_copy_only=False).tolist()
    return values

"""A connection that applies the log to a SQLite file. See connectors.sql.log.store.Store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import types
from sqlalchemy import Connection, Dialect
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DBAPIError

from connectors.log.merge import Merge
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

    def merge(self, table: str, merge: Merge, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            gone, kept = split(batch, merge)
            if gone.num_rows:
                self._delete(table, merge, gone)
            if kept.num_rows:
                self._put(table, merge, kept)

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

    def _delete(self, table: str, merge: Merge, keys: pa.RecordBatch) -> None:
        if merge.stores_deletions:
            self._put(table, merge, keys)
        elif merge.deleted_at is None:
            self._each(f"DELETE FROM {self._quote(table)} WHERE {self._same(merge)}", keys)
        else:
            change = f"UPDATE {self._quote(table)} SET {self._quote(merge.deleted_at)} = ? WHERE {self._same(merge)}"
            self._each(change, keys.select([merge.deleted_at, *merge.key]))

    def _put(self, table: str, merge: Merge, rows: pa.RecordBatch) -> None:
        self._insert(table, rows, on_conflict(self._quote, merge, rows.schema.names, "BINARY"), merge)

    def _same(self, merge: Merge) -> str:
        """Return a condition on the key, which compares as the index does: a column may have another collation."""
        return " AND ".join(f"{self._quote(name)} = ? COLLATE BINARY" for name in merge.key)

    def _quote(self, name: str) -> str:
        return self.ddl.identifier_preparer.quote_identifier(name)

    def _insert(self, table: str, batch: pa.RecordBatch, conflict: str = "", merge: Merge | None = None) -> None:
        names = ", ".join(self._quote(name) for name in batch.schema.names)
        marks = ", ".join("?" * batch.num_columns)
        # OR ABORT overrides a conflict clause of the table's own, which could drop or replace rows in silence.
        insert = f"INSERT OR ABORT INTO {self._quote(table)} AS t ({names}) VALUES ({marks}) {conflict}"
        stored = self._each(insert, batch)
        if stored != batch.num_rows and merge is not None and merge.may_leave_out:
            stored = self._settled(table, merge, batch)
        if stored != batch.num_rows:
            message = f"table {table} took {stored} of {batch.num_rows} rows"
            raise BadRowError(message, remedy="a trigger of the table leaves rows out: change it and start again")

    def _settled(self, table: str, merge: Merge, batch: pa.RecordBatch) -> int:
        """Return how many rows of the batch the table has, or has another row instead of."""
        order = [] if merge.order_by is None else [merge.order_by]
        where = " AND ".join([self._same(merge), *(f"{self._quote(name)} >= ? COLLATE BINARY" for name in order)])
        rows = zip(*(_values(batch.column(name)) for name in (*merge.key, *order)), strict=True)
        look = f"SELECT count(*) FROM {self._quote(table)} WHERE {where}"
        try:
            return sum(self._connection.exec_driver_sql(look, row).scalar_one() for row in rows)
        except DBAPIError as error:
            raise SqliteError(self._path, error.orig) from error

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

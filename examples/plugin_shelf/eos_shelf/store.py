"""Level (a): a table of a SQLite file, as a store that keeps a token."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from eos import BadRowError, Finding, SinkUnavailableError

_TOKENS = "CREATE TABLE IF NOT EXISTS eos_token (slot TEXT PRIMARY KEY, token TEXT NOT NULL)"


@dataclass(frozen=True)
class SqliteStore:
    """A table whose columns have the names of the rows' columns."""

    path: Path
    table: str

    def applied(self, slot: str) -> str:
        """Return the stored token."""
        with self._transaction() as database:
            return _token(database, slot)

    def apply(
        self,
        slot: str,
        expected: str,
        token: str,
        batches: Iterator[pa.RecordBatch],
    ) -> bool:
        """Insert rows and replace the token in one transaction."""
        with self._transaction() as database:
            if _token(database, slot) != expected:
                return False
            for batch in batches:
                columns = ", ".join(map(_quoted, batch.schema.names))
                marks = ", ".join("?" * batch.num_columns)
                insert = f"INSERT INTO {_quoted(self.table)} ({columns}) VALUES ({marks})"
                rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
                database.executemany(insert, rows)
            database.execute("INSERT OR REPLACE INTO eos_token VALUES (?, ?)", (slot, token))
            return True

    def check(self, schema: pa.Schema | None) -> Sequence[Finding]:
        """Compare the table's columns with the rows'."""
        with self._transaction() as database:
            columns = database.execute(f"PRAGMA table_info({_quoted(self.table)})").fetchall()
        found = {str(column[1]) for column in columns}
        if not found:
            detail = f"{self.table} does not exist in {self.path}"
            return [Finding("table", ok=False, detail=detail, remedy="create it")]
        missing = [] if schema is None else [name for name in schema.names if name not in found]
        if missing:
            detail = f"{self.table} has no column {', '.join(missing)}"
            remedy = "add it, or drop it in a step"
            return [Finding("table", ok=False, detail=detail, remedy=remedy)]
        return [Finding("table", ok=True, detail=f"{self.table} exists")]

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        database = sqlite3.connect(self.path, timeout=30, isolation_level=None)
        try:
            database.execute("BEGIN IMMEDIATE")
            database.execute(_TOKENS)
            yield database
            database.execute("COMMIT")
        except sqlite3.IntegrityError as error:
            message = f"table {self.table} refuses a row: {error}"
            raise BadRowError(message, remedy="change the table or the row") from error
        except sqlite3.OperationalError as error:
            message = f"{self.path}: {error}"
            raise SinkUnavailableError(message, remedy="the next attempt follows") from error
        finally:
            database.close()  # rolls back what is not committed


def _token(database: sqlite3.Connection, slot: str) -> str:
    row = database.execute("SELECT token FROM eos_token WHERE slot = ?", (slot,)).fetchone()
    return str(row[0]) if row else ""


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

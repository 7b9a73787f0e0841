"""What an error code of SQLite means for the pipeline (https://sqlite.org/rescode.html)."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from connectors.sql.statements import StatementError
from eos.errors import BadRowError, ConnectorError, SinkUnavailableError, TargetError

_LOCKED: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
_LATER: Final = {
    **dict.fromkeys(_LOCKED, "another process keeps the database locked; end it or let it finish"),
    sqlite3.SQLITE_FULL: "free space on the disk; nothing is lost, the rows wait in the log",
    sqlite3.SQLITE_IOERR: "see whether the disk is sound; nothing is lost, the rows wait in the log",
    sqlite3.SQLITE_CANTOPEN: "create the file, or set `path` and the permissions of its folder right",
    sqlite3.SQLITE_NOMEM: "give the process more memory",
}
_ROW: Final = (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG)
_DENIED: Final = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_PERM)
_OF_VALUES: Final = frozenset(
    {"malformed JSON", "JSON cannot hold BLOB values", "integer overflow", "LIKE or GLOB pattern too complex"}
)
"""What an expression of the table says of a row: a generated column, an index, a CHECK. SQLite has no code for it."""
_NO_TABLE: Final = "no such table:"  # SQLite has no code of its own for it
_UNKNOWN: Final = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_SCHEMA)
"""Codes of a name that does not exist. SCHEMA: other processes created tables all the while that SQLite looked."""


class SqliteError(StatementError):
    """An error of SQLite."""

    def __init__(self, path: Path, error: BaseException | None) -> None:
        super().__init__(str(error))
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        self.text = str(error)
        self._path = path
        self._code = code & 0xFF  # an extended code keeps its class in the low byte
        self._extended = code

    @property
    def disconnected(self) -> bool:
        """See StatementError. There is no connection that could be lost: a COMMIT that fails has done nothing."""
        return False

    @property
    def lock_wait(self) -> bool:
        return self._code in _LOCKED

    @property
    def duplicate_key(self) -> bool:
        return self._extended in (sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE)

    @property
    def in_doubt(self) -> bool:
        """See StatementError. Nothing is prepared here."""
        return False

    @property
    def rolled_back(self) -> bool:
        """See StatementError. Nothing is prepared here."""
        return False

    @property
    def missing_table(self) -> bool:
        return self._code in _UNKNOWN and self.text.startswith(_NO_TABLE)

    @property
    def access_denied(self) -> bool:
        return self._code in _DENIED

    def connector_error(self, doing: str) -> ConnectorError:
        """See StatementError. The message carries no row."""
        del doing  # the path says it better
        message = f"SQLite database {self._path}: {self.text}"
        if self._code in _LATER:
            return SinkUnavailableError(message, remedy=_LATER[self._code])
        if self._code in _ROW or (self._code == sqlite3.SQLITE_ERROR and self.text in _OF_VALUES):
            message = f"SQLite database {self._path} refuses a row: {self.text}"
            remedy = "change the table's constraint or the rows in the way, and start again: nothing is lost"
            return BadRowError(message, remedy=remedy)
        remedy = "see that the file is a SQLite database, that this user may write it, and its tables are as they were"
        return TargetError(message, remedy=remedy)

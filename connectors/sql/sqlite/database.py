"""A SQLite file through SQLAlchemy: connections that sync, one way to write, and errors with a class and a remedy."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import ConnectionPoolEntry, NullPool

from twophase.errors import BadRowError, ConnectorError, SinkUnavailableError, TargetError

BUSY_TIMEOUT_S: Final = 5.0
"""How long a statement waits for another process's lock before it is SinkUnavailableError."""

_LATER: Final = {
    sqlite3.SQLITE_BUSY: "another process keeps the database locked; end it or let it finish",
    sqlite3.SQLITE_LOCKED: "another process keeps the database locked; end it or let it finish",
    sqlite3.SQLITE_PROTOCOL: "another process keeps the database locked; end it or let it finish",
    sqlite3.SQLITE_FULL: "free space on the disk; nothing is lost, the rows wait in the log",
    sqlite3.SQLITE_IOERR: "see whether the disk is sound; nothing is lost, the rows wait in the log",
    sqlite3.SQLITE_CANTOPEN: "create the file, or set `path` and the permissions of its folder right",
    sqlite3.SQLITE_NOMEM: "give the process more memory",
}
_ROW: Final = (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG)


@dataclass(frozen=True, slots=True)
class Database:
    """One SQLite file. Holds no connection: opening one takes a fraction of a millisecond."""

    path: Path

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection in autocommit. Never creates the file. Raises what `translated` makes of an error."""
        engine = _engine(self.path)
        try:
            with engine.connect() as connection:
                yield connection
        except DBAPIError as error:
            raise translated(self.path, error) from error
        finally:
            engine.dispose()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction that holds the write lock from its first moment, durable when this returns.

        The statements are sent here and not left to the driver, which begins late and not before a read.
        """
        with self.reading() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.exec_driver_sql("COMMIT")
            except BaseException:
                connection.rollback()  # the driver's own, which does nothing if SQLite has rolled back already
                raise


def _engine(path: Path) -> Engine:
    # mode=rw: a missing file is an error and not a new, empty database.
    query = {"uri": "true", "mode": "rw", "timeout": str(BUSY_TIMEOUT_S)}
    url = URL.create("sqlite", database=f"file:{quote(str(path.absolute()))}", query=query)
    engine = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    event.listen(engine, "connect", _make_durable)
    return engine


def _make_durable(connection: Any, _entry: ConnectionPoolEntry) -> None:
    """EXTRA, not FULL: with a rollback journal, FULL leaves the journal's removal unsynced, and a power cut undoes a
    commit whose segments are already deleted (https://sqlite.org/pragma.html#pragma_synchronous)."""
    connection.execute("PRAGMA synchronous=EXTRA")


def translated(path: Path, error: DBAPIError) -> ConnectorError:
    """One of the framework's errors for one of SQLite's. Its message carries no row."""
    code = getattr(error.orig, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    primary = code & 0xFF  # an extended code keeps its class in the low byte
    if primary in _LATER:
        return SinkUnavailableError(f"SQLite database {path}: {error.orig}", remedy=_LATER[primary])
    if primary in _ROW:
        message = f"SQLite database {path} refuses a row: {error.orig}"
        return BadRowError(
            message, remedy="change the table's constraint or the rows in the way, and start again: nothing is lost"
        )
    remedy = "see that the file is a SQLite database, that this user may write it, and that its tables are as they were"
    return TargetError(f"SQLite database {path}: {error.orig}", remedy=remedy)

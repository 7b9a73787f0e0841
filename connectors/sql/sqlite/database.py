"""A SQLite file through SQLAlchemy: connections that sync, one way to write, and errors with a class and a remedy."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import ConnectionPoolEntry, NullPool

from connectors.sql.sqlite.errors import SqliteError
from eos.errors import TargetError

_log: Final = logging.getLogger("eos.sink")

BUSY_TIMEOUT_S: Final = 5.0
"""How long a statement waits for another process's lock before it is SinkUnavailableError."""

MODE: Final = "rw"
"""A missing file is an error and not a new, empty database: only `create_file` creates one."""

COMMENT_OF: Final = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name = '{}'"
"""See statements.Connected. SQLite has no comments; it keeps the statement that created a table, with those in it."""


@dataclass(frozen=True, slots=True)
class Database:
    """One SQLite file, as a start and `eos doctor` look at it. Holds no connection."""

    path: Path

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection in autocommit. Never creates the file. Raises what SqliteError is to the framework."""
        engine = open_engine(self.path)
        try:
            with engine.connect() as connection:
                yield connection
        except DBAPIError as error:
            raise SqliteError(self.path, error.orig).connector_error("") from error
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


@contextmanager
def empty() -> Iterator[Connection]:
    """A connection to an empty database in memory: the answers of a file that is yet to be created."""
    engine = create_engine("sqlite://", poolclass=NullPool, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def create_file(path: Path) -> None:
    """Create a missing database, empty and durably. The folder must exist: it may be a disk to be mounted.

    Called at a start, before the sink is compared with head: a pipeline that has written to the file before is refused.
    Raises TargetError.
    """
    if path.exists():
        return
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666))
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        message = f"SQLite database {path} cannot be created: {error.strerror}"
        remedy = "create its folder, with the right to write there, or set `path` right"
        raise TargetError(message, remedy=remedy) from error
    _log.info("created the SQLite database %s", path)


def open_engine(path: Path) -> Engine:
    """Of connections in autocommit, for any thread, one at a time. Opens nothing yet."""
    query = {"uri": "true", "mode": MODE, "timeout": str(BUSY_TIMEOUT_S)}
    url = URL.create("sqlite", database=f"file:{quote(str(path.absolute()))}", query=query)
    threads = {"check_same_thread": False}
    engine = create_engine(url, connect_args=threads, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    event.listen(engine, "connect", _make_durable)
    return engine


def open_url(url: str, _kept: int) -> Engine:
    """See DatabaseKind. Keeps none: a file opens quickly. One that is missing is created, unless it says `mode=rw`."""
    engine = create_engine(make_url(url).set(drivername="sqlite"), poolclass=NullPool, hide_parameters=True)
    event.listen(engine, "connect", _make_durable)
    return engine


def _make_durable(connection: Any, _entry: ConnectionPoolEntry) -> None:
    """EXTRA, not FULL: with a rollback journal, FULL leaves the journal's removal unsynced. A power cut then undoes a
    commit whose segments are already deleted, or a swap of head that rows rest on
    (https://sqlite.org/pragma.html#pragma_synchronous)."""
    connection.execute("PRAGMA synchronous=EXTRA")

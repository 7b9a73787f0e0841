"""The file of a history: SQLite in WAL mode, so that other processes read it while one writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from eos.errors import HistoryError
from spark_jobs.observe.history.model import PHASES
from wal.private import private_file

NAME: Final = "history.sqlite"
"""Below `checkpoint.location`."""

APPLICATION_ID: Final = 0x656F7348  # "eosH", in SQLite's header: whose file it is
VERSION: Final = 1

LIFE_BITS: Final = 40
"""`seq` of a checkpoint is `life << LIFE_BITS | checkpoint_id`: unique, and in order over resets as well."""

_BUSY_S: Final = 2.0  # another process writes: for milliseconds, as a rule

PHASE_COLUMNS: Final = tuple(f"{name}_s" for name in PHASES)

_SCHEMA: Final = f"""
CREATE TABLE run (run_id TEXT PRIMARY KEY, host TEXT, pid INTEGER, version TEXT, started_at REAL, ended_at REAL,
    ended TEXT);
CREATE TABLE event (seq INTEGER PRIMARY KEY, at REAL, kind TEXT, message TEXT, error TEXT, remedy TEXT,
    checkpoint_id INTEGER, delay_s REAL, facts TEXT, run_id TEXT);
CREATE TABLE life (life INTEGER PRIMARY KEY, incarnation TEXT UNIQUE, committed INTEGER);
CREATE TABLE checkpoint (seq INTEGER PRIMARY KEY, checkpoint_id INTEGER, epoch INTEGER, attempt INTEGER, session TEXT,
    started_at REAL, decided_at REAL, committed_at REAL, records INTEGER, rows INTEGER, bytes INTEGER, mode TEXT,
    lag INTEGER, replayed INTEGER, {", ".join(f"{column} REAL" for column in PHASE_COLUMNS)});
CREATE INDEX checkpoint_by_time ON checkpoint (decided_at);
CREATE TABLE sink (seq INTEGER, sink TEXT, rows INTEGER, bytes INTEGER, writers INTEGER, variant TEXT,
    committed_at REAL, commit_s REAL, PRIMARY KEY (seq, sink)) WITHOUT ROWID;
CREATE TABLE detail (seq INTEGER PRIMARY KEY, ranges BLOB, acknowledgements BLOB, lag BLOB);
CREATE TABLE aborted (seq INTEGER, epoch INTEGER, attempt INTEGER, aborted_at REAL, error TEXT, reason TEXT,
    PRIMARY KEY (seq, epoch, attempt)) WITHOUT ROWID;
CREATE TABLE total (since REAL, checkpoints INTEGER, records INTEGER, rows INTEGER, bytes INTEGER, aborted INTEGER,
    failures INTEGER, restarts INTEGER, runs INTEGER);
"""


LATER_TABLES: Final = {
    "skipped": "(seq INTEGER, source TEXT, records INTEGER, PRIMARY KEY (seq, source)) WITHOUT ROWID",
    "lag": "(at REAL PRIMARY KEY, records INTEGER) WITHOUT ROWID",
    "expectation": "(seq INTEGER, step TEXT, rule TEXT, action TEXT, rows INTEGER, failed INTEGER, "
    "PRIMARY KEY (seq, step, rule)) WITHOUT ROWID",
    "state": "(seq INTEGER, number INTEGER, step TEXT, operator TEXT, rows INTEGER, updated INTEGER, removed INTEGER, "
    "dropped INTEGER, memory_bytes INTEGER, commit_ms INTEGER, PRIMARY KEY (seq, number)) WITHOUT ROWID",
}
"""Tables that files of earlier versions lack, and that these versions do not read. A missing one is created.

`skipped`: bad records that a source left out of a checkpoint; of `SINCE_BEGUN`, of all checkpoints since the history
began. `lag`: measurements of the lag over all sources. `expectation`: rows of a checkpoint by each rule of a step; of
`SINCE_BEGUN`, of all checkpoints. `state`: by operator, after a checkpoint."""

SINCE_BEGUN: Final = -1

_DAMAGE: Final = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """What goes wrong with the file becomes a HistoryError that names it."""
    try:
        yield
    except (sqlite3.Error, OSError, ValueError) as error:  # ValueError: what stands in it is no text of ours
        message = f"the history {path} cannot be used: {error}"
        raise HistoryError(message, remedy=_remedy(error)) from error


def _remedy(error: BaseException) -> str:
    code = getattr(error, "sqlite_errorcode", None)
    if code in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE}:
        return "free space at the checkpoint location"
    if isinstance(error, OSError) or (code is not None and code & 0xFF not in _DAMAGE):
        return "see that the checkpoint location is there, writable and not full"
    return "it is damaged: move it away, and another one is begun; no decision stands in it"


def connect_to_write(path: Path, now: float) -> sqlite3.Connection:
    """For one thread; the file is made where there is none. Raises HistoryError, also for a file of somebody else."""
    with naming(path):
        with suppress(FileExistsError):  # closing the file of an open database would release its locks
            open(path, "xb", opener=private_file).close()
        connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
        try:
            if not _is_ours(connection, path):
                connection.execute("PRAGMA journal_mode=WAL")
                _create(connection, path, now)
            for name, columns in LATER_TABLES.items():
                connection.execute(f"CREATE TABLE IF NOT EXISTS {name} {columns}")
            # A power cut may take the newest entries, which head still knows, and damages nothing.
            connection.execute("PRAGMA synchronous=NORMAL")
        except BaseException:
            connection.close()
            raise
    return connection


@contextmanager
def connected_to_read(path: Path) -> Iterator[sqlite3.Connection | None]:
    """A connection that changes nothing, for one transaction; None where there is no file, or nothing in it yet."""
    if not path.exists():
        yield None
        return
    with naming(path):
        # Without a log beside it nobody has the file open, and looking at it must leave nothing behind.
        quiet = "" if path.with_name(f"{path.name}-wal").exists() else "&immutable=1"
        uri = f"{path.absolute().as_uri()}?mode=ro{quiet}"
        with closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_S, isolation_level=None)) as connection:
            there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            for name, columns in LATER_TABLES.items():
                if name not in there:
                    connection.execute(f"CREATE TEMP TABLE {name} {columns}")
            connection.execute("BEGIN")
            yield connection if _is_ours(connection, path) else None


def _is_ours(connection: sqlite3.Connection, path: Path) -> bool:
    """False: it is empty. Raises HistoryError where it is something else."""
    owner, version = _pragma(connection, "application_id"), _pragma(connection, "user_version")
    if (owner, version) == (APPLICATION_ID, VERSION):
        return True
    if owner == APPLICATION_ID:
        message = f"the history {path} has format {version}; this version reads {VERSION}"
        raise HistoryError(message, remedy="use the version that wrote it, or move it away: another one is begun")
    if owner or version or connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        message = f"{path} is a database, and not a history of a pipeline"
        raise HistoryError(message, remedy="move it away, and a history is begun in its place")
    return False


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _create(connection: sqlite3.Connection, path: Path, now: float) -> None:
    """Two drivers may be started at once: the first one makes it."""
    connection.execute("BEGIN EXCLUSIVE")
    if not _is_ours(connection, path):
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={VERSION}")
        connection.execute("INSERT INTO total VALUES (?, 0, 0, 0, 0, 0, 0, 0, 0)", (now,))
    connection.execute("COMMIT")

"""The parts of a demo that depend on where it runs: a broker, a topic, a table, and the spec for them."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from spark_jobs.demo import broker

NAME: Final = "eos"
COLUMN: Final = "testcol"
CREATE: Final = f"CREATE TABLE {NAME} ({COLUMN} VARCHAR(255))"
"""A table without a key: a duplicate row shows."""


class DemoError(Exception):
    """A demo that cannot continue. The message has the reason and the remedy."""


class Table(Protocol):
    """The table of the job, read without the code under test."""

    def count(self) -> int:
        """Return the number of visible rows."""

    def rows(self) -> Counter[str]:
        """Return all visible rows."""

    def prepared(self, incarnation: str) -> list[str]:
        """List the prepared transactions of an incarnation of the pipeline."""

    def roll_back(self, incarnation: str) -> None:
        """Roll back the prepared transactions of an incarnation of the pipeline."""


@dataclass(frozen=True, slots=True)
class Place:
    """A topic that accepts records, and an empty table."""

    description: str
    bootstrap: str
    topic: str
    spec: str  # a file of the example
    database: str  # DATABASE of the spec
    table: Table


class SqliteTable:
    """A table in a SQLite file, which has no prepared transactions."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def create(self) -> None:
        """Create the file and the table."""
        with closing(sqlite3.connect(self._path)) as connection:
            connection.execute(CREATE)

    def count(self) -> int:
        """Return the number of visible rows."""
        return int(self._select("COUNT(*)")[0][0])

    def rows(self) -> Counter[str]:
        """Return all visible rows."""
        return Counter(str(row[0]) for row in self._select(COLUMN))

    def prepared(self, _incarnation: str) -> list[str]:
        """Return nothing."""
        return []

    def roll_back(self, _incarnation: str) -> None:
        """Do nothing."""

    def _select(self, columns: str) -> list[tuple[str | int, ...]]:
        with closing(sqlite3.connect(self._path, timeout=30)) as connection:
            return connection.execute(f"SELECT {columns} FROM {NAME}").fetchall()


@contextmanager
def embedded(folder: Path) -> Iterator[Place]:
    """Run an embedded broker and create a SQLite table for this block. Raises DemoError."""
    log, database = folder / "broker.log", folder / "eos.db"
    table = SqliteTable(database)
    with broker.running(log) as bootstrap:
        if not bootstrap:
            message = f"the embedded broker did not start: see {log}"
            raise DemoError(message)
        table.create()
        description = f"an embedded broker (librdkafka's mock cluster) at {bootstrap} and SQLite"
        yield Place(description, bootstrap, "eos", "pipeline-sqlite.yaml", str(database), table)

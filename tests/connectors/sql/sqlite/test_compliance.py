"""The SQLite sink by the tests that ship with the framework."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from connectors.api.contracts import Sink
from connectors.log.keyed import Upsert
from connectors.log.place import LogPlace
from connectors.sql.sqlite.sink import SqliteSink
from connectors.testing.compliance import SinkCompliance, UpsertCompliance
from connectors.testing.rows import Row
from connectors.testing.target import Target, leave_in_log


@dataclass
class _SqliteTarget:
    """See Target."""

    path: Path
    log: LogPlace
    keyed: bool = False

    def __post_init__(self) -> None:
        with closing(sqlite3.connect(self.path)) as connection:
            connection.execute(f"CREATE TABLE compliance (n INTEGER {'PRIMARY KEY' if self.keyed else ''}, text TEXT)")

    def sink(self, name: str) -> Sink:
        return SqliteSink(name, self.path, "compliance", self.log, Upsert(("n",), "gone") if self.keyed else None)

    def rows(self) -> Counter[Row]:
        with closing(sqlite3.connect(self.path)) as connection:
            return Counter((int(n), text) for n, text in connection.execute("SELECT n, text FROM compliance"))

    def leave_foreign(self) -> Callable[[], None] | None:
        return leave_in_log(self.log.open())


class TestSqliteUpsert(UpsertCompliance):
    """SQLite by merging."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> Target:
        return _SqliteTarget(tmp_path / "t.db", LogPlace(tmp_path / "log"), keyed=True)


class TestSqliteLog(SinkCompliance):
    """SQLite by the write-ahead log."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> Target:
        return _SqliteTarget(tmp_path / "t.db", LogPlace(tmp_path / "log"))

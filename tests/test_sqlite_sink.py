"""The SQLite sink with real files and real SQLite: what is committed is in the table once, whatever happens before."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from connectors.sql.sqlite_committer import SqliteCommitter
from connectors.sql.sqlite_sink import SqliteSink
from twophase.ids import Scope, TransactionId, sink_key
from twophase.values import CommitOutcome, Committable

ME = "a" * 20
OTHER = "b" * 20
SCHEMA = pa.schema([("id", pa.int64()), ("word", pa.string())])
COMMITTED, ALREADY = CommitOutcome.COMMITTED, CommitOutcome.ALREADY_COMMITTED


def rows(*ids: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(ids, pa.int64()), pa.array([f"w{i}" for i in ids])], schema=SCHEMA)


@dataclass
class World:
    """One database and one log folder, and the calls that a driver and its tasks make on them."""

    folder: Path
    attempts: int = 0
    sink: SqliteSink = field(init=False)

    def __post_init__(self) -> None:
        self.execute("CREATE TABLE target (id INTEGER, word TEXT)")
        self.sink = SqliteSink("warehouse", self.database, "target", self.folder / "log").open(SCHEMA)

    @property
    def database(self) -> Path:
        return self.folder / "a b?%23.db"  # hostile to a URI

    @property
    def files(self) -> list[str]:
        log = self.folder / "log"
        return sorted(path.name for path in log.iterdir()) if log.exists() else []

    def execute(self, statement: str) -> list[tuple[object, ...]]:
        connection = sqlite3.connect(self.database)
        try:
            with connection:
                return connection.execute(statement).fetchall()
        finally:
            connection.close()

    def ids(self) -> list[object]:
        return [row[0] for row in self.execute("SELECT id FROM target ORDER BY id")]

    def transaction(self, checkpoint_id: int, epoch: int = 1, incarnation: str = ME) -> TransactionId:
        self.attempts += 1
        return TransactionId(Scope(incarnation, epoch, checkpoint_id), sink_key("warehouse"), 0, self.attempts)

    def prepare(self, checkpoint_id: int, *ids: int, epoch: int = 1, incarnation: str = ME) -> Committable:
        writer = self.sink.writer(self.transaction(checkpoint_id, epoch, incarnation))
        if ids:
            writer.write(rows(*ids))
        return writer.prepare()

    def driver(self, epoch: int = 1, incarnation: str = ME) -> SqliteCommitter:
        committer = self.sink.committer("orders")
        committer.inspect(incarnation, ())
        committer.claim(incarnation, epoch)
        return committer


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    return World(tmp_path)


def run(committer: SqliteCommitter, checkpoint_id: int, *committables: Committable) -> Sequence[CommitOutcome]:
    committer.permit(Scope(ME, 1, checkpoint_id))
    return committer.commit(checkpoint_id, committables)


def test_rows_become_visible_with_the_commit_and_not_before(world: World) -> None:
    committer = world.driver()
    first, second, empty = world.prepare(0, 1, 2), world.prepare(0, 3), world.prepare(0)
    assert world.ids() == []
    assert len(world.files) == 2
    assert first.data.keys() == {"segment", "sha256"}
    assert not empty.data
    assert run(committer, 0, first, second, empty) == [COMMITTED] * 3
    assert world.ids() == [1, 2, 3]
    assert world.files == []
    assert committer.inspect(ME, (first, second, empty)).missing == ()


def test_a_second_commit_adds_nothing(world: World) -> None:
    committer, one = world.driver(), world.prepare(0, 1)
    run(committer, 0, one)
    again = world.sink.committer("orders")
    again.inspect(ME, ())
    assert again.commit(0, [one]) == [ALREADY]
    assert world.ids() == [1]

"""Rows that a constraint refuses when the log is applied: dead letters in the transaction that moves the slot."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connectors.dead_letters import SCHEMA
from connectors.log.committer import LogCommitter
from connectors.log.keyed import Upsert
from connectors.log.place import LogPlace
from connectors.registry import build_sink
from connectors.spec import Spec, guarantees, load_spec
from connectors.sql.sqlite.sink import SqliteSink
from eos.errors import BadRowError, ConnectorError, TargetError, TooManyBadRowsError
from twophase import faults
from twophase.ids import Scope, TransactionId, sink_key
from twophase.values import CommitOutcome, Committable
from wal.testing import files_in

COMMITTED, ALREADY = CommitOutcome.COMMITTED, CommitOutcome.ALREADY_COMMITTED
ROWS = pa.schema([("id", pa.int64()), ("word", pa.string()), ("_offset", pa.int64()), ("_partition", pa.int32())])
LIFE = "life".ljust(20, "0")


@dataclass
class World:
    """A table that takes no id ending in 7, and the dead letters beside it."""

    folder: Path
    upsert: Upsert | None = None
    most: int = 100
    sink: SqliteSink = field(init=False)

    def __post_init__(self) -> None:
        self.query("CREATE TABLE t (id INTEGER NOT NULL, word TEXT, CHECK (id % 10 <> 7))")
        if self.upsert is not None:
            self.query("CREATE UNIQUE INDEX by_id ON t (id)")
        place = LogPlace(self.folder / "log")
        letters = SqliteSink("dead_letter", self.database, "letters", place, create=True)
        sink = SqliteSink("s", self.database, "t", place, self.upsert, letters=letters, most_letters=self.most)
        self.sink = sink.open(ROWS if self.upsert else ROWS.remove(3).remove(2))

    @property
    def database(self) -> Path:
        return self.folder / "t.db"

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.database)) as connection, connection:
            return connection.execute(statement).fetchall()

    def make_letters(self) -> None:
        """As a start does when it builds the query."""
        assert self.sink.letters is not None
        self.sink.letters.open(SCHEMA)

    def committer(self) -> LogCommitter:
        committer = self.sink.committer("p")
        committer.inspect(LIFE, ())
        return committer

    def prepared(self, committer: LogCommitter, checkpoint_id: int, *ids: int) -> list[Committable]:
        scope = Scope(LIFE, 1, checkpoint_id)
        committer.permit(scope)
        writer = self.sink.writer(TransactionId(scope, sink_key("s"), 0, checkpoint_id + 1))
        for at in range(0, len(ids), 8):
            writer.write(_batch(ids[at : at + 8], checkpoint_id).select(list(self.sink.columns)))
        return [writer.prepare()]

    @property
    def ids(self) -> list[int]:
        return sorted(number for (number,) in self.query("SELECT id FROM t"))

    @property
    def letters(self) -> list[tuple[int, int]]:
        """Checkpoint and id of each, as the row in its value says."""
        rows = self.query("SELECT checkpoint_id, value, sink, error FROM letters")
        assert all((sink, "CHECK constraint failed" in error) == ("s", True) for *_, sink, error in rows)
        return sorted((checkpoint, json.loads(value)["id"]) for checkpoint, value, *_ in rows)


def _batch(ids: Sequence[int], checkpoint_id: int) -> pa.RecordBatch:
    words, offsets = [f"word {number}" for number in ids], [checkpoint_id * 1000 + at for at, _ in enumerate(ids)]
    return pa.record_batch([pa.array(ids), words, offsets, pa.array([0] * len(ids), pa.int32())], schema=ROWS)


def _claimed(world: World) -> LogCommitter:
    committer = world.committer()
    committer.claim(LIFE, 1)
    return committer


@pytest.mark.parametrize("upsert", [None, Upsert(("id",), by_topic=False)], ids=["added", "merged"])
def test_a_refused_row_is_a_letter_and_the_others_are_there(tmp_path: Path, upsert: Upsert | None) -> None:
    world = World(tmp_path, upsert)
    world.make_letters()
    committer = _claimed(world)
    first = world.prepared(committer, 0, *range(40))
    assert committer.commit(0, first) == [COMMITTED]
    assert world.ids == [n for n in range(40) if n % 10 != 7]
    assert world.letters == [(0, 7), (0, 17), (0, 27), (0, 37)]
    for other in (committer, world.committer()):  # of this process, and of one that comes later
        assert other.commit(0, first) == [ALREADY]
    assert committer.commit(1, world.prepared(committer, 1, 107, 108)) == [COMMITTED]
    assert (len(world.ids), world.letters[4:]) == (37, [(1, 107)])
    assert committer.commit(2, world.prepared(committer, 2, 200)) == [COMMITTED]
    assert (len(world.ids), len(world.letters)) == (38, 5)
    assert world.query("SELECT checkpoint_id FROM eos_slot") == [(2,)]
    assert files_in(tmp_path / "log") == []


@pytest.mark.parametrize(
    ("made_of_a_row", "said"),
    [
        ("json_extract('{' || id, '$.a')", "malformed JSON"),
        ("abs(-9223372036854775807 - (id <> 8))", "integer overflow"),
    ],
)
def test_a_row_that_a_generated_column_cannot_be_made_of_is_a_letter(
    tmp_path: Path, made_of_a_row: str, said: str
) -> None:
    """SQLite has one code for it and for what is wrong with a statement."""
    world = World(tmp_path)
    world.query("DROP TABLE t")
    column = f"CASE WHEN id % 2 THEN {made_of_a_row} END"
    world.query(f"CREATE TABLE t (id INTEGER NOT NULL, word TEXT, made GENERATED ALWAYS AS ({column}) STORED)")
    world.make_letters()
    committer = _claimed(world)
    assert committer.commit(0, world.prepared(committer, 0, 6, 7, 8)) == [COMMITTED]
    assert world.ids == [6, 8]
    ((value, error),) = world.query("SELECT value, error FROM letters")
    assert (json.loads(value)["id"], said in error) == (7, True)


def test_a_crash_within_it_leaves_neither_row_nor_letter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    world.make_letters()
    committer = _claimed(world)
    first = world.prepared(committer, 0, 6, 7, 8)

    class Crash(BaseException):
        pass

    def crash(name: str, _checkpoint: int, _sink: str = "") -> None:
        if name == "applying":
            raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(faults, "point", crash)
        with pytest.raises(Crash):
            committer.commit(0, first)
    assert (world.ids, world.letters) == ([], [])
    assert world.committer().commit(0, first) == [COMMITTED]
    assert (world.ids, world.letters) == ([6, 8], [(0, 7)])


@pytest.mark.parametrize(("most", "error"), [(1, TooManyBadRowsError), (2, None)])
def test_too_many_stop_it_and_are_applied_after_the_change(
    tmp_path: Path, most: int, error: type[ConnectorError] | None
) -> None:
    world = World(tmp_path, most=most)
    world.make_letters()
    committer = _claimed(world)
    first = world.prepared(committer, 0, *range(20))
    if error is not None:
        with pytest.raises(error, match="more than 1 dead letters"):
            committer.commit(0, first)
        assert (world.ids, world.letters) == ([], [])
        world.sink = replace(world.sink, most_letters=2)
        committer = world.committer()
    assert committer.commit(0, first) == [COMMITTED]
    assert (len(world.ids), world.letters) == (18, [(0, 7), (0, 17)])


def test_a_letter_that_is_refused_is_no_row_of_the_sink(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.make_letters()
    world.query("CREATE UNIQUE INDEX one_of_a_sink ON letters (sink)")
    committer = _claimed(world)
    first = world.prepared(committer, 0, 7, 17, 18)
    with pytest.raises(TargetError, match=r"dead_letter, table letters, refuses a dead letter: .*UNIQUE"):
        committer.commit(0, first)
    assert (world.ids, world.letters) == ([], [])
    world.query("DROP INDEX one_of_a_sink")
    assert committer.commit(0, first) == [COMMITTED]
    assert (world.ids, world.letters) == ([18], [(0, 7), (0, 17)])


def test_a_trigger_that_ends_the_transaction_is_named(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.make_letters()
    trigger = "CREATE TRIGGER refuse BEFORE INSERT ON t WHEN new.id = 8 BEGIN SELECT RAISE({}, 'no eight'); END"
    world.query(trigger.format("ROLLBACK"))
    committer = _claimed(world)
    first = world.prepared(committer, 0, 6, 8)
    with pytest.raises(ConnectorError, match=r"RAISE\(ABORT, …\), not RAISE\(ROLLBACK"):
        committer.commit(0, first)
    assert (world.ids, world.query("SELECT count(*) FROM letters")) == ([], [(0,)])
    world.query("DROP TRIGGER refuse")
    world.query(trigger.format("ABORT"))
    assert committer.commit(0, first) == [COMMITTED]
    assert (world.ids, world.query("SELECT count(*) FROM letters")) == ([6], [(1,)])


def test_without_a_table_for_letters_nothing_is_applied(tmp_path: Path) -> None:
    """It was dropped by hand: the next start, which applies before it opens the sinks, says so."""
    world = World(tmp_path)
    committer = _claimed(world)
    first = world.prepared(committer, 0, 6, 7)
    with pytest.raises(TargetError, match="letters"):
        committer.commit(0, first)
    assert world.ids == []
    world.sink = replace(world.sink, letters=None)
    with pytest.raises(BadRowError, match="CHECK constraint failed"):
        world.committer().commit(0, first)
    assert world.ids == []
    world.sink = replace(world.sink, letters=SqliteSink("dead_letter", world.database, "letters", world.sink.log))
    world.query("CREATE TABLE letters AS SELECT * FROM (SELECT 1) WHERE 0")
    world.query("DROP TABLE letters")
    assert world.sink.letters is not None
    replace(world.sink.letters, create=True).open(SCHEMA)
    world.sink = replace(world.sink, most_letters=1)
    assert world.committer().commit(0, first) == [COMMITTED]
    assert (world.ids, world.letters) == ([6], [(0, 7)])


_SPEC = """\
pipeline: p
checkpoint: {location: state}
sources: [{name: s, connector: kafka, bootstrap_servers: 'k:1', topics: [t], format: {type: string}}]
sinks:
  - {name: out, from: s, connector: postgresql, url: '%s', table: t, commit: %s}
dead_letter: {%s}
"""
_HERE, _THERE = "postgresql://u:p@db/shop", "postgresql://u:p@other/shop"
_TABLE = "connector: postgresql, url: '%s', table: bad, commit: two-phase"


@pytest.mark.parametrize(
    ("commit", "letter", "beside"),
    [
        ("write-ahead-log", _TABLE % _HERE, True),
        ("two-phase", _TABLE % _HERE, False),
        ("write-ahead-log", _TABLE % _THERE, False),
        ("write-ahead-log", "connector: kafka, bootstrap_servers: 'k:1', topic: bad", False),
        ("write-ahead-log", "connector: sqlite, path: x.db, table: bad, commit: write-ahead-log", False),
    ],
)
def test_only_beside_the_dead_letters(tmp_path: Path, commit: str, letter: str, beside: bool) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(_SPEC % (_HERE, commit, letter))
    spec = load_spec(path, {})
    sink: Any = build_sink(spec, spec.sinks[0])
    assert (sink.letters is not None) is beside
    assert spec.dead_letter is not None
    letters: Any = build_sink(spec, spec.dead_letter)
    assert getattr(letters, "letters", None) is None
    if beside:
        assert (sink.letters.table, sink.most_letters) == ("bad", spec.checkpoint.max_dead_letters)
    limits = _limits(spec)
    assert ("it goes to dead_letter" in limits, "the pipeline stops there" in limits) == (
        (beside, not beside) if commit != "two-phase" else (False, False)
    )


def _limits(spec: Spec) -> str:
    (own, _) = guarantees(spec)
    return " ".join(limit for limit in own.limits if "constraint" in limit)

"""The SQLite sink with real files and real SQLite: what is committed is in the table once, whatever happens before."""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest

from connectors.log.committer import LogCommitter
from connectors.log.ledger import Share
from connectors.log.place import LogPlace
from connectors.sql.log.apply import Target, apply_share
from connectors.sql.sqlite.sink import SqliteSink
from connectors.sql.sqlite.store import SqliteStore
from connectors.testing.files import files_in
from eos.errors import (
    BadRowError,
    FencedError,
    IdentityError,
    LostCommittableError,
    PrepareError,
    SetBackError,
    SinkUnavailableError,
    TargetError,
)
from twophase.ids import Scope, TransactionId, sink_key
from twophase.values import CommitOutcome, Committable
from wal.segment import SegmentRef, stat_segment
from wal.storage import Storage

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
        self.sink = SqliteSink("warehouse", self.database, "target", LogPlace(self.folder / "log")).open(SCHEMA)

    @property
    def database(self) -> Path:
        return self.folder / "a b?%23.db"  # hostile to a URI

    @property
    def files(self) -> list[str]:
        log = self.folder / "log"
        return [str(path.relative_to(log)) for path in files_in(log)]

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

    def flat(self, committable: Committable) -> Committable:
        """As earlier versions laid its segment."""
        name = committable.data["segment"]
        (self.folder / "log" / name).rename(self.folder / "log" / Path(name).name)
        return replace(committable, data={**committable.data, "segment": Path(name).name})

    def driver(self, epoch: int = 1, incarnation: str = ME, begins: int = -1) -> LogCommitter:
        committer = self.sink.committer("orders")
        committer.inspect(incarnation, ())
        committer.claim(incarnation, epoch, begins=begins)
        return committer


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def run(committer: LogCommitter, checkpoint_id: int, *committables: Committable) -> Sequence[CommitOutcome]:
    committer.permit(Scope(ME, 1, checkpoint_id))
    return committer.commit(checkpoint_id, committables)


def test_rows_become_visible_with_the_commit_and_not_before(world: World) -> None:
    committer = world.driver()
    first, second, empty = world.prepare(0, 1, 2), world.prepare(0, 3), world.prepare(0)
    assert world.ids() == []
    assert len(world.files) == 2
    assert first.data.keys() == {"slots", "segment", "rows", "sha256"}
    assert empty.data.keys() == {"slots"}
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


def test_a_checkpoint_without_rows_moves_the_witness(world: World) -> None:
    committer = world.driver()
    assert run(committer, 0) == []
    assert run(committer, 1, world.prepare(1)) == [COMMITTED]
    assert committer.inspect(ME, ()).highest_witness == 1
    assert run(committer, 2, world.prepare(2, 7)) == [COMMITTED]
    assert world.ids() == [7]


def test_a_missing_segment_is_lost_and_nothing_is_applied(world: World) -> None:
    committer = world.driver()
    here, gone = world.prepare(0, 1), world.prepare(0, 2)
    (world.folder / "log" / gone.data["segment"]).rename(world.folder / "aside")
    assert run(committer, 0, here, gone) == [CommitOutcome.LOST, CommitOutcome.LOST]  # so that all can still be
    assert world.ids() == []
    assert committer.inspect(ME, ()).highest_witness == -1
    (world.folder / "aside").rename(world.folder / "log" / gone.data["segment"])
    assert run(committer, 0, here, gone) == [COMMITTED, COMMITTED]
    assert world.ids() == [1, 2]


@pytest.mark.parametrize("position", [100, -40])
def test_a_damaged_segment_stops_with_its_name_and_nothing_is_applied(world: World, position: int) -> None:
    committer = world.driver()
    sound, damaged = world.prepare(0, 1), world.prepare(0, 2)
    path = world.folder / "log" / damaged.data["segment"]
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)
    with pytest.raises(LostCommittableError, match=damaged.data["segment"]) as caught:
        run(committer, 0, sound, damaged)
    assert "restore it from a backup" in caught.value.remedy
    assert world.ids() == []
    assert path.exists()
    content[position] ^= 1
    path.write_bytes(content)
    assert run(committer, 0, sound, damaged) == [COMMITTED, COMMITTED]


def test_checkpoints_are_applied_one_after_the_other(world: World) -> None:
    committer = world.driver()
    run(committer, 0, world.prepare(0, 1))
    with pytest.raises(IdentityError, match="slot 0 stands at checkpoint 0, and everything up to 1 was committed"):
        committer.permit(Scope(ME, 1, 2))
    with pytest.raises(IdentityError, match="slot 0, stands at checkpoint 0 and is asked to apply checkpoint 2"):
        committer.commit(2, [world.prepare(2, 3)])
    assert world.ids() == [1]


def test_a_slot_that_somebody_has_deleted_applies_nothing(world: World) -> None:
    """Another slot tells what the sink has counted, which is less: then this one has not applied it before."""
    world.sink = replace(world.sink, log=LogPlace(world.folder / "log", slots=2))
    run(world.driver(), 0, world.prepare(0, 1))
    world.execute("DELETE FROM eos_slot WHERE slot = 0")
    share, target = Share(ME, 1, 1, 0, [world.prepare(1, 2)]), Target("orders", "warehouse", "target")
    with (
        closing(SqliteStore(world.database)) as store,
        pytest.raises(IdentityError, match="slot 0, knows of no checkpoint"),
    ):
        apply_share(store, world.sink.log.open(), target, share)
    assert world.ids() == [1]


def test_a_sink_that_joins_later_starts_where_it_is_first_claimed(world: World) -> None:
    committer = world.driver(begins=10)
    assert run(committer, 11, world.prepare(11, 1)) == [COMMITTED]
    assert committer.inspect(ME, ()).highest_witness == 11
    assert run(committer, 12, world.prepare(12, 2)) == [COMMITTED]


def test_the_driver_has_made_the_folder_in_the_log_before_tasks_write(world: World) -> None:
    committer, folder = world.driver(), world.folder / "log" / ME / sink_key("warehouse")
    assert not folder.exists()
    committer.permit(Scope(ME, 1, 0))
    assert folder.is_dir()
    folder.rmdir()  # as it is where a log was restored without it
    committer.permit_rewrite(Scope(ME, 1, 0))
    assert folder.is_dir()


def test_a_database_that_was_replaced_is_noticed(world: World) -> None:
    committer, one = world.driver(), world.prepare(5, 1)
    with pytest.raises(IdentityError, match="stands at checkpoint -1"):
        committer.commit(5, [one])
    assert world.ids() == []


def test_the_history_tells_other_transactions_of_an_applied_checkpoint(world: World) -> None:
    committer, applied, stranger = world.driver(), world.prepare(0, 1), world.prepare(0, 2)
    run(committer, 0, applied)
    assert committer.commit(0, [applied, stranger]) == [ALREADY, CommitOutcome.LOST]
    assert committer.inspect(ME, [applied, stranger]).missing == (stranger.transaction,)
    assert committer.commit(0, [stranger]) == [CommitOutcome.LOST]
    run(committer, 1, world.prepare(1, 3))
    committer.prune(ME, 1)
    assert committer.commit(0, [applied]) == [ALREADY]


def test_h33_a_log_says_what_it_has_not_of_the_newest_checkpoint(world: World) -> None:
    """No task had rows of it the first time: no witness stands. A driver that was set back gives it rows."""
    committer, stranger = world.driver(), world.prepare(0, 1)
    run(committer, 0)
    assert committer.commit(0, [stranger], own=True) == [CommitOutcome.LOST]
    run(committer, 1)
    with pytest.raises(SetBackError, match="already has checkpoint 1, which this driver is only about to"):
        committer.commit(0, [stranger], own=True)
    assert world.ids() == []


def test_a_claim_fences_the_older_epoch(world: World) -> None:
    old, one = world.driver(epoch=1), world.prepare(0, 1)
    old.permit(Scope(ME, 1, 0))
    new = world.driver(epoch=2)
    for call in (lambda: old.permit(Scope(ME, 1, 0)), lambda: old.commit(0, [one]), lambda: old.claim(ME, 1)):
        with pytest.raises(FencedError, match="epoch 2"):
            call()
    assert world.ids() == []
    assert new.inspect(ME, ()).claim_epoch == 2


def test_recovery_commits_before_it_claims(world: World) -> None:
    old, one = world.driver(epoch=1), world.prepare(0, 1)
    old.permit(Scope(ME, 1, 0))
    new = world.sink.committer("orders")
    new.inspect(ME, ())
    assert new.commit(0, [one]) == [COMMITTED]
    new.claim(ME, 2)
    assert world.ids() == [1]


def test_another_incarnation_is_refused_unless_it_takes_over(world: World) -> None:
    old, one = world.driver(), world.prepare(0, 1)
    old.permit(Scope(ME, 1, 0))
    other = world.sink.committer("orders")
    state = other.inspect(OTHER, ())
    assert (state.claim_incarnation, state.claim_epoch, state.highest_witness) == (ME, 1, -1)
    with pytest.raises(IdentityError, match="eos reset"):
        other.claim(OTHER, 1)
    other.claim(OTHER, 1, take_over=True)
    with pytest.raises(FencedError):
        old.commit(0, [one])
    other.permit(Scope(OTHER, 1, 0))
    assert other.commit(0, [world.prepare(0, 9, incarnation=OTHER)]) == [COMMITTED]
    assert world.ids() == [9]


def test_another_pipeline_in_the_same_database_is_left_alone(world: World) -> None:
    mine, other = world.driver(), world.sink.committer("payments")
    other.inspect(OTHER, ())
    other.claim(OTHER, 7)
    waiting = world.prepare(0, 5, incarnation=OTHER)
    run(mine, 0, world.prepare(0, 1))
    assert mine.prepared(ME) == []
    mine.prune(ME, 100)
    other.permit(Scope(OTHER, 7, 0))
    assert other.commit(0, [waiting]) == [COMMITTED]


def test_what_is_prepared_is_listed_until_it_is_applied_or_aborted(world: World) -> None:
    committer = world.driver()
    run(committer, 0, world.prepare(0, 1))
    waiting, other = world.prepare(1, 2), world.prepare(1, 3)
    (world.folder / "log" / "README").write_text("somebody's")
    listed = {each.transaction: each for each in committer.prepared(ME)}
    assert listed.keys() == {waiting.transaction, other.transaction, None}
    assert listed[waiting.transaction].committable == waiting
    committer.abort([listed[other.transaction], listed[None]])
    committer.abort([listed[other.transaction]])
    assert {each.transaction for each in committer.prepared(ME)} == {waiting.transaction, None}
    assert run(committer, 1, waiting) == [COMMITTED]
    assert world.files == ["README"]


def test_a_close_looks_at_nothing_that_waits_for_a_later_checkpoint(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of hundreds that wait, each would be opened at each close: in an object store, a request each."""
    committer = world.driver()
    run(committer, 0, world.prepare(0, 1))
    waiting, loser = [world.prepare(number, number) for number in range(1, 5)], world.prepare(1, 9)
    opened: list[str] = []

    def opening(storage: Storage, name: str) -> SegmentRef:
        opened.append(name)
        return stat_segment(storage, name)

    monkeypatch.setattr("connectors.log.committer.stat_segment", opening)
    assert {each.transaction for each in committer.prepared(ME, 1)} == {waiting[0].transaction, loser.transaction}
    assert committer.prepared(ME, 7) == []
    assert set(opened) == {waiting[0].data["segment"], loser.data["segment"]}


def test_a_damaged_segment_can_be_listed_and_aborted(world: World) -> None:
    committer, one = world.driver(), world.prepare(0, 1)
    (world.folder / "log" / one.data["segment"]).write_bytes(b"short")
    (listed,) = committer.prepared(ME)
    assert listed.committable is None
    assert "cut off" in listed.description
    committer.abort([listed])
    assert committer.prepared(ME) == []


def test_what_an_earlier_version_wrote_side_by_side_is_found_by_the_next_start(world: World) -> None:
    """Its segments lay in no folder: decided ones are applied where they are, the others are given up."""
    applied, waiting, left = (world.flat(world.prepare(number, 10 + number)) for number in range(3))
    begun = world.folder / "log" / f".{left.data['segment']}.00000000.unfinished"
    begun.touch()
    older = world.driver()
    assert run(older, 0, applied) == [COMMITTED]
    assert run(older, 1, waiting) == [COMMITTED]
    older.close()
    assert len(world.files) == 4, "a checkpoint looks nowhere but in its sink's folder"
    committer = world.driver(epoch=2)
    assert world.files == [left.data["segment"]], "what is begun and what is applied are gone"
    listed = committer.prepared(ME)
    assert [each.transaction for each in listed] == [left.transaction]
    committer.abort(listed)
    assert (world.files, world.ids()) == ([], [10, 11])


def test_what_others_wrote_side_by_side_stays(world: World) -> None:
    """Another pipeline's, and another sink's of this one: earlier versions had no folders."""
    of_pipeline = world.flat(world.prepare(0, 7, incarnation=OTHER))
    sink = replace(world.sink, name="archive")
    writer = sink.writer(TransactionId(Scope(ME, 1, 0), sink_key("archive"), 0, 9))
    writer.write(rows(8))
    of_sink = world.flat(writer.prepare())
    others = sorted(each.data["segment"] for each in (of_pipeline, of_sink))
    committer = world.driver()
    assert run(committer, 0, world.prepare(0, 1)) == [COMMITTED]
    assert world.driver(epoch=2).prepared(ME) == []
    assert (world.files, world.ids()) == (others, [1])


def test_segments_of_applied_checkpoints_are_garbage(world: World) -> None:
    """A crash between the local transaction and the removal; a sibling that lost; a zombie that still writes."""
    committer = world.driver()
    applied, loser = world.prepare(0, 1), world.prepare(0, 1)
    kept = (world.folder / "log" / applied.data["segment"]).read_bytes()
    zombie = world.sink.writer(world.transaction(0))
    zombie.write(rows(1))
    run(committer, 0, applied)
    assert world.files == []
    assert loser.data["segment"] not in world.files
    with pytest.raises(PrepareError, match="swept away"):
        zombie.prepare()
    zombie.abort()
    (world.folder / "log" / applied.data["segment"]).write_bytes(kept)
    assert committer.prepared(ME) == []
    assert world.files == [applied.data["segment"]]  # a listing changes nothing
    committer.claim(ME, 1)
    assert world.files == []
    (world.folder / "log" / applied.data["segment"]).write_bytes(kept)
    committer.prune(ME, 1)
    assert world.files == []
    assert world.ids() == [1]


def test_prune_never_touches_what_is_not_applied(world: World) -> None:
    committer = world.driver()
    run(committer, 0, world.prepare(0, 1))
    waiting = world.prepare(1, 2)
    committer.prune(ME, 1000)
    assert run(committer, 1, waiting) == [COMMITTED]


def test_nobody_aborts_what_is_applied_or_of_a_newer_epoch(world: World) -> None:
    old, one = world.driver(epoch=1), world.prepare(0, 1)
    (applied,) = old.prepared(ME)
    run(old, 0, one)
    with pytest.raises(IdentityError, match="which is applied"):
        old.abort([applied])
    new = world.driver(epoch=2)
    newer = world.prepare(1, 2, epoch=2)
    with pytest.raises(FencedError, match="newer epoch"):
        old.abort(new.prepared(ME))
    new.permit(Scope(ME, 2, 1))
    assert new.commit(1, [newer]) == [COMMITTED]


def test_a_claim_ends_the_writers_of_older_epochs(world: World) -> None:
    world.driver(epoch=1)
    zombie = world.sink.writer(world.transaction(0, epoch=1))
    zombie.write(rows(1))
    world.driver(epoch=2)
    with pytest.raises(PrepareError, match="swept away"):
        zombie.prepare()


def test_an_abort_spares_the_writers_of_its_own_epoch(world: World) -> None:
    committer, one = world.driver(epoch=2), world.prepare(0, 1, epoch=2)
    alive = world.sink.writer(world.transaction(0, epoch=2))
    alive.write(rows(2))
    (listed,) = committer.prepared(ME)
    assert listed.committable == one
    committer.abort([listed])
    assert alive.prepare().rows == 1


def test_an_aborted_writer_leaves_nothing(world: World) -> None:
    writer = world.sink.writer(world.transaction(0))
    writer.write(rows(1))
    writer.abort()
    writer.abort()
    assert world.files == []
    world.sink.writer(world.transaction(0)).abort()


def test_committables_of_another_checkpoint_or_sink_are_refused(world: World) -> None:
    committer, one = world.driver(), world.prepare(1, 1)
    other = replace(one, transaction=replace(one.transaction, sink=sink_key("elsewhere")))
    for wrong in ((0, one), (1, other)):
        with pytest.raises(IdentityError, match="is not of checkpoint"):
            committer.commit(wrong[0], [wrong[1]])
    with pytest.raises(IdentityError, match="was not prepared for the write-ahead log"):
        committer.commit(1, [replace(one, data={})])
    with pytest.raises(IdentityError, match="inspect or claim"):
        world.sink.committer("orders").commit(0, [])


def test_a_locked_database_is_unavailable_and_nothing_is_lost(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.sql.sqlite.database.BUSY_TIMEOUT_S", 0.05)
    committer, one = world.driver(), world.prepare(0, 1)
    committer.permit(Scope(ME, 1, 0))
    blocker = sqlite3.connect(world.database, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(SinkUnavailableError, match="locked"):
        committer.commit(0, [one])
    blocker.execute("ROLLBACK")
    blocker.close()
    assert committer.commit(0, [one]) == [COMMITTED]


def test_a_reader_that_blocks_the_commit_itself_is_waited_for_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a rollback journal COMMIT waits for readers: then nothing is applied, and the lock is given back."""
    monkeypatch.setattr("connectors.sql.sqlite.database.BUSY_TIMEOUT_S", 0.05)
    committer, one = world.driver(), world.prepare(0, 1)
    committer.permit(Scope(ME, 1, 0))
    reader = sqlite3.connect(world.database, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM target").fetchall()
    with pytest.raises(SinkUnavailableError, match="locked"):
        committer.commit(0, [one])
    reader.execute("ROLLBACK")
    reader.close()
    assert world.ids() == []
    assert committer.commit(0, [one]) == [COMMITTED]
    assert world.ids() == [1]


def test_a_constraint_undoes_the_whole_checkpoint(world: World) -> None:
    world.execute("CREATE UNIQUE INDEX once ON target (id)")
    committer = world.driver()
    first, second = world.prepare(0, 1, 2), world.prepare(0, 2)
    with pytest.raises(BadRowError, match="UNIQUE constraint failed"):
        run(committer, 0, first, second)
    assert world.ids() == []
    world.execute("DROP INDEX once")
    assert run(committer, 0, first, second) == [COMMITTED, COMMITTED]
    assert world.ids() == [1, 2, 2]


@pytest.mark.parametrize("conflict", ["IGNORE", "REPLACE"])
def test_no_conflict_clause_of_the_table_swallows_rows(tmp_path: Path, conflict: str) -> None:
    world = World(tmp_path)
    world.execute("DROP TABLE target")
    world.execute(f"CREATE TABLE target (id INTEGER UNIQUE ON CONFLICT {conflict}, word TEXT)")
    committer = world.driver()
    with pytest.raises(BadRowError, match="UNIQUE constraint failed"):
        run(committer, 0, world.prepare(0, 1), world.prepare(0, 1))
    assert world.ids() == []


def test_a_trigger_that_drops_rows_is_noticed(world: World) -> None:
    world.execute(
        "CREATE TRIGGER drops BEFORE INSERT ON target WHEN NEW.id = 2 BEGIN SELECT RAISE(IGNORE); END",
    )
    with pytest.raises(BadRowError, match="took 2 of 3 rows"):
        run(world.driver(), 0, world.prepare(0, 1, 2, 3))
    assert world.ids() == []


def test_a_read_only_database_shows_the_tables_to_create(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("connectors.sql.sqlite.database.MODE", "ro")
        with pytest.raises(TargetError, match=r"may not be created here: .*readonly") as caught:
            world.sink.committer("orders").inspect(ME, ())
    connection = sqlite3.connect(world.database)
    connection.executescript(caught.value.remedy.partition("\n")[2])
    connection.close()
    assert world.sink.committer("orders").inspect(ME, ()).claim_incarnation is None


def test_the_sink_travels_to_tasks(world: World) -> None:
    assert pickle.loads(pickle.dumps(world.sink)) == world.sink


def test_a_commit_is_durable_in_the_strict_sense(world: World) -> None:
    """EXTRA: with FULL a power cut right after the commit may undo it, when its segments are gone already."""
    assert SqliteStore(world.database).execute("PRAGMA synchronous") == [(3,)]


def test_a_file_that_was_replaced_is_not_written_to_under_its_old_name(world: World) -> None:
    committer = world.driver()
    run(committer, 0, world.prepare(0, 1))
    one = world.prepare(1, 2)
    copy = world.folder / "copy.db"
    copy.write_bytes(world.database.read_bytes())
    copy.rename(world.database)
    assert run(committer, 1, one) == [COMMITTED]
    assert world.ids() == [1, 2]

"""The real driver, head and SQLite sink together: failed tries, restarts at bad moments, a zombie, a reset."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from connectors.log.committer import LogCommitter
from connectors.log.place import LogPlace
from connectors.log.segments import open_log
from connectors.sql.log.ledger import LogTarget, SqlLedger
from connectors.sql.sqlite.sink import SqliteSink
from connectors.sql.sqlite.store import IDLE_S, SqliteStore
from eos.errors import ConnectorError, FencedError, IdentityError, LostCommittableError, PrepareError
from twophase.driver import Driver
from twophase.ids import Scope, TransactionId, sink_key
from twophase.local_head import LocalHead
from twophase.messages import Acknowledged, BatchStart, Failed
from twophase.participants import Committer
from twophase.values import CheckpointRecord, CommitOutcome, Committable, SparkState, StartingPoint
from wal.testing import files_in

SCHEMA = pa.schema([("n", pa.int64())])
ROWS = 10


class CrashError(BaseException):
    """The driver's process is gone."""


@dataclass
class World:
    """What outlives a driver: Spark's offsets log, head, the log folder and the database."""

    folder: Path
    starts: int = 0
    attempts: int = 0
    planned: int = -1
    sink: SqliteSink = field(init=False)

    def __post_init__(self) -> None:
        self.query("CREATE TABLE t (n INTEGER)")
        self.sink = SqliteSink("s", self.folder / "t.db", "t", LogPlace(self.folder / "log")).open(SCHEMA)

    def query(self, statement: str) -> list[tuple[object, ...]]:
        connection = sqlite3.connect(self.folder / "t.db")
        try:
            return connection.execute(statement).fetchall()
        finally:
            connection.close()

    def await_state(self, _checkpoint_id: int) -> None:
        """Nothing to wait for."""

    def state(self, _incarnation: str) -> SparkState:
        log = {number: f"offsets {number}" for number in range(self.planned + 1)}
        return SparkState("query" if self.planned >= 0 else None, self.planned, self.planned - 1, log)

    def driver(self, committer: LogCommitter | None = None, *, letters: bool = False) -> Driver:
        """`letters`: with a dead letter, in another database, which may join."""
        self.starts += 1
        head = LocalHead(self.folder)
        incarnation, session = f"{self.starts:020d}", f"d{self.starts}"
        sinks: dict[str, Committer] = {"s": committer or self.sink.committer("p")}
        if letters:
            sqlite3.connect(self.folder / "l.db").close()
            place = LogPlace(self.folder / "log")
            sinks["dead_letter"] = SqliteSink("dead_letter", self.folder / "l.db", "l", place).committer("p")
        late = ["dead_letter"] if letters else ()
        return Driver("p", head, sinks, self, session=session, incarnation=incarnation, retained=2, late=late)

    def run(self, driver: Driver, number: int, job: Job) -> None:
        self.planned = number
        ends = {"kafka": {"t/0": (number + 1) * ROWS}}
        began = {"kafka": StartingPoint({"t/0": 0})}
        driver.checkpoint(BatchStart(number, ends, f"offsets {number}", 0.0, began), job)
        driver.set_query("query")

    def check_rows(self, checkpoints: int) -> None:
        """Every row of the checkpoints once, and nothing else."""
        found = Counter(row[0] for row in self.query("SELECT n FROM t"))
        assert found == Counter(range(checkpoints * ROWS))

    def check(self, checkpoints: int) -> None:
        """Every row of the checkpoints once, nothing else, and nothing left waiting."""
        self.check_rows(checkpoints)
        assert files_in(self.folder / "log") == []


@dataclass
class Job:
    """Spark's job for one checkpoint: two tasks, of which one runs twice and one may fail."""

    world: World
    fails: bool = False

    def run_writers(self, scope: Scope, *, direct: bool = False) -> Acknowledged | Failed:
        first = scope.checkpoint_id * ROWS
        self.task(scope, 0, range(first, first + 5))  # prepared, and its acknowledgement lost
        accepted = [self.task(scope, 0, range(first, first + 5))]
        if self.fails:
            return Failed(PrepareError("a task failed"))
        accepted.append(self.task(scope, 1, range(first + 5, first + ROWS)))
        return Acknowledged({"s": tuple(accepted)}, at=0.0)

    def task(self, scope: Scope, task: int, numbers: range, replaces: Committable | None = None) -> Committable:
        self.world.attempts += 1
        writer = self.world.sink.writer(TransactionId(scope, sink_key("s"), task, self.world.attempts), replaces)
        writer.write(pa.record_batch([pa.array(numbers, pa.int64())], schema=SCHEMA))
        return writer.prepare()

    def discard(self, digest_methods: Sequence[int]) -> Sequence[Mapping[str, tuple[int, int]]] | None:
        return None


class CrashingCommitter(LogCommitter):
    """The process dies right before, or right after, a local transaction."""

    after: bool = False

    def commit(
        self, checkpoint_id: int, committables: Sequence[Committable], *, own: bool = False, known: int | None = None
    ) -> Sequence[CommitOutcome]:
        if self.after:
            super().commit(checkpoint_id, committables)
        raise CrashError


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def crashing(world: World, *, after: bool) -> CrashingCommitter:
    target = LogTarget("s", "t", "here", partial(SqliteStore, world.sink.path), 1, IDLE_S)
    committer = CrashingCommitter("s", SqlLedger(target, "p"), open_log(world.sink.log.at))
    committer.after = after
    return committer


def test_checkpoints_and_a_failed_try(world: World) -> None:
    driver = world.driver()
    driver.start()
    world.run(driver, 0, Job(world))
    with pytest.raises(PrepareError):
        world.run(driver, 1, Job(world, fails=True))
    world.check(1)
    for number in range(1, 6):
        world.run(driver, number, Job(world))
    world.check(6)
    assert len(world.query("SELECT DISTINCT checkpoint_id FROM eos_witness")) <= 3


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_around_the_commit(world: World, after: bool) -> None:
    first = world.driver()
    first.start()
    world.run(first, 0, Job(world))
    second = world.driver(crashing(world, after=after))
    second.start()
    with pytest.raises(CrashError):
        world.run(second, 1, Job(world))
    third = world.driver()
    third.start()
    world.check(2)
    world.run(third, 1, Job(world))  # Spark runs the batch again: nothing is written
    world.run(third, 2, Job(world))
    world.check(3)


def test_a_crash_before_the_decision_leaves_nothing(world: World) -> None:
    first = world.driver()
    first.start()
    world.planned = 0
    assert isinstance(Job(world).run_writers(Scope(first.owned.incarnation, first.owned.epoch, 0)), Acknowledged)
    second = world.driver()
    second.start()
    world.check(0)
    world.run(second, 0, Job(world))
    world.check(1)


def test_a_zombie_is_fenced(world: World) -> None:
    old = world.driver()
    old.start()
    world.run(old, 0, Job(world))
    new = world.driver()
    new.start()
    with pytest.raises(FencedError):
        world.run(old, 1, Job(world))
    world.run(new, 1, Job(world))
    world.check(2)


def test_a_database_set_back_is_refused(world: World, tmp_path: Path) -> None:
    driver = world.driver()
    driver.start()
    world.run(driver, 0, Job(world))
    backup = (tmp_path / "t.db").read_bytes()
    world.run(driver, 1, Job(world))
    (tmp_path / "t.db").write_bytes(backup)
    with pytest.raises(IdentityError, match="up to 0, head calls 1 committed; it lacks 2 transactions"):
        world.driver().start()


def test_a_reset_commits_what_was_decided_and_begins_anew(world: World) -> None:
    first = world.driver(crashing(world, after=False))
    first.start()
    with pytest.raises(CrashError):
        world.run(first, 0, Job(world))
    world.driver().reset(expected=first.owned)
    world.check(1)
    world.planned = -1
    again = world.driver()
    again.start()
    world.run(again, 0, Job(world))
    found = Counter(row[0] for row in world.query("SELECT n FROM t"))
    assert found == Counter([*range(ROWS), *range(ROWS)])


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_a_life_whose_record_cannot_be_read_is_ended_on_purpose(world: World, tmp_path: Path, damage: str) -> None:
    first = world.driver(crashing(world, after=False))
    first.start()
    with pytest.raises(CrashError):
        world.run(first, 0, Job(world))
    (path,) = (tmp_path / "records").iterdir()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes().replace(b"offsets 0", b"offsets 9"))
    segments = files_in(tmp_path / "log")
    with pytest.raises(LostCommittableError, match=r"lie within t/0\[0, 10\)") as refused:
        world.driver().reset(expected=first.owned)
    assert files_in(tmp_path / "log") == segments, "a refused reset has rolled something back"
    begun = world.driver().reset(expected=first.owned, abandon_lost=True)
    assert [each.checkpoint_id for each in begun.abandoned] == [0]
    assert len(begun.abandoned[0].transactions) == 3  # the one that nobody waited for is not told from the others
    assert all(str(each) in refused.value.message for each in begun.abandoned[0].transactions)
    world.check(0)
    assert not list((tmp_path / "records").iterdir())
    world.planned = -1
    again = world.driver()
    again.start()
    world.run(again, 0, Job(world))
    world.check(1)


def _damaged(world: World, folder: Path) -> str:
    """Rows that are decided."""
    del world
    for path in files_in(folder / "log"):
        path.write_bytes(path.read_bytes()[:-1])
    return "it has no footer"


def _refused_row(world: World, folder: Path) -> str:
    del folder
    world.query("CREATE UNIQUE INDEX once ON t (n % 2)")
    return "refuses a row"


def _set_back(world: World, folder: Path) -> str:
    del folder
    connection = sqlite3.connect(world.sink.path)
    with connection:
        connection.execute("UPDATE eos_slot SET checkpoint_id = checkpoint_id - 1")
    connection.close()
    return "stands at checkpoint -2 and is asked to apply checkpoint 0"


def _made_anew(world: World, folder: Path) -> str:
    (folder / "t.db").unlink()
    world.query("CREATE TABLE t (n INTEGER)")
    return "claimed by nobody"


@pytest.mark.parametrize("trouble", [_damaged, _refused_row, _set_back, _made_anew])
def test_decided_rows_that_cannot_be_applied_are_given_up_on_purpose_only(
    world: World, tmp_path: Path, trouble: Callable[[World, Path], str]
) -> None:
    first = world.driver(crashing(world, after=False))
    first.start()
    with pytest.raises(CrashError):
        world.run(first, 0, Job(world))
    why = trouble(world, tmp_path)
    with pytest.raises(ConnectorError) as stopped:
        world.driver().start()
    assert not isinstance(stopped.value, FencedError)
    with pytest.raises(LostCommittableError, match=why):
        world.driver().reset(expected=first.owned)
    begun = world.driver().reset(expected=first.owned, abandon_lost=True)
    assert [each.checkpoint_id for each in begun.abandoned] == [0]
    world.query("DROP INDEX IF EXISTS once")
    world.planned = -1
    again = world.driver()
    again.start()
    world.run(again, 0, Job(world))
    world.check(1)


@pytest.mark.parametrize("position", [0, 1])
def test_a_segment_that_is_put_back_is_applied_whole(world: World, tmp_path: Path, position: int) -> None:
    """The protocol asks again for what it heard "later" of: a part of a checkpoint must never count for all of it."""
    first = world.driver(crashing(world, after=False))
    first.start()
    with pytest.raises(CrashError):
        world.run(first, 0, Job(world))
    gone = files_in(tmp_path / "log")[1 + position]  # one that nobody waited for comes first
    gone.rename(tmp_path / "aside")
    for _ in range(2):
        with pytest.raises(LostCommittableError, match="restore that file"):
            world.driver().start()
    world.sink.committer("p").prepared(first.owned.incarnation)
    (tmp_path / "aside").rename(gone)
    third = world.driver()
    third.start()
    world.run(third, 0, Job(world))
    world.check(1)


def test_the_same_pipeline_from_another_location_is_refused(world: World, tmp_path: Path) -> None:
    driver = world.driver()
    driver.start()
    copy = replace(world.driver(), head=LocalHead(tmp_path / "copy"))
    with pytest.raises(IdentityError, match="another incarnation of pipeline"):
        copy.start()


def test_r7_a_repair_that_failed_is_run_again_where_a_dead_letter_had_just_joined(world: World, tmp_path: Path) -> None:
    """Then head says that the checkpoints before are not committed, and the dead letter is in none of them."""
    first = world.driver()
    first.start()
    world.run(first, 0, Job(world))
    backup = (tmp_path / "t.db").read_bytes()
    world.run(first, 1, Job(world))
    world.driver(letters=True).start()
    (tmp_path / "t.db").write_bytes(backup)

    def rewrite_missing(
        scope: Scope, record: CheckpointRecord, lost: Mapping[str, tuple[Committable, ...]]
    ) -> Acknowledged | Failed:
        assert record.checkpoint_id == 1
        assert [each.rows for each in lost["s"]] == [5, 5]
        written = [
            Job(world).task(scope, task, range(ROWS + 5 * task, ROWS + 5 * task + 5), lost["s"][task])
            for task in (0, 1)
        ]
        return Acknowledged({"s": tuple(written)}, at=0.0)

    with pytest.raises(PrepareError):
        world.driver(letters=True).repair(lambda *_: Failed(PrepareError("the source is away")))
    with pytest.raises(LostCommittableError, match="checkpoint 1 is completed"):
        world.driver(letters=True).start()
    world.check_rows(1)
    repaired = world.driver(letters=True).repair(rewrite_missing)
    assert [each.rows for each in repaired.losses] == [ROWS]
    last = world.driver(letters=True)
    last.start()
    world.check(2)

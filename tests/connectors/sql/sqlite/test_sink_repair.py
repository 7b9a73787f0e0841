"""`eos repair` by the real driver, head, log and SQLite: what is lost comes back once, wherever it dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connectors.log.place import LogPlace
from connectors.sql.log.ledger import SqlLedger
from connectors.testing.files import files_in
from eos.errors import ConnectorError, FencedError, IdentityError, LostCommittableError, ReplayMismatchError
from tests.connectors.sql.sqlite.test_sink_protocol import ROWS, CrashError, Job, World
from twophase.checkpoint import decide
from twophase.codec import decode_record
from twophase.driver import Driver
from twophase.effects import Effects, RewriteJob
from twophase.ids import Scope, TransactionId, sink_key
from twophase.local_head import LocalHead
from twophase.messages import Acknowledged, Action, BatchStart, Failed
from twophase.status import read_status
from twophase.values import INSTEAD_OF, CheckpointRecord, Committable

_TASKS = 2


@pytest.fixture(params=[1, 2])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> World:
    return made_in(tmp_path, request.param)


def made_in(folder: Path, slots: int) -> World:
    """Checkpoint 0 is committed, 1 is decided; its sink has one slot, or one for each task."""
    world = World(folder)
    world.sink = replace(world.sink, log=LogPlace(folder / "log", slots=slots))
    first = world.driver()
    first.start()
    world.run(first, 0, Job(world))
    second = world.driver(_crashing(world))
    second.start()
    with pytest.raises(CrashError):
        world.run(second, 1, Job(world))
    return world


def _crashing(world: World) -> Any:
    committer = world.sink.committer("p")

    def commit(*_: object, **__: object) -> None:
        raise CrashError

    committer.commit = commit  # type: ignore[method-assign,assignment]
    return committer


def decided(world: World) -> CheckpointRecord:
    found = read_status(LocalHead(world.folder))
    assert found is not None
    return found.checkpoints[0]


def segments(world: World) -> list[Path]:
    """Of the decision, by task."""
    return [world.folder / "log" / each.data["segment"] for each in decided(world).committables["s"]]


def again(world: World, *, rows: int = 5) -> RewriteJob:
    """Spark's job: both tasks, of which one writes what it has lost, the other counts."""

    def run(
        scope: Scope, record: CheckpointRecord, lost: Mapping[str, tuple[Committable, ...]]
    ) -> Acknowledged | Failed:
        wanted = {each.transaction.task: each for each in lost["s"]}
        done = []
        for task in range(_TASKS):
            world.attempts += 1
            transaction = TransactionId(scope, sink_key("s"), task, world.attempts)
            if task in wanted:
                writer = world.sink.writer(transaction, wanted[task])
                first = record.checkpoint_id * ROWS + task * 5
                numbers = pa.array(range(first, first + rows), pa.int64())
                writer.write(pa.record_batch([numbers] * len(world.sink.columns), names=list(world.sink.columns)))
                done.append(writer.prepare())
            else:
                done.append(Committable(transaction, rows))
        return Acknowledged({"s": tuple(done)}, at=0.0)

    return run


def _missing(path: Path) -> None:
    path.unlink()


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _changed(path: Path) -> None:
    """Its footer is whole; only the sum over its rows tells."""
    content = bytearray(path.read_bytes())
    content[len(content) // 4] ^= 1
    path.write_bytes(content)


def goes_on(world: World) -> None:
    driver = world.driver()
    driver.start()
    world.check(2)
    world.run(driver, 1, Job(world))  # Spark runs the batch again: nothing is written
    world.run(driver, 2, Job(world))
    world.check(3)


@pytest.mark.parametrize("damage", [_missing, _cut, _changed])
@pytest.mark.parametrize("tasks", [(0,), (1,), (0, 1)])
def test_what_is_lost_is_written_again_once(
    world: World, damage: Callable[[Path], None], tasks: tuple[int, ...]
) -> None:
    before = decided(world)
    for task in tasks:
        damage(segments(world)[task])
    with pytest.raises(LostCommittableError, match="eos repair SPEC"):
        world.driver().start()
    repaired = world.driver().repair(again(world))
    world.check(2)
    (loss,) = repaired.losses
    assert [each.transaction.task for each in loss.lost["s"]] == list(tasks)
    assert loss.rows == 5 * len(tasks)
    after = decided(world)
    assert (after.ranges, after.offsets_log, after.decided_at) == (before.ranges, before.offsets_log, before.decided_at)
    assert after.repaired == len(tasks)
    for task, (old, new) in enumerate(zip(before.committables["s"], after.committables["s"], strict=True)):
        assert (new.rows, new.data["slots"]) == (old.rows, old.data["slots"])
        assert new.data.get(INSTEAD_OF) == (str(old.transaction) if task in tasks else None)
    assert len(list((world.folder / "records").iterdir())) == 2, "the record of before is swept away"
    goes_on(world)


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("tasks", [(0, 1), (0, None), (None, 1)])
def test_what_a_sink_that_is_behind_has_lost(tmp_path: Path, slots: int, tasks: tuple[int | None, ...]) -> None:
    """Several checkpoints are decided and not committed: each is brought to its end after the one before."""
    world = World(tmp_path)
    world.sink = replace(world.sink, log=LogPlace(tmp_path / "log", slots=slots))
    driver = world.driver()
    driver.start()
    world.run(driver, 0, Job(world))
    for number in (1, 2):
        world.planned = number
        begin = BatchStart(number, {"kafka": {"t/0": (number + 1) * ROWS}}, f"offsets {number}", 0.0)
        decided_only = driver._carry_out(decide(driver._ownership, begin, ("s",)), Job(world))
        task = tasks[number - 1]
        if task is not None:
            (tmp_path / "log" / decided_only.committables["s"][task].data["segment"]).unlink()
    with pytest.raises(LostCommittableError):
        world.driver().start()
    repaired = world.driver().repair(again(world))
    assert [loss.record.checkpoint_id for loss in repaired.losses] == [
        n for n, task in enumerate(tasks, 1) if task is not None
    ]
    world.check(3)
    last = world.driver()
    last.start()
    world.run(last, 2, Job(world))
    world.run(last, 3, Job(world))
    world.check(4)


def test_where_nothing_is_lost_it_is_a_start(world: World) -> None:
    repaired = world.driver().repair(_never)
    assert repaired.losses == ()
    world.check(2)
    assert world.driver().repair(_never).losses == ()
    goes_on(world)


def _never(*_: object) -> Acknowledged | Failed:
    raise AssertionError("there is nothing to write again")


class _Dies:
    """The process dies right before the n-th thing that it does to anything outside."""

    def __init__(self, at: int) -> None:
        self.at, self.done = at, 0

    @contextmanager
    def armed(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        real = Effects.perform

        def perform(effects: Effects, action: Action[Any], batch: Any) -> object:
            self.done += 1
            if self.done == self.at:
                raise CrashError
            return real(effects, action, batch)

        with monkeypatch.context() as patching:
            patching.setattr(Effects, "perform", perform)
            yield


def test_it_may_die_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = 0
    for at in range(1, 40):
        folder = tmp_path / str(at)
        folder.mkdir()
        world = made_in(folder, slots=1 + at // 2 % 2)
        segments(world)[at % 2].unlink()
        dying = _Dies(at)
        try:
            with dying.armed(monkeypatch):
                world.driver().repair(again(world))
            break
        except CrashError:
            points += 1
        try:
            world.driver().start()
        except LostCommittableError:
            world.driver().repair(again(world))
        goes_on(world)
    assert points >= 15


def test_other_rows_are_refused_and_nothing_is_left_of_them(world: World) -> None:
    before, (lost, kept) = decided(world), segments(world)
    lost.unlink()
    with pytest.raises(ReplayMismatchError, match="other rows in 2 of 2 tasks"):
        world.driver().repair(again(world, rows=4))
    assert decided(world) == before
    assert kept.exists()
    left = [path for path in files_in(world.folder / "log") if f"-{world.starts:08x}-" in path.name]
    assert left == [], "what was prepared for the repair stays"
    world.driver().repair(again(world))
    goes_on(world)


def test_rows_of_other_columns_are_refused(tmp_path: Path) -> None:
    """As many rows of a spec that was changed: the slot could not apply them beside the others."""
    world = made_in(tmp_path, slots=1)
    segments(world)[0].unlink()
    world.query("ALTER TABLE t ADD COLUMN m INTEGER")
    world.sink = world.sink.open(pa.schema([("n", pa.int64()), ("m", pa.int64())]))
    with pytest.raises(IdentityError, match="of other columns now"):
        world.driver().repair(again(world))


def test_another_number_of_slots_is_for_later_checkpoints(world: World) -> None:
    segments(world)[1].unlink()
    world.sink = replace(world.sink, log=replace(world.sink.log, slots=3))
    world.driver().repair(again(world))
    goes_on(world)


def test_a_job_that_fails_leaves_nothing(world: World) -> None:
    lost, _ = segments(world)
    lost.unlink()
    error = ReplayMismatchError("a task failed")
    with pytest.raises(ReplayMismatchError, match="a task failed"):
        world.driver().repair(lambda *_: Failed(error))
    world.driver().repair(again(world))
    goes_on(world)


def test_who_has_decided_is_fenced(world: World) -> None:
    """It still holds the old decision, and wakes up while the repair is under way, and after it."""
    asleep: Driver = world.driver()
    lost, _ = segments(world)
    content = lost.read_bytes()
    lost.unlink()
    with pytest.raises(LostCommittableError):
        asleep.start()

    def run(*given: Any) -> Acknowledged | Failed:
        lost.write_bytes(content)  # and what was lost is put back at that very moment
        with pytest.raises(ConnectorError) as stopped:
            old_commit(world, before)
        assert isinstance(stopped.value, FencedError)
        return again(world)(*given)

    before = decided(world)
    world.driver().repair(run)
    with pytest.raises(FencedError):
        old_commit(world, before)
    goes_on(world)


def test_what_is_put_back_and_applied_meanwhile_is_not_applied_again(world: World) -> None:
    """A start of before knows the old decision, and has not claimed the sink yet, so that no claim fences it."""
    before, (lost, _) = decided(world), segments(world)
    content = lost.read_bytes()
    lost.unlink()

    def run(*given: Any) -> Acknowledged | Failed:
        done = again(world)(*given)
        lost.write_bytes(content)
        old_commit(world, before, claimed=False)
        world.check_rows(2)
        return done

    world.driver().repair(run)
    goes_on(world)


def old_commit(world: World, record: CheckpointRecord, *, claimed: bool = True) -> None:
    """What the driver of that epoch would still do."""
    committer = world.sink.committer("p")
    committer._incarnation, committer._epoch = record.scope.incarnation, record.scope.epoch if claimed else None
    try:
        committer.commit(record.checkpoint_id, record.committables["s"])
    finally:
        committer.close()


def test_a_part_of_a_share_that_is_written_keeps_the_rest_from_being_written_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a slot that commits in parts (Kafka): what comes again need not come in the same order."""
    segments(world)[0].unlink()
    real = SqlLedger.entries
    monkeypatch.setattr(SqlLedger, "entries", lambda *asked: replace(real(*asked), begun={0: 3}))
    with pytest.raises(IdentityError, match="slot 0, has written 3 rows of its share"):
        world.driver().repair(_never)


def test_the_record_that_a_repair_stores_is_whole(world: World) -> None:
    segments(world)[1].unlink()
    world.driver().repair(again(world))
    for path in (world.folder / "records").iterdir():
        assert decode_record(path.read_bytes()).committables["s"]

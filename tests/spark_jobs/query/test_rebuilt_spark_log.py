"""Spark's checkpoint folder, rebuilt from head: Spark continues after it, and a start can compare it."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from eos.errors import HeadError, IdentityError, SavepointError
from spark_jobs.query.kept_state import StateStore
from spark_jobs.query.rebuilt_spark_log import RebuiltSparkLog
from spark_jobs.query.spark_log import LocalSparkLog
from spark_jobs.query.state_files import needed
from spark_jobs.query.state_keeping import StateKeeping
from spark_jobs.query.state_manifest import KeptState
from spark_jobs.session.settings import DEFAULTS, LOOPBACK, REQUIRED
from tests import savepoint_files as files
from twophase.head_value import HeadValue, Origin
from twophase.ids import Scope
from twophase.local_blobs import LocalBlobStore
from twophase.status import Status
from twophase.values import CheckpointRecord
from wal.errors import StorageError
from wal.local import LocalStorage

LIFE = "0123456789abcdefghij"
PLAN = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}\n{"value":40}'


def status_of(completed: int, plan: str = PLAN, query_id: str | None = "query-7", epoch: int = 3) -> Status:
    """Head, with the record of its newest completed checkpoint."""
    head = HeadValue("p", LIFE, epoch, ("a.1",), completed=completed, query_id=query_id)
    record = CheckpointRecord(Scope(LIFE, 3, completed, 1), {}, plan, {}, 0.0, 0.0)
    return Status(head, (record,) if completed >= 0 else ())


class Head:
    """Head, as a start reads it."""

    def __init__(self, status: Status | None) -> None:
        self.status = status

    def __call__(self) -> Status | None:
        return self.status


@pytest.fixture
def head() -> Head:
    return Head(status_of(4))


class Log(RebuiltSparkLog):
    """Its shelf is a folder, which any machine sees."""

    def __init__(self, location: Path, head: Head, shelf: Path) -> None:
        shelf.mkdir(exist_ok=True)
        states = StateKeeping(lambda: LocalStorage(shelf.with_name("states")))
        super().__init__(location, head, lambda: nullcontext(LocalBlobStore(shelf)), states)


@pytest.fixture
def log(tmp_path: Path, head: Head) -> RebuiltSparkLog:
    return Log(tmp_path / "one", head, tmp_path / "ended")


def test_an_empty_folder_shows_the_checkpoint_that_head_has_completed(log: RebuiltSparkLog) -> None:
    state = log.state(LIFE)
    assert (state.newest_planned, state.newest_committed, state.query_id) == (4, 4, "query-7")
    assert state.offsets_log[4] == PLAN
    assert state.may_lack_plan


def test_each_look_of_a_start_knows_that_a_plan_may_be_lost(log: RebuiltSparkLog, head: Head) -> None:
    """A start compares once more where head has moved meanwhile, and only the first look rebuilds the folder (H37)."""
    assert log.state(LIFE).may_lack_plan
    assert log.state(LIFE).may_lack_plan
    assert head.status is not None
    log.note_end(head.status.head)
    assert log.state(LIFE).may_lack_plan, "the note is of this driver, and says nothing of the one before"


class _OnceAway:
    """A shelf that does not answer the first time."""

    def __init__(self, shelf: Path) -> None:
        self.shelf, self.asked = shelf, 0

    def __call__(self) -> AbstractContextManager[LocalBlobStore]:
        self.asked += 1
        if self.asked == 1:
            raise HeadError("the store does not answer")
        return nullcontext(LocalBlobStore(self.shelf))


def test_a_store_that_is_away_for_a_moment_does_not_hide_that_a_plan_may_be_lost(tmp_path: Path, head: Head) -> None:
    """The restart of the same process finds the folder (H37)."""
    (tmp_path / "ended").mkdir()
    states = StateKeeping(lambda: LocalStorage(tmp_path / "states"))
    log = RebuiltSparkLog(tmp_path / "one", head, _OnceAway(tmp_path / "ended"), states)
    with pytest.raises(HeadError):
        log.state(LIFE)
    assert log.state(LIFE).may_lack_plan


def test_what_fits_is_left_as_it_is(log: RebuiltSparkLog) -> None:
    """The plan of the next batch too: a restart within the process goes on with it, as on a local disk."""
    log.state(LIFE)
    (log.folder(LIFE) / "offsets" / "5").write_text(PLAN)
    state = log.state(LIFE)
    assert (state.newest_planned, state.newest_committed) == (5, 4)


def test_head_moves_on_between_two_looks(log: RebuiltSparkLog, head: Head) -> None:
    """Another driver lives until the claim."""
    log.state(LIFE)
    head.status = status_of(6, PLAN.replace("40", "60"))
    state = log.state(LIFE)
    assert (state.newest_planned, state.newest_committed) == (6, 6)
    assert '"value":60' in state.offsets_log[6]
    assert not (log.folder(LIFE) / "commits" / "4").exists()


def test_a_plan_of_a_checkpoint_that_another_driver_has_decided_is_written_over(
    log: RebuiltSparkLog, head: Head
) -> None:
    """Both have planned checkpoint 5, and the other one's has other offsets."""
    log.state(LIFE)
    (log.folder(LIFE) / "offsets" / "5").write_text(PLAN.replace("40", "45"))
    head.status = status_of(5, PLAN.replace("40", "50"))
    assert '"value":50' in log.state(LIFE).offsets_log[5]


@pytest.mark.parametrize("query_id", [None, "query-7"])
def test_nothing_is_completed_yet(log: RebuiltSparkLog, head: Head, query_id: str | None) -> None:
    head.status = status_of(-1, query_id=query_id)
    state = log.state(LIFE)
    assert (state.newest_planned, state.newest_committed, state.query_id) == (-1, -1, query_id)


def test_the_pipeline_never_ran(log: RebuiltSparkLog, head: Head) -> None:
    head.status = None
    assert log.state(LIFE).newest_planned == -1
    assert not log.folder(LIFE).exists()


def test_another_incarnation_is_nothing_of_heads(log: RebuiltSparkLog) -> None:
    """Of a reset, which begins one."""
    assert log.state("another_life_0123456").newest_planned == -1


def test_a_driver_that_ended_with_nothing_planned_is_known_on_the_next_machine(
    tmp_path: Path, log: RebuiltSparkLog, head: Head
) -> None:
    assert head.status is not None
    assert log.state(LIFE).may_lack_plan
    log.note_end(head.status.head)
    assert not Log(tmp_path / "two", head, tmp_path / "ended").state(LIFE).may_lack_plan
    head.status = status_of(4, epoch=4)  # another driver has started since, and may have planned
    assert Log(tmp_path / "three", head, tmp_path / "ended").state(LIFE).may_lack_plan


def test_a_driver_that_ended_in_the_middle_of_a_checkpoint_notes_nothing(
    tmp_path: Path, log: RebuiltSparkLog, head: Head
) -> None:
    assert head.status is not None
    log.state(LIFE)
    (log.folder(LIFE) / "offsets" / "5").write_text(PLAN)
    log.note_end(head.status.head)
    assert Log(tmp_path / "two", head, tmp_path / "ended").state(LIFE).may_lack_plan
    assert list((tmp_path / "ended").iterdir()) == []


def test_each_process_has_a_folder_of_its_own_and_those_of_dead_ones_are_deleted(
    tmp_path: Path, log: RebuiltSparkLog, head: Head
) -> None:
    program = (
        "import sys, time; from pathlib import Path\n"
        "from spark_jobs.query.rebuilt_spark_log import RebuiltSparkLog\n"
        f"log = RebuiltSparkLog(Path({str(log.location)!r}), None, None, None)\n"
        f"print(log.folder({LIFE!r}), flush=True); time.sleep(600)"
    )
    other = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    with other, other.stdout:
        theirs = Path(other.stdout.readline().strip())
        try:
            theirs.mkdir()
            assert log.folder(LIFE).parent != theirs.parent
            assert theirs.is_dir()
        finally:
            other.send_signal(signal.SIGKILL)
            other.wait()
    again = Log(tmp_path / ".." / tmp_path.name / "one", head, tmp_path / "ended").folder(LIFE)  # another text
    assert again.parent.is_dir()
    assert not theirs.exists()


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    builder = SparkSession.builder.master("local[1]").config(map={**REQUIRED, **DEFAULTS, **LOOPBACK})
    session = builder.getOrCreate()
    yield session
    session.stop()


def test_spark_goes_on_behind_it(spark: SparkSession, tmp_path: Path) -> None:
    """A query runs to its checkpoint 2; another one, in a folder written from that plan, reads the next rows."""
    batches: list[tuple[int, list[int]]] = []

    def run(folder: Path, until: int) -> None:
        def on_batch(frame: DataFrame, number: int) -> None:
            if number > until:
                raise RuntimeError("enough")
            batches.append((number, sorted(row.value for row in frame.collect())))

        options = {"rowsPerBatch": "10", "advanceMillisPerBatch": "1000", "startTimestamp": "0"}
        rows = spark.readStream.format("rate-micro-batch").options(**options).load()
        query = rows.writeStream.foreachBatch(on_batch).option("checkpointLocation", f"file://{folder}").start()
        with pytest.raises(Exception, match="enough"):
            query.awaitTermination()

    first = LocalSparkLog(tmp_path / "one")
    run(first.folder(LIFE), 2)
    status = status_of(2, first.offsets_log(LIFE, 2), first.query_id(LIFE))
    second = Log(tmp_path / "two", Head(status), tmp_path / "ended")
    assert second.state(LIFE).newest_planned == 2
    run(second.folder(LIFE), 4)
    assert batches == [(n, list(range(10 * n, 10 * n + 10))) for n in range(5)]
    assert json.loads((second.folder(LIFE) / "metadata").read_text()) == {"id": status.head.query_id}


def _counted(rows: DataFrame) -> DataFrame:
    """The count of a window goes on over batches."""
    return rows.withWatermark("timestamp", "1 second").groupBy(F.window("timestamp", "3 seconds")).count()


def _joined(rows: DataFrame) -> DataFrame:
    """Each row meets the one of three batches before. A join has several stores in each partition."""
    late = rows.select((F.col("value") + 30).alias("at"), F.col("timestamp").alias("then"))
    within = F.expr("value = at AND timestamp >= then AND timestamp <= then + INTERVAL 5 SECONDS")
    return rows.withWatermark("timestamp", "1 second").join(late.withWatermark("then", "1 second"), within)


@pytest.mark.parametrize(("steps", "kept", "changelog"), [(_counted, 3, False), (_joined, 4, True)])
def test_state_goes_on_on_another_machine(
    spark: SparkSession, tmp_path: Path, steps: Callable[[DataFrame], DataFrame], kept: int, changelog: bool
) -> None:
    """Three machines, each of which completes three batches. `kept`: of batch 4 on the second one; 3: before it."""
    spark.conf.set("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", str(changelog).lower())
    spark.conf.set("spark.sql.shuffle.partitions", "2")

    def run(log: LocalSparkLog, until: int) -> list[tuple[int, list[str]]]:
        batches: list[tuple[int, list[str]]] = []

        def on_batch(frame: DataFrame, number: int) -> None:
            if number > until:
                raise RuntimeError("enough")
            log.await_state(number - 1)
            batches.append((number, sorted(map(str, frame.collect()))))

        options = {"rowsPerBatch": "10", "advanceMillisPerBatch": "1000", "startTimestamp": "0"}
        rows = steps(spark.readStream.format("rate-micro-batch").options(**options).load())
        query = rows.writeStream.foreachBatch(on_batch).outputMode("update" if steps is _counted else "append")
        with pytest.raises(Exception, match="enough"):
            query.option("checkpointLocation", f"file://{log.folder(LIFE)}").start().awaitTermination()
        return batches

    expected = run(LocalSparkLog(tmp_path / "reference"), 7)
    assert sum(len(rows) for _, rows in expected) > 7
    found: list[tuple[int, list[str]]] = []
    status = status_of(-1, query_id=None)
    for machine, until, last in (("one", 2, 2), ("two", 4, kept), ("three", 7, 7)):
        log = Log(tmp_path / machine, Head(status), tmp_path / "ended")
        assert log.state(LIFE).newest_planned == status.head.completed
        log.restore_state(status.head)
        assert log.is_done(LIFE, status.head.completed) == (machine != "three" or kept == 4)
        found += run(log, until)
        log.await_state(last)
        status = status_of(until, log.offsets_log(LIFE, until), log.query_id(LIFE))
    assert found == [expected[n] for n in ([0, 1, 2, 3, 4, 5, 6, 7] if kept == 4 else [0, 1, 2, 3, 4, 4, 5, 6, 7])]


@pytest.mark.parametrize("completed", [-1, 0])
def test_a_query_with_state_begins_again_where_no_state_was_kept(
    log: RebuiltSparkLog, head: Head, completed: int
) -> None:
    """Its driver was killed in batch 0, or just after the decision on it."""
    head.status = status_of(completed)
    log.state(LIFE)
    log.restore_state(head.status.head)
    state = log.state(LIFE)
    assert (state.newest_planned, state.newest_committed, state.query_id) == (completed, -1, "query-7")
    assert sorted(each.name for each in log.folder(LIFE).iterdir()) == ["metadata", "offsets"][: completed + 2]


def test_the_state_of_an_incarnation_that_has_ended_is_deleted(tmp_path: Path, log: RebuiltSparkLog) -> None:
    states = tmp_path / "states" / LIFE
    states.mkdir(parents=True)
    (states / "000000000004.00000003.state").write_bytes(b"kept")
    (states.parent / "other").mkdir()
    (states.parent / "other" / "000000000004.00000003.state").write_bytes(b"kept")
    assert log.forget(LIFE)
    assert [path.name for path in (tmp_path / "states").rglob("*.state")] == ["000000000004.00000003.state"]
    assert list(states.iterdir()) == []


def test_a_restore_that_was_cut_off_is_repeated(tmp_path: Path, head: Head, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan and the query's id are there, as if the folder fitted, and some of the state is missing."""
    spark = files.run_until(tmp_path / "state")
    plan = (spark / "offsets" / str(files.NEWEST)).read_text()
    head.status = status_of(files.NEWEST, plan, "query")
    StateStore(LocalStorage(tmp_path / "states"), LIFE, 3).keep(spark, files.NEWEST)
    log = Log(tmp_path / "one", head, tmp_path / "ended")
    log.state(LIFE)
    fill = StateStore._fill

    def cut_off(store: StateStore, folder: Path, kept: KeptState) -> None:
        fill(store, folder, kept)
        next((folder / "state").rglob("*.zip")).unlink()
        raise StorageError("the store is cut off")

    monkeypatch.setattr(StateStore, "_fill", cut_off)
    with pytest.raises(HeadError, match="the store is cut off"):
        log.restore_state(head.status.head)
    monkeypatch.undo()
    again = Log(tmp_path / "one", head, tmp_path / "ended")
    again.state(LIFE)
    again.restore_state(head.status.head)
    restored = {path.name for path in again.folder(LIFE).rglob("*.zip")}
    assert restored == {path.rpartition("/")[2] for path in needed(spark, files.NEWEST) if path.endswith(".zip")}


@pytest.fixture
def kept(tmp_path: Path, head: Head) -> Path:
    """Spark's folder on a machine that is lost; its state is in the store."""
    spark = files.run_until(tmp_path / "state")
    head.status = _decided()
    StateStore(LocalStorage(tmp_path / "states"), LIFE, 3).keep(spark, files.NEWEST)
    return spark


def _decided(number: int = files.NEWEST, state_partitions: int | None = None) -> Status:
    status = status_of(number, files.offsets(number), "query")
    records = tuple(replace(each, state_partitions=state_partitions) for each in status.checkpoints)
    return Status(replace(status.head, committed=number), records)


def _states(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*.zip")}


@pytest.mark.usefixtures("kept")
def test_whether_a_start_finds_state_is_known_before_it(log: RebuiltSparkLog, head: Head, tmp_path: Path) -> None:
    assert head.status is not None
    log.state(LIFE)
    assert log.finds_state(head.status.head)
    for manifest in (tmp_path / "states").rglob("*.state"):
        manifest.unlink()
    assert not log.finds_state(head.status.head)
    with pytest.raises(IdentityError, match="is not at"):
        log.restore_state(head.status.head)


@pytest.mark.usefixtures("kept")
def test_a_folder_of_this_machine_needs_no_state_of_the_store(log: RebuiltSparkLog, head: Head, tmp_path: Path) -> None:
    assert head.status is not None
    log.state(LIFE)
    log.restore_state(head.status.head)
    for manifest in (tmp_path / "states").rglob("*.state"):
        manifest.unlink()
    assert log.finds_state(head.status.head)


def test_a_savepoint_reads_the_folder_of_a_driver_on_this_machine(kept: Path, log: RebuiltSparkLog, head: Head) -> None:
    assert head.status is not None
    log.state(LIFE)
    with log.reading(head.status, has_state=True) as folder:
        assert folder != log.folder(LIFE), "it has no state"
        assert _states(folder) == {Path(path).name for path in needed(kept, files.NEWEST) if path.endswith(".zip")}
    assert not folder.exists()
    log.restore_state(head.status.head)
    with log.reading(head.status, has_state=True) as folder:
        assert folder == log.folder(LIFE)
    assert folder.exists()


def test_a_folder_that_is_being_filled_is_not_for_a_savepoint(kept: Path, log: RebuiltSparkLog, head: Head) -> None:
    """The entries of a checkpoint may be there before its older files, without which the savepoint would be useless."""
    assert head.status is not None
    log.state(LIFE)
    log.restore_state(head.status.head)
    (log.folder(LIFE) / "without-state").touch()
    with log.reading(head.status, has_state=True) as folder:
        assert folder != log.folder(LIFE)
        assert needed(folder, files.NEWEST) == needed(kept, files.NEWEST)


def test_a_frozen_driver_has_no_folder_for_a_savepoint(kept: Path, log: RebuiltSparkLog, head: Head) -> None:
    """Its state is of an older checkpoint, or of another plan than the decided one."""
    assert head.status is not None
    log.state(LIFE)
    log.restore_state(head.status.head)
    later = _decided(files.NEWEST + 2)
    head.status = Status(later.head, (*later.checkpoints, *head.status.checkpoints))
    with pytest.raises(IdentityError, match="is not at"), log.reading(head.status, has_state=True):
        pass
    head.status = _decided()
    (log.folder(LIFE) / "offsets" / str(files.NEWEST)).write_text("another plan")
    with log.reading(head.status, has_state=True) as folder:
        assert folder != log.folder(LIFE)


def test_a_driver_that_goes_on_elsewhere_has_deleted_the_state(kept: Path, log: RebuiltSparkLog, head: Head) -> None:
    """The savepoint is begun again, of a newer checkpoint."""
    read, head.status = _decided(files.NEWEST + 2), _decided(files.NEWEST + 3)
    with pytest.raises(FileNotFoundError), log.reading(read, has_state=True):
        pass


def test_without_state_a_savepoint_has_what_head_has(log: RebuiltSparkLog, head: Head) -> None:
    """Of the newest checkpoint that every sink has: another one may be decided by now."""
    newest, before = _decided(5), _decided(4)
    status = Status(replace(newest.head, committed=4), (*newest.checkpoints, *before.checkpoints))
    with log.reading(status, has_state=False) as folder:
        assert sorted(path.name for path in (folder / "commits").iterdir()) == ["4"]
        assert (folder / "offsets" / "4").read_text() == files.offsets(4)
    with (
        pytest.raises(SavepointError, match="no longer has the record of checkpoint 3"),
        log.reading(Status(replace(newest.head, committed=3), status.checkpoints), has_state=False),
    ):
        pass


def test_the_state_of_a_rescale_is_not_repeated(kept: Path, log: RebuiltSparkLog, head: Head) -> None:
    """Nor is the first checkpoint of an incarnation from a savepoint. Of others the state before will do."""
    number = files.NEWEST + 1
    for status in (
        _decided(number, state_partitions=5),
        Status(replace(_decided(number).head, origin=Origin("s", number, None)), _decided(number).checkpoints),
    ):
        head.status = status
        log.state(LIFE)
        with pytest.raises(IdentityError, match=f"the state after checkpoint {number} is not at"):
            log.restore_state(status.head)
    head.status = _decided(number)
    log.state(LIFE)
    log.restore_state(head.status.head)
    assert _states(log.folder(LIFE)) == {Path(p).name for p in needed(kept, files.NEWEST) if p.endswith(".zip")}


def test_a_start_from_a_savepoint_deletes_what_others_have_left(
    kept: Path, log: RebuiltSparkLog, tmp_path: Path
) -> None:
    """Only what was noted before: a start that comes later may still put its incarnation into head."""
    first, second, third = ("a" * 20, "c" * 20, "d" * 20)
    for incarnation in (first, second):
        noted = log.announce(incarnation)
        shutil.copytree(kept, log.folder(incarnation))
        log.keep_first_state(incarnation, 4, files.NEWEST)
    log.announce(third)
    assert list(noted) == [first]
    log.settle(second, noted)
    states = tmp_path / "states"
    assert sorted(path.parent.name for path in states.rglob("*.state")) == [LIFE, second]
    assert [path.name for path in (states / "births").iterdir()] == [third]

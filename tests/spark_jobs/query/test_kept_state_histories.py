"""Kept states after damage, and of a history that head has left: a start takes the state that head has decided."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from eos.errors import ConnectorError
from spark_jobs.query import kept_state
from spark_jobs.query.kept_state import StateStore
from spark_jobs.query.rebuilt_spark_log import RebuiltSparkLog
from spark_jobs.query.state_files import needed
from spark_jobs.query.state_keeping import StateKeeping
from tests import savepoint_files as files
from twophase.head_value import HeadValue
from twophase.ids import Scope
from twophase.local_blobs import LocalBlobStore
from twophase.status import Status
from twophase.values import CheckpointRecord
from wal.errors import StorageError
from wal.local import LocalStorage, LocalWriter
from wal.storage import Storage

NEWEST = files.NEWEST


def _status(epoch: int, completed: int, plans: Callable[[int], str] = files.offsets) -> Status:
    head = HeadValue("orders", files.INCARNATION, epoch, ("n",), completed=completed, query_id="query")
    records = [
        CheckpointRecord(Scope(files.INCARNATION, epoch, n, 1), {}, plans(n), {}, 0.0, 0.0)
        for n in range(completed, -1, -1)
    ]
    return Status(head, tuple(records))


class Machine(RebuiltSparkLog):
    """One driver's machine; all of them share a bucket."""

    def __init__(self, at: Path, status: Status, bucket: Callable[[], Storage]) -> None:
        shelf = at.with_name("ended")
        shelf.mkdir(exist_ok=True)
        super().__init__(at, lambda: status, lambda: nullcontext(LocalBlobStore(shelf)), StateKeeping(bucket))

    def start(self) -> Path:
        self.state(files.INCARNATION)
        status = self.newest()
        assert status is not None
        self.restore_state(status.head)
        return self.folder(files.INCARNATION)


@pytest.fixture
def spark(tmp_path: Path) -> Path:
    return files.run_until(tmp_path / "state")


@pytest.fixture
def bucket(tmp_path: Path) -> Callable[[], Storage]:
    return lambda: LocalStorage(tmp_path / "bucket")


def _other(spark: Path, to: Path, checkpoint_id: int, letter: str) -> Callable[[int], str]:
    """Let another history's folder differ from this checkpoint on. Returns its plans."""
    shutil.copytree(spark, to)

    def plan(number: int) -> str:
        return files.offsets(number) + (" " if number >= checkpoint_id else "")

    for number in range(checkpoint_id, NEWEST + 1):
        (to / "offsets" / str(number)).write_text(plan(number))
        ids = {
            "0": [
                [unique.replace("0000-0000", f"{letter * 4}-{letter * 4}", 1) for unique in each]
                for each in files.IDS["0"]
            ]
        }
        (to / "commits" / str(number)).write_text("v2\n" + json.dumps({"stateUniqueIds": ids}))
        for partition, (unique,) in enumerate(files.IDS["0"]):
            store = to / "state" / "0" / str(partition)
            (store / f"{number + 1}_{unique}.zip").rename(store / f"{number + 1}_{ids['0'][partition][0]}.zip")
    return plan


def test_a_damaged_state_leaves_nothing_in_the_folder_of_the_state_before(
    spark: Path, bucket: Callable[[], Storage], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark would take the batch for done, and the next driver the damaged files for whole."""
    monkeypatch.setattr(kept_state, "_SPARSE", 1000)
    store = StateStore(bucket(), files.INCARNATION, 1)
    store.keep(spark, NEWEST - 1)
    before = set(bucket().names(files.INCARNATION))
    store.keep(spark, NEWEST)
    (pack,) = (name for name in set(bucket().names(files.INCARNATION)) - before if name.endswith(".files"))
    path = tmp_path / "bucket" / pack
    path.write_bytes(path.read_bytes()[:-1] + b"?")

    second = Machine(tmp_path / "two", _status(2, NEWEST), bucket)
    folder = second.start()
    second.states.wait(NEWEST - 1)
    assert sorted(each.name for each in (folder / "commits").iterdir()) == [str(NEWEST - 1)]
    assert not second.is_done(files.INCARNATION, NEWEST)


def test_the_state_of_a_history_that_head_has_left_is_not_taken(
    spark: Path, bucket: Callable[[], Storage], tmp_path: Path
) -> None:
    """Head and the sinks are set back to an older moment, and the objects of newer drivers stay in the bucket."""
    plans = _other(spark, tmp_path / "other", NEWEST - 1, "a")
    left = StateStore(bucket(), files.INCARNATION, 7)  # after three restarts
    left.keep(spark, NEWEST - 2)
    left.keep(spark, NEWEST - 1)
    now = StateStore(bucket(), files.INCARNATION, 5)  # head was set back to epoch 4
    now.keep(tmp_path / "other", NEWEST - 1)
    folder = Machine(tmp_path / "two", _status(6, NEWEST, plans), bucket).start()
    assert (folder / "commits" / str(NEWEST - 1)).read_text() == (
        tmp_path / "other" / "commits" / str(NEWEST - 1)
    ).read_text()


def test_the_state_of_a_history_that_head_has_left_blocks_nothing(
    spark: Path, bucket: Callable[[], Storage], tmp_path: Path
) -> None:
    """The same, of head's newest checkpoint, whose state was not kept: the state before it is there."""
    plans = _other(spark, tmp_path / "other", NEWEST, "a")
    left = StateStore(bucket(), files.INCARNATION, 7)
    left.keep(spark, NEWEST - 1)
    left.keep(spark, NEWEST)
    folder = Machine(tmp_path / "two", _status(6, NEWEST, plans), bucket).start()
    assert not (folder / "commits" / str(NEWEST)).exists()
    assert (folder / "commits" / str(NEWEST - 1)).exists()


def test_a_restart_in_the_same_folder_does_not_take_a_left_history_for_its_own(
    spark: Path, bucket: Callable[[], Storage], tmp_path: Path
) -> None:
    """Otherwise the next checkpoint is decided, and its state before is nowhere."""
    plans = _other(spark, tmp_path / "other", NEWEST, "a")
    left = StateStore(bucket(), files.INCARNATION, 6)
    left.keep(spark, NEWEST - 1)
    left.keep(spark, NEWEST)
    machine = Machine(tmp_path / "two", _status(6, NEWEST, plans), bucket)
    folder = machine.folder(files.INCARNATION)
    (tmp_path / "other").rename(folder)
    status = _status(6, NEWEST, plans)
    machine.state(files.INCARNATION)
    machine.restore_state(replace(status.head, epoch=8))
    machine.await_state(NEWEST)
    following = Machine(tmp_path / "three", _status(9, NEWEST, plans), bucket).start()
    assert (following / "commits" / str(NEWEST)).read_text() == (folder / "commits" / str(NEWEST)).read_text()


def test_a_manifest_that_is_damaged_leaves_the_state_before(
    spark: Path, bucket: Callable[[], Storage], tmp_path: Path
) -> None:
    store = StateStore(bucket(), files.INCARNATION, 1)
    store.keep(spark, NEWEST - 1)
    store.keep(spark, NEWEST)
    manifest = tmp_path / "bucket" / files.INCARNATION / f"{NEWEST:012d}.00000001.state"
    manifest.write_bytes(manifest.read_bytes()[:-9])
    folder = Machine(tmp_path / "two", _status(2, NEWEST), bucket).start()
    assert (folder / "commits" / str(NEWEST - 1)).exists()


class _FailsOnce(LocalStorage):
    has_failed = False

    def create(self, name: str) -> LocalWriter:
        if not self.has_failed:
            self.has_failed = True
            raise StorageError("the bucket does not answer")
        return super().create(name)


def test_a_state_that_could_not_be_sent_is_noticed_while_there_is_nothing_to_do(spark: Path, tmp_path: Path) -> None:
    """The records may be gone when the machine is."""
    storage = _FailsOnce(tmp_path / "bucket")
    status = _status(2, NEWEST)
    machine = Machine(tmp_path / "two", status, lambda: storage)
    spark.rename(machine.folder(files.INCARNATION))
    machine.restore_state(status.head)
    machine.keep_state(status.head)
    sent = machine.states._newest[1]
    assert sent is not None
    assert isinstance(sent.exception(), StorageError)
    with pytest.raises(ConnectorError, match="the bucket does not answer"):
        machine.keep_state(status.head)  # as the run does, each 0.2 seconds


def test_a_kept_state_has_the_bytes_of_its_driver(bucket: Callable[[], Storage], tmp_path: Path) -> None:
    """Another driver had begun a rescale as checkpoint 4, kept its state, and was killed before head decided it.

    Both have files of one name: Spark's plan of the batch, and what `transformWithState` writes at each start.
    """
    plans = {number: files.offsets(number) for number in range(NEWEST + 1)}
    own, rescaled = files.run_until(tmp_path / "own"), files.run_until(tmp_path / "rescaled")
    operator = "state/0/_metadata/v2/4"
    describe = 'v2\n{{"operatorInfo":{{"operatorId":0,"operatorName":"x"}},"numPartitions":{}}}'.format
    files.put(own / operator, describe(2))
    files.put(rescaled / operator, describe(8))
    (rescaled / "offsets" / "4").write_text(files.offsets(4).replace('"2"', '"8"'))
    StateStore(bucket(), files.INCARNATION, 3, plans).keep(own, 3)
    StateStore(bucket(), files.INCARNATION, 4, plans).keep(rescaled, 4, is_decided=False)
    driver = StateStore(bucket(), files.INCARNATION, 5, plans)
    assert driver.restore(tmp_path / "begun", 3) is not None
    driver.keep(own, 4)
    sent = driver.keep(own, NEWEST)
    new = {*needed(own, NEWEST)} - {*needed(own, 4)}
    assert sent == sum((own / path).stat().st_size for path in new), "what it has sent before is used"
    restored = tmp_path / "restored"
    assert StateStore(bucket(), files.INCARNATION, 6, plans).restore(restored, NEWEST) is not None
    assert (restored / operator).read_text() == describe(2).replace(": ", ":")
    assert (restored / "offsets" / "4").read_text() == files.offsets(4)
    other = {path for path in needed(own, NEWEST) if (restored / path).read_bytes() != (own / path).read_bytes()}
    assert other <= {operator, "state/0/_metadata/metadata"}, "they are written for their folder"

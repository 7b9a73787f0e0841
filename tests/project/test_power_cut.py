"""What the project calls durable is there after a power cut, and each sync is needed for that: none can be left out."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pyarrow as pa
import pytest

from spark_jobs.observe.report import Listener
from spark_jobs.operations import spark_rewriting
from spark_jobs.query.spark_log import LocalSparkLog
from spark_jobs.query.truncated_files import commit_is_cut
from spark_jobs.run.checkpoints import Checkpoints
from spark_jobs.savepoints import manifest as manifests
from spark_jobs.savepoints import plan as plans
from spark_jobs.savepoints.plan import Plan
from spark_jobs.savepoints.take import Taken, take
from tests import savepoint_files as files
from tests.power_cut import Content, Names, disk, empty, survives
from tests.savepoint_files import folder_of
from tests.spark_jobs.observe.test_history_recorder import Numbered
from tests.twophase.test_effects import Setting
from tests.twophase_values import INCARNATION
from twophase.documents import LocalDocuments
from twophase.driver import Driver
from twophase.head import Versioned
from twophase.local_head import LocalHead
from twophase.status import read_status
from wal.durable import sync, sync_folder
from wal.local import LocalStorage
from wal.private import make_private
from wal.segment import SegmentRef, SegmentWriter, read_segment

ROWS = pa.table({"id": list(range(40))})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty folder whose own name is durable."""
    folder = tmp_path / "disk"
    folder.mkdir()
    return folder


@pytest.fixture
def location(root: Path) -> Path:
    """A `checkpoint.location` below folders that a start has to create."""
    return root / "data" / "pipelines" / "orders"


def test_a_swap_of_head_and_its_record(root: Path, location: Path) -> None:
    def write() -> None:
        store = LocalHead(location)
        store.put_record("one.json", b"a record")
        assert store.swap(None, b"decided")

    def check() -> None:
        store = LocalHead(location)
        assert store.read() == Versioned(1, b"decided")
        assert store.get_record("one.json") == b"a record"

    assert survives(root, write, check) == set()


def test_a_request_beside_head(root: Path, location: Path) -> None:
    def write() -> None:
        assert LocalHead(location).blobs("requests").put("one.json", b"stop")

    def check() -> None:
        assert LocalHead(location).blobs("requests").get("one.json") == b"stop"

    assert survives(root, write, check) == set()


def test_folders_that_another_process_created_and_did_not_sync(root: Path, location: Path) -> None:
    """It was killed, or is about to sync them; or the user created them a moment ago."""

    def write() -> None:
        make_private(location / "head")
        assert LocalHead(location).swap(None, b"decided")

    def check() -> None:
        assert LocalHead(location).read() == Versioned(1, b"decided")

    assert survives(root, write, check) == set()


@pytest.mark.parametrize("prepared", [True, False])
def test_a_segment_of_the_log(root: Path, location: Path, prepared: bool) -> None:
    sealed: list[SegmentRef] = []

    def write() -> None:
        storage = LocalStorage(location / "log")
        if prepared:
            make_private(location / "log" / "life" / "sink")  # by another process
            storage.prepare("life/sink")
        writer = SegmentWriter(storage, "life/sink/one.segment", ROWS.schema)
        writer.write(ROWS.to_batches()[0])
        sealed.append(writer.seal())

    def check() -> None:
        assert pa.Table.from_batches(read_segment(LocalStorage(location / "log"), sealed[-1])).equals(ROWS)

    assert survives(root, write, check) == set()


_ORDERS: Final[Any] = SimpleNamespace(name="orders", lost_ranges=lambda _ranges: [])


class _Run:
    """A pipeline whose Spark plans batches and syncs nothing, as Spark does."""

    def __init__(self, location: Path) -> None:
        self.setting = Setting(location)
        self.log = LocalSparkLog(location)
        self.folder = self.log.folder(INCARNATION)
        self.driver = self.started()

    def started(self) -> Driver:
        driver = self.setting.driver()
        driver.spark = self.log
        driver.start()
        return driver

    def complete(self, *numbers: int) -> None:
        checkpoints = Checkpoints(self.driver, self.log, Listener(), [_ORDERS])
        self._write(self.folder / "metadata", '{"id":"q-1"}')
        for number in numbers:
            self._write(self.folder / "offsets" / str(number), _plan(number))
            checkpoints.complete(Numbered(self.setting.sink, checkpoint_id=number))
            self._write(self.folder / "commits" / str(number), "v1\n{}")
        self.driver.close()

    @staticmethod
    def _write(path: Path, content: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        (path.parent / f".{path.name}.crc").write_text("sums of it")


def _plan(number: int) -> str:
    began = {"positions": {"orders/0": 0}, "identities": {}}
    offset = {"source": "orders", "ends": {"orders/0": 10 * number + 10}, "began": began}
    return f'v1\n{{"batchWatermarkMs":0,"conf":{{}}}}\n{json.dumps(offset)}'


class _Completed:
    """A pipeline that has completed checkpoints, and what has to be there of it after a power cut."""

    def __init__(self, location: Path, numbers: tuple[int, ...]) -> None:
        self.location = location
        self.numbers = numbers
        self.runs: list[_Run] = []

    def write(self) -> None:
        self.runs.append(_Run(self.location))
        self.runs[-1].complete(*self.numbers)

    def check(self) -> None:
        run, newest = self.runs[-1], self.numbers[-1]
        status = read_status(LocalHead(self.location))
        assert status is not None
        assert (status.head.completed, status.head.query_id) == (newest, "q-1")
        assert max(each.checkpoint_id for each in status.checkpoints) == newest
        for number in self.numbers:
            assert run.log.offsets_log(INCARNATION, number) == _plan(number)
            assert (run.folder / "offsets" / f".{number}.crc").read_text() == "sums of it"
        for number in self.numbers[:-1]:  # Spark can run the newest batch again
            assert not commit_is_cut(run.folder / "commits" / str(number))
            assert (run.folder / "commits" / f".{number}.crc").read_text() == "sums of it"
        assert run.started().owned.completed == newest, "a start is refused, or takes less for completed"


@pytest.mark.parametrize("numbers", [(0,), (0, 1, 2)])
def test_a_completed_checkpoint(root: Path, location: Path, numbers: tuple[int, ...]) -> None:
    completed = _Completed(location, numbers)
    assert survives(root, completed.write, completed.check) == set()


@pytest.mark.parametrize("name", ["sync_offsets", "sync_query"])
def test_a_checkpoint_that_does_not_sync_what_spark_wrote(
    root: Path, location: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(LocalSparkLog, name, lambda *_: None)
    completed = _Completed(location, (0, 1))
    with pytest.raises((AssertionError, OSError)):
        survives(root, completed.write, completed.check)


def test_a_savepoint(root: Path, tmp_path: Path) -> None:
    files.run_until(tmp_path / "state")
    spec, taken = files.spec_in(tmp_path), list[Taken]()
    files.keep_plan(tmp_path / "state", spec)

    def write() -> None:
        taken.append(take(spec, root / "kept" / "orders"))

    def check() -> None:
        assert manifests.checked(folder_of(taken[-1])) == taken[-1].manifest

    assert survives(root, write, check) == set()


def test_a_start_from_a_savepoint(root: Path, location: Path, tmp_path: Path) -> None:
    files.run_until(tmp_path / "state")
    taken = take(files.spec_in(tmp_path))
    folder = LocalSparkLog(location).folder("a new life")
    written: list[dict[Path, bytes]] = []

    def write() -> None:
        make_private(folder)
        spark_rewriting.write(folder_of(taken), taken.manifest, folder, ["s"], {0: 0})
        written.append(_contents(folder))

    def check() -> None:
        assert _contents(folder) == written[-1]

    assert survives(root, write, check) == set()
    assert len(written[-1]) > 10


def test_the_names_of_the_steps(root: Path, location: Path) -> None:
    """An older plan in its place would have a savepoint name other steps."""

    def write() -> None:
        for source in ("older", "newer"):
            plans.keep(LocalDocuments(location), INCARNATION, Plan((source,)))

    def check() -> None:
        assert plans.kept(LocalDocuments(location), INCARNATION) == Plan(("newer",))

    assert survives(root, write, check) == set()


def _contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_power_cut_is_one(root: Path) -> None:
    """What is synced is there, what is not is gone or cut, and what was removed without a sync is back."""
    for name in ("before", "removed"):
        (root / name).write_bytes(b"12345678")

    def left(names: Names, content: Content) -> dict[str, bytes]:
        empty(root)
        for name in ("before", "removed"):
            (root / name).write_bytes(b"12345678")
        with disk(root) as found:
            (root / "removed").unlink()
            for name in ("synced", "cut"):
                (root / name).write_bytes(b"abcdef")
            with (root / "synced").open("rb") as file:
                os.fsync(file.fileno())
            sync_folder(root)
            (root / "before").rename(root / "after")
            (root / "new").mkdir()
            (root / "new" / "file").write_bytes(b"abcdef")
            found.cut(names, content)
            assert found.synced == ["synced", "."]
        return {path.relative_to(root).as_posix(): data for path, data in _contents(root).items()}

    synced = {"synced": b"abcdef"}
    assert left(Names.UNDONE, Content.EMPTY) == {"before": b"12345678", "cut": b"", **synced}
    assert left(Names.UNDONE, Content.HALF) == {"before": b"12345678", "cut": b"abc", **synced}
    kept = {"after": b"12345678", **synced}
    assert left(Names.KEPT, Content.EMPTY) == {**kept, "cut": b"", "new/file": b""}
    assert left(Names.KEPT, Content.HALF) == {**kept, "cut": b"abc", "new/file": b"abc"}


def test_what_comes_back_is_what_was_removed_without_a_sync(root: Path) -> None:
    (root / "removed").write_bytes(b"x")
    with disk(root) as found:
        (root / "removed").unlink()
        found.cut(Names.UNDONE, Content.EMPTY)
    assert _contents(root) == {root / "removed": b"x"}


def test_a_sync_of_everything(root: Path) -> None:
    with disk(root) as found:
        (root / "new").mkdir()
        (root / "new" / "file").write_bytes(b"x")
        os.sync()
        (root / "late").write_bytes(b"x")
        found.cut(Names.UNDONE, Content.EMPTY)
    assert _contents(root) == {root / "new" / "file": b"x"}


def test_a_sync_that_nothing_needs_is_named(root: Path) -> None:
    def write() -> None:
        (root / "file").write_bytes(b"x")
        sync(root / "file")
        sync_folder(root)

    assert survives(root, write, lambda: (root / "file").stat()) == {"file"}

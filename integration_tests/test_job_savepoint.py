"""Savepoints of jobs of the user's own: taken while they run or not, restored, and killed at each point of both."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from integration_tests.harness.hdfs import Folder
from integration_tests.harness.jobs import Jobs
from integration_tests.harness.pipeline_process import PROJECT, PipelineProcess
from spark_jobs.observe.history.store import History
from spark_jobs.savepoints import manifest as manifests
from twophase.codec import decode_head
from twophase.head_value import HeadValue
from twophase.local_head import LocalHead
from wal.hdfs import HdfsClient

pytestmark = [pytest.mark.in_turns, pytest.mark.timeout(900)]

_JOB = PROJECT / "integration_tests" / "jobs" / "counting.py"
_WORDS = 5
_ROWS = 40  # of a file, which is a checkpoint
_TAKEN = ("savepoint-pinned", "savepoint-copied")
_SPEC = """\
pipeline: counting
checkpoint: {location: ./head}
sinks:
  - {name: out, connector: sqlite, path: ./out.db, table: words, create: if-missing, commit: write-ahead-log}
"""


@dataclass
class _Counting:
    """The job, its files and its table."""

    jobs: Jobs
    folder: Path
    way: str  # counts or rows

    def write(self, *files: int) -> None:
        """Write these files: each one is a checkpoint."""
        (self.folder / "in").mkdir(exist_ok=True)
        for file in files:
            lines = [json.dumps({"id": number, "word": _word(number)}) for number in _ids(file)]
            (self.folder / f".{file}").write_text("\n".join(lines))
            (self.folder / f".{file}").rename(self.folder / "in" / f"{file:03}.json")

    def start(self, *, checkpoint: str = "spark", until: str = "until-read") -> PipelineProcess:
        return self.jobs.start(_JOB, str(self.folder / "in"), self.way, until, checkpoint=checkpoint)

    def refused(self, process: PipelineProcess, said: str) -> None:
        """It must end with an error, and change no head."""
        before = self.head
        assert process.wait() != 0, process.output()
        assert said in process.output(), process.output()
        assert self.head == before

    def take(self) -> Path:
        """Write a savepoint, which is whole."""
        process = self.jobs.command("savepoint", "sink.yaml", "kept", "--json")
        process.succeed()
        folder = Path(_facts(process)["folder"])
        assert manifests.damage(folder, manifests.read(folder)) == []
        return folder

    def restore(self, savepoint: Path, checkpoint: str, *options: str, arm: str = "") -> PipelineProcess:
        arguments = ["savepoint", "restore", "sink.yaml", str(savepoint), "--checkpoint", checkpoint, *options]
        return self.jobs.command(*arguments, arm=[arm] if arm else [])

    def rows(self) -> Counter[tuple[int, str]]:
        with closing(sqlite3.connect(self.folder / "out.db")) as database:
            return Counter(database.execute("SELECT id, word FROM words").fetchall())

    def expected(self, *files: int) -> Counter[tuple[int, str]]:
        """Rows of these checkpoints. A count is of all files up to its own one."""
        if self.way == "rows":
            return Counter((number, _word(number)) for file in files for number in _ids(file))
        each = _ROWS // _WORDS
        return Counter((each * (file + 1), _word(number)) for file in files for number in range(_WORDS))

    @property
    def head(self) -> HeadValue:
        read = LocalHead(self.folder / "head").read()
        assert read is not None
        return decode_head(read.value)


def _ids(file: int) -> range:
    return range(file * _ROWS, (file + 1) * _ROWS)


def _word(number: int) -> str:
    return f"w{number % _WORDS}"


def _facts(process: PipelineProcess) -> dict[str, Any]:
    output = process.output()
    found: dict[str, Any] = json.loads(output[output.index("{\n") :])
    return found


@pytest.fixture(params=["counts", "rows"])
def counting(tmp_path: Path, request: pytest.FixtureRequest, _first_run: None) -> Iterator[_Counting]:
    with closing(Jobs(tmp_path, "")) as jobs:
        (tmp_path / "sink.yaml").write_text(_SPEC)
        yield _Counting(jobs, tmp_path, request.param)


def test_killed_at_each_point_of_taking_and_of_restoring(counting: _Counting) -> None:
    counting.write(0, 1, 2)
    counting.start().succeed()
    for stem in _TAKEN:
        taking = counting.jobs.command("savepoint", "sink.yaml", "kept", arm=[stem])
        taking.await_point(stem)
        taking.kill()
        assert not list((counting.folder / "kept").glob("*[!l]")), "only an unfinished folder may be there"
    savepoint = counting.take()
    assert list((counting.folder / "kept").iterdir()) == [savepoint]
    assert list((counting.folder / "head" / "pins").iterdir()) == []
    manifest = manifests.read(savepoint)
    assert (manifest.checkpoint_id, manifest.later, manifest.state_bytes > 0) == (2, 0, counting.way == "counts")
    counting.write(3, 4)
    counting.start().succeed()
    assert counting.rows() == counting.expected(0, 1, 2, 3, 4)
    before = counting.head

    # Rows would be written twice, which has to be accepted.
    counting.refused(counting.restore(savepoint, "spark2"), "out has checkpoints up to 4")
    assert not (counting.folder / "spark2").exists()

    for stem in ("job-filled", "before-restore"):  # the incarnation before goes on
        restoring = counting.restore(savepoint, "spark2", "--accept-duplicates", arm=stem)
        restoring.await_point(stem)
        restoring.kill()
        assert counting.head.incarnation == before.incarnation
        assert not (counting.folder / "spark2").exists()
    counting.write(5)
    counting.start().succeed()
    assert counting.rows() == counting.expected(*range(6))

    for stem in ("after-restore", "job-restored"):  # the one that begins is not complete
        restoring = counting.restore(savepoint, "spark2", "--accept-duplicates", arm=stem)
        restoring.await_point(stem)
        restoring.kill()
        assert counting.head.incarnation != before.incarnation
        assert (counting.head.completed, (counting.folder / "spark2").exists()) == (2, False)
        assert counting.start(checkpoint="wrong").wait() != 0
        shutil.rmtree(counting.folder / "wrong")
    counting.restore(savepoint, "spark2", "--json").succeed()  # head is at the savepoint: nothing to accept
    assert [each.name for each in counting.folder.glob("spark2*")] == ["spark2"]

    # The folder before is not that of head's query any more, and rows are as they were.
    counting.write(6)
    counting.refused(counting.start(), "Spark's checkpoint is of query")
    assert counting.rows() == counting.expected(*range(6))

    # It goes on with offsets and state of the savepoint: the three checkpoints after it come twice.
    counting.start(checkpoint="spark2").succeed()
    assert counting.rows() == counting.expected(*range(7)) + counting.expected(3, 4, 5)
    assert (counting.head.completed, counting.head.committed) == (6, 6)
    counting.write(7)
    counting.start(checkpoint="spark2").succeed()
    assert counting.rows() == counting.expected(*range(8)) + counting.expected(3, 4, 5)
    messages = [each.message for each in History.at(counting.folder / "head").events()]
    assert sum("restored from savepoint" in each for each in messages) == 1


def test_of_a_running_job_whose_location_is_lost(counting: _Counting) -> None:
    """Killed beside its savepoint, with head and Spark's checkpoint gone: what Spark did not read yet is read once."""
    counting.write(0, 1, 2)
    running = counting.start(until="until-stopped")
    running.await_file(counting.folder / "spark" / "commits" / "2")
    savepoint = counting.take()
    assert running.exit_code is None
    assert manifests.read(savepoint).checkpoint_id == 2
    counting.write(3)
    running.await_file(counting.folder / "spark" / "commits" / "3")
    running.kill()
    shutil.rmtree(counting.folder / "spark")
    shutil.rmtree(counting.folder / "head")
    arguments = savepoint, "spark"
    process = counting.restore(*arguments)
    assert (process.wait(), "--take-over" in process.output()) == (1, True), process.output()
    process = counting.restore(*arguments, "--take-over")
    assert (process.wait(), "out has checkpoints up to 3" in process.output()) == (1, True), process.output()
    assert LocalHead(counting.folder / "head").read() is None
    counting.restore(*arguments, "--take-over", "--accept-duplicates").succeed()
    counting.write(4)
    counting.start().succeed()
    assert counting.rows() == counting.expected(*range(5)) + counting.expected(3)


@pytest.mark.parametrize("counting", ["rows"], indirect=True)
def test_what_does_not_fit_is_refused(counting: _Counting) -> None:
    counting.write(0, 1)
    counting.start().succeed()
    savepoint = counting.take()
    (counting.folder / "used").mkdir()
    (counting.folder / "used" / "mine").write_text("")
    counting.refused(counting.restore(savepoint, "used"), "is not empty: it has mine")
    counting.refused(counting.restore(savepoint, "s3a://bucket/spark"), "s3a://bucket/spark is not on a local disk")
    damaged = counting.folder / "damaged"
    shutil.copytree(savepoint, damaged)
    (damaged / "spark" / "sources" / "0" / "1").write_text("v1\n")
    counting.refused(counting.restore(damaged, "spark2"), "is damaged: spark/sources/0/1")
    spec = counting.folder / "sink.yaml"
    spec.write_text(_SPEC.replace("counting", "another"))
    counting.refused(counting.restore(savepoint, "spark2"), "belongs to pipeline 'counting'")
    spec.write_text(_SPEC)
    (counting.folder / "spark").rename(counting.folder / "gone")
    counting.refused(
        counting.jobs.command("savepoint", "sink.yaml", "kept"), "Spark's checkpoint of counting is not at"
    )
    counting.restore(savepoint, "spark").succeed()  # head is at the savepoint: nothing is written twice
    counting.write(2)
    counting.start().succeed()
    assert counting.rows() == counting.expected(0, 1, 2)


def test_a_checkpoint_in_hdfs_keeps_state_and_has_no_savepoint(counting: _Counting, hdfs_folder: Folder) -> None:
    """Killed between the decision and the end of its batch, which Spark repeats for its state."""
    url = str(hdfs_folder.address("jobs/spark"))
    counting.write(0, 1, 2)
    if counting.way == "rows":
        process = counting.start(checkpoint=url)
        assert process.wait() != 0
        assert f"{url} is not on a local disk: Spark plans and commits this format in Python" in process.output()
        return
    arguments = (_JOB, str(counting.folder / "in"), counting.way, "until-read")
    process = counting.jobs.start(*arguments, arm=["after-decide@1"], checkpoint=url)
    process.await_point("after-decide@1")
    process.kill()
    counting.start(checkpoint=url).succeed()
    assert counting.rows() == counting.expected(0, 1, 2)
    assert (counting.head.epoch, counting.head.committed) == (2, 2)
    assert any(name.startswith("state/") for name in hdfs_folder.listed("jobs/spark"))
    refused = counting.jobs.command("savepoint", "sink.yaml", "kept")
    refused.fail(f"Spark's checkpoint of counting is at {url}, and not on a local disk")
    assert list((counting.folder / "kept").iterdir()) == []


@pytest.mark.parametrize("counting", ["counts"], indirect=True)
def test_a_checkpoint_that_is_copied_to_hdfs_continues_there(counting: _Counting, hdfs_folder: Folder) -> None:
    """As after a restore, which fills a folder of a local disk."""
    counting.write(0, 1)
    counting.start().succeed()
    files = HdfsClient(hdfs_folder.address("jobs/spark"))
    copied = [path for path in (counting.folder / "spark").rglob("*") if path.is_file()]
    assert len(copied) > 10
    for path in copied:
        files.write(str(path.relative_to(counting.folder / "spark")), path.read_bytes())
    counting.write(2)
    counting.start(checkpoint=str(files.address)).succeed()
    assert counting.rows() == counting.expected(0, 1, 2)
    assert (counting.head.epoch, counting.head.committed) == (2, 2)

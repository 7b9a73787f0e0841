"""A job of one's own whose Spark checkpoint is in HDFS or in a bucket, read by Spark's own client (R4, H25).

Spark creates a plan (`offsets/N`) exclusively in HDFS, and not in a bucket, where a put may also land late.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from integration_tests.harness.hdfs import Folder
from integration_tests.harness.job_stores import CheckpointFolder, OnHdfs, OnS3
from integration_tests.harness.jobs import EXAMPLES, FILES, ROWS, Jobs, write_files
from integration_tests.harness.oracle import SinkTable, compare
from integration_tests.harness.pipeline_process import PipelineProcess
from tests.object_store import Bucket
from twophase.codec import decode_head
from twophase.head_value import HeadValue
from twophase.local_head import LocalHead

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns, pytest.mark.timeout(900)]

_JOB = EXAMPLES / "copy_files.py"

_EACH = pytest.mark.parametrize("checkpoint", ["hdfs", "s3a"], indirect=True)
"""Decorator of a test that runs in HDFS and in a bucket."""


@pytest.fixture
def checkpoint(request: pytest.FixtureRequest, jobs: Jobs, tmp_path: Path) -> CheckpointFolder:
    """Return an empty folder, which the jobs of this test reach."""
    if getattr(request, "param", "hdfs") == "hdfs":
        folder: Folder = request.getfixturevalue("hdfs_folder")
        return OnHdfs(folder)
    bucket: Bucket = request.getfixturevalue("bucket")
    made = OnS3(bucket, tmp_path / "jars.log")
    jobs.environment |= made.environment
    return made


class _Copy:
    """The job, its files and its table."""

    def __init__(self, jobs: Jobs, checkpoint: CheckpointFolder, database: str, folder: Path) -> None:
        self._jobs, self.checkpoint, self._folder = jobs, checkpoint, folder
        self.table = SinkTable(database, "records")
        self.table.create()
        self.expected = write_files(folder / "files")

    def start(self, *arm: str) -> PipelineProcess:
        return self._jobs.start(_JOB, str(self._folder / "files"), arm=arm, checkpoint=self.checkpoint.url)

    def start_at(self, stem: str) -> PipelineProcess:
        """Start a driver that stops at this point, and is as frozen as long as it is not released."""
        process = self.start(stem)
        process.await_point(stem)
        return process

    def assert_exact(self) -> None:
        verdict = compare(self.expected, self.table.rows())
        assert verdict.exact, str(verdict)
        assert verdict.in_sink == FILES * ROWS
        assert self.table.prepared(self.head.incarnation) == []

    def assert_refused_while_changed(self, stem: str, path: str, changed: Callable[[str], str], said: str) -> None:
        """Kill a driver at this point, with a file of its checkpoint changed. A start goes on once it is set back."""
        process = self.start_at(stem)
        decided = self.checkpoint.read(path)
        self.checkpoint.put(path, changed(decided))
        process.kill()
        refused = self.start()
        assert refused.wait() != 0
        assert said in refused.output()
        self.assert_clean()
        self.checkpoint.put(path, decided)
        self.start().succeed()
        self.assert_exact()

    def assert_clean(self) -> None:
        verdict = compare(self.expected, self.table.rows())
        assert verdict.clean, str(verdict)

    @property
    def head(self) -> HeadValue:
        read = LocalHead(self._folder / "checkpoints" / "copy-files").read()
        assert read is not None
        return decode_head(read.value)


@pytest.fixture
def copy(jobs: Jobs, checkpoint: CheckpointFolder, database: str, tmp_path: Path) -> _Copy:
    return _Copy(jobs, checkpoint, database, tmp_path)


@_EACH
def test_killed_at_every_point(copy: _Copy) -> None:
    stems = ("planned@0", "before-decide@1", "after-decide@2", "after-commits@3")
    for stem in stems:
        process = copy.start_at(stem)
        copy.assert_clean()
        process.kill()
    copy.start().succeed()
    copy.assert_exact()
    assert (copy.head.epoch, copy.head.committed) == (len(stems) + 1, FILES - 1)
    assert copy.head.query_id == json.loads(copy.checkpoint.read("metadata"))["id"]


@_EACH
@pytest.mark.parametrize("stem", ["planned@1", "before-decide@1"])
def test_a_frozen_driver_beside_its_successor_changes_nothing(copy: _Copy, stem: str) -> None:
    """The successor runs the plan that it finds, and fences the frozen driver by its epoch (R1)."""
    frozen = copy.start_at(stem)
    copy.start().succeed()
    copy.assert_exact()
    head = copy.head
    frozen.release(stem)
    assert frozen.wait() != 0
    assert "another driver of this pipeline has started since" in frozen.output()
    copy.assert_exact()
    assert copy.head == head


@_EACH
def test_h25_a_plan_that_a_late_put_has_written_over_is_not_decided(copy: _Copy) -> None:
    """Spark has in memory that batch 1 ends with the second file; the file says that it ends before it."""
    process = copy.start_at("planned@1")
    copy.checkpoint.put("offsets/1", _with_end(copy.checkpoint.read("offsets/1"), 0))
    process.release("planned@1")
    assert process.wait() != 0
    assert "another driver has written its own plan of this batch over Spark's" in process.output()
    assert copy.table.rows().total() == ROWS
    copy.start().succeed()  # runs the plan that the file has, and reads two files with the next one
    copy.assert_exact()
    assert copy.head.committed == FILES - 1


@pytest.mark.parametrize("stem", ["after-decide@1", "planned@2"])
def test_h25_a_plan_that_a_late_put_has_written_over_after_its_decision_is_not_continued(
    copy: _Copy, stem: str
) -> None:
    """Spark would begin batch 2 at the end that the file has, and write rows of batch 1 once more."""
    said = "Spark's offsets/1 is not what checkpoint 1 was decided with"
    copy.assert_refused_while_changed(stem, "offsets/1", lambda decided: _with_end(decided, 0), said)


@pytest.mark.parametrize("checkpoint", ["s3a"], indirect=True)
def test_h25_a_list_of_files_that_was_written_over_is_not_decided(copy: _Copy) -> None:
    """Spark has in memory that batch 1 reads the second file; the list says the first. The plans are equal."""
    process = copy.start_at("planned@1")
    ours = copy.checkpoint.read("sources/0/1")
    copy.checkpoint.put("sources/0/1", _as_list(copy.checkpoint.read("sources/0/0"), 1))
    process.release("planned@1")
    assert process.wait() != 0
    assert "another driver has written its own list of files over Spark's" in process.output()
    assert copy.table.rows().total() == ROWS
    refused = copy.start()  # Spark itself has the list in memory now, and would read the first file twice
    assert refused.wait() != 0
    assert "both name" in refused.output()
    assert copy.table.rows().total() == ROWS
    copy.checkpoint.put("sources/0/1", ours)
    copy.start().succeed()
    copy.assert_exact()
    assert copy.head.committed == FILES - 1


@pytest.mark.parametrize("checkpoint", ["s3a"], indirect=True)
@pytest.mark.parametrize("stem", ["after-decide@1", "planned@2"])
def test_h25_a_list_of_files_that_was_written_over_after_its_decision_is_not_continued(copy: _Copy, stem: str) -> None:
    """Spark would not know that the second file was read, and write its rows once more."""
    said = "Spark's list of files in sources/0 is not what checkpoint 1 was decided with"
    copy.assert_refused_while_changed(
        stem, "sources/0/1", lambda decided: decided.replace(_name(decided), "another.json"), said
    )


def test_a_checkpoint_of_another_query_is_refused(copy: _Copy) -> None:
    """As where two drivers begin at once, and one writes its id over the other's."""
    copy.start_at("planned@2").kill()
    copy.checkpoint.put("metadata", '{"id":"11111111-1111-4111-8111-111111111111"}')
    refused = copy.start()
    assert refused.wait() != 0
    assert "Spark's checkpoint is of query 11111111" in refused.output()
    copy.assert_clean()


def _with_end(offsets_log: str, end: int) -> str:
    """Return a plan with another end of its file source."""
    *before, source = offsets_log.split("\n")
    return "\n".join([*before, json.dumps({**json.loads(source), "logOffset": end}, separators=(",", ":"))])


def _as_list(content: str, number: int) -> str:
    """Return a list of Spark's file source under another number."""
    version, entry = content.split("\n")
    return f"{version}\n{json.dumps({**json.loads(entry), 'batchId': number}, separators=(',', ':'))}"


def _name(content: str) -> str:
    """Return the name of the file in a list of one file."""
    return str(json.loads(content.split("\n")[1])["path"]).rpartition("/")[2]

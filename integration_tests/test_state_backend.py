"""`state.backend`: it may change between two runs, also after a kill, and each operator's state is in the history."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import pytest

from integration_tests.harness.command_line import CommandLine
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.harness.stores import move, put_location
from integration_tests.savepoints import keep_ids, rescale, succeed, take
from spark_jobs.observe.history.database import NAME
from spark_jobs.observe.history.store import History
from tests.object_store import Bucket

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_HALF = CHECKPOINT_RECORDS // 2
_BACKENDS = ("rocksdb-changelog", "rocksdb")
_POINTS = ("writing@1", "before-decide@2", "after-decide@4", "between-commits@5", "after-commits@6", "closed@8")


def _feed(pipeline: Pipeline) -> None:
    """Two checkpoints. Half of each is ids that come once more: a driver that has forgotten one writes it twice."""
    for _ in range(2):
        pipeline.workload.repeat(_HALF)
        pipeline.workload.produce(_HALF)


def _choose(pipeline: Pipeline, backend: str) -> None:
    pipeline.spec["state"] = {"backend": backend}


def _versions(folder: Path) -> set[str]:
    """The kinds of files in which Spark has stored versions of state."""
    return {path.suffix for path in folder.glob("**/state/0/*/*_*") if path.suffix in {".zip", ".changelog"}}


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("stored", [False, True], ids=["folder", "store"])
def test_the_backend_changes_after_each_kill(pipeline: Pipeline, bucket: Bucket, stored: bool) -> None:
    keep_ids(pipeline)
    if stored:
        put_location(pipeline, bucket)
    for stem, backend in zip(_POINTS, cycle(_BACKENDS), strict=False):
        _feed(pipeline)
        _choose(pipeline, backend)
        if stored:
            move(pipeline)
        process = pipeline.start(arm=[stem])
        process.await_point(stem)
        assert pipeline.verdict().clean, stem
        process.kill()
    for backend in _BACKENDS:
        pipeline.workload.repeat(len(pipeline.workload.expected))
        _choose(pipeline, backend)
        if stored:
            move(pipeline)
        pipeline.catch_up()
        pipeline.assert_exact(at_least=len(pipeline.workload.expected))
    assert _versions(pipeline.folder) == {".zip", ".changelog"}


@pytest.mark.timeout(900)
def test_a_savepoint_of_changes_and_a_rescaling(pipeline: Pipeline, eos: CommandLine, tmp_path: Path) -> None:
    """The savepoint of one backend is the begin of the other, twice; the state is divided anew in between."""
    keep_ids(pipeline)
    changes, files = _BACKENDS
    for backend, other, partitions in ((changes, files, 3), (files, changes, 2)):
        for _ in range(3):
            _choose(pipeline, backend)
            _feed(pipeline)
            succeed(pipeline, eos)
        folder = take(pipeline, eos, tmp_path / backend)
        kinds = _versions(folder)
        assert ".changelog" in kinds if backend == "rocksdb-changelog" else kinds == {".zip"}
        _choose(pipeline, other)
        succeed(pipeline, eos, "--from-savepoint", str(folder))
        pipeline.workload.repeat(len(pipeline.workload.expected))
        succeed(pipeline, eos)
        _choose(pipeline, backend)
        pipeline.spec["spark"]["conf"]["spark.sql.shuffle.partitions"] = partitions
        rescale(pipeline, eos, partitions)
        pipeline.workload.repeat(len(pipeline.workload.expected))
        succeed(pipeline, eos)
        pipeline.assert_exact(at_least=len(pipeline.workload.expected))


@pytest.mark.timeout(600)
def test_the_state_of_each_operator_is_in_history_and_status(pipeline: Pipeline, eos: CommandLine) -> None:
    keep_ids(pipeline)
    pipeline.workload.produce(2 * CHECKPOINT_RECORDS)
    pipeline.catch_up()
    produced = len(pipeline.workload.expected)
    history = History(pipeline.location / NAME)
    size = history.state()
    assert size is not None
    assert size.checkpoint_id == pipeline.head.completed == 1
    (once,) = size.by_operator
    assert (once.step, once.operator, once.rows, once.updated) == ("once", "dedupe", produced, CHECKPOINT_RECORDS)
    assert once.memory_bytes > 0
    assert once.commit_ms > 0
    before = history.checkpoint(0)
    assert before is not None
    assert before.state[0].rows == CHECKPOINT_RECORDS
    ended = eos.run(["status", str(pipeline.write_spec())], pipeline.environment)
    assert "state after checkpoint 1" in ended.output
    assert f"once dedupe {produced:,} " in " ".join(ended.output.split())

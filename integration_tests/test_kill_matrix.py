"""`kill -9` at every named point of a checkpoint's life: nothing is lost, nothing doubled, nothing left prepared."""

from __future__ import annotations

import os
import signal

import pytest

from integration_tests.harness.kills import Kill, kill_at_each
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.services import Services

_RECORDS = 10 * CHECKPOINT_RECORDS

_KILLS = (
    Kill("reading", 0, (0, 1)),
    Kill("prepared@0", 0, (1, 2)),
    Kill("after-decide@0", 0, (2,)),
    # The start after that commits checkpoint 0: killed while it does, it does so again.
    Kill("between-commits@0", 0.5, (1,)),
    Kill("closed@1", 2, (0,)),
    Kill("writing@2", 2, (0, 1)),
    Kill("before-decide@3", 3, (2,)),
    Kill("after-commits@5", 6, (0,)),
)


@pytest.mark.in_turns  # every run kills at these points in test_matrix
@pytest.mark.timeout(1200)
def test_killed_at_every_point(pipeline: Pipeline) -> None:
    pipeline.workload.produce(_RECORDS)
    kill_at_each(pipeline, _KILLS)
    pipeline.catch_up()
    pipeline.assert_exact(at_least=_RECORDS)
    assert pipeline.head.epoch == len(_KILLS) + 1


@pytest.mark.in_turns
@pytest.mark.timeout(1200)
def test_a_worker_killed_while_it_writes(pipeline: Pipeline) -> None:
    """`local[2]` tries no task twice: the checkpoint is aborted, and the runner restarts in a fresh epoch by itself."""
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(arm=["writing@1"])
    os.kill(process.await_point("writing@1"), signal.SIGKILL)
    process.succeed()
    assert "restarting" in process.output()
    assert pipeline.head.epoch == 2
    pipeline.assert_exact(at_least=_RECORDS)


@pytest.mark.in_turns
@pytest.mark.timeout(600)
@pytest.mark.any_server
def test_sparks_jvm_killed_while_branches_are_prepared(pipeline: Pipeline) -> None:
    """The driver lives on without it, and must not decide over the acknowledgements that came so far."""
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(arm=["prepared@1"])
    process.await_point("prepared@1")
    process.kill_java()
    process.release("prepared@1")
    assert process.wait() == 1
    assert "error: checkpoint 1 failed: Spark's JVM has ended" in process.output()  # beside traces of PySpark's own
    assert pipeline.verdict().in_sink == CHECKPOINT_RECORDS
    pipeline.catch_up()
    pipeline.assert_exact(at_least=_RECORDS)


@pytest.mark.timeout(1200)
def test_the_servers_killed_while_branches_are_prepared(killable: Services, pipeline: Pipeline) -> None:
    """Decided but not committed, prepared but not decided, half written, reading: it comes through by itself."""
    pipeline.workload.produce(_RECORDS)
    points = ("after-decide@1", "before-decide@2", "writing@3")
    process = pipeline.start(arm=points)
    for stem in points:
        process.await_point(stem)
        killable.kill_database()
        process.release(stem)
        killable.start_database()
    process.faults.arm("reading")
    process.await_point("reading")
    killable.kill_kafka()
    process.release("reading")
    killable.start_kafka()
    process.succeed()
    pipeline.assert_exact(at_least=_RECORDS)

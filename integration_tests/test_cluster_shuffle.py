"""H1: an executor dies, a new attempt of the stage begins, and a task of the old attempt prepares late. R5 and R9."""

from __future__ import annotations

import os
import signal
import time

import pytest

from integration_tests.cluster.pipeline import ClusterPipeline
from integration_tests.cluster.standalone import Cluster
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS
from integration_tests.harness.pipeline_process import PipelineProcess
from twophase.ids import TransactionId

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 3 * CHECKPOINT_RECORDS
_WRITING = ("writing", "writing@0")
"""A point for each of the two tasks that write."""
_LOCKED_S = 120.0
_SHUFFLED = "SELECT /*+ REPARTITION(2, id) */ id, word, payload FROM incoming"


@pytest.mark.timeout(1200)
def test_spark_accepts_the_old_attempt_after_the_new_one_has_prepared(cluster_pipeline: ClusterPipeline) -> None:
    pipeline, cluster = cluster_pipeline, cluster_pipeline.cluster
    pipeline.spec["transforms"][0]["sql"] = _SHUFFLED
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(arm=_WRITING)
    stems, tasks = _writers(process, cluster)
    _lose(cluster, tasks[1])
    process.faults.arm(stems[tasks[1]])
    renewed = process.await_point(stems[tasks[1]])
    assert cluster.partition_of(renewed) == 0
    assert "FetchFailed" in pipeline.spark_log()

    process.faults.arm("prepared@0")
    process.release(stems[tasks[0]])
    assert process.await_point("prepared@0") == tasks[0]
    (old,) = _prepared(pipeline)
    process.faults.arm("prepared")
    process.release(stems[tasks[1]])
    assert process.await_point("prepared") == renewed
    assert old in _prepared(pipeline), "no attempt may touch the branch of another one"
    (new,) = set(_prepared(pipeline)) - {old}
    assert (old.task, new.task) == (0, 0)
    assert old.task_attempt < new.task_attempt

    # Spark hears of the old attempt first.
    process.faults.arm("before-decide@0")
    process.release("prepared@0")
    process.await_point("before-decide@0")
    assert {old, new} < set(_prepared(pipeline))
    process.release("prepared")
    process.faults.arm("after-commits@0")
    process.release("before-decide@0")
    process.await_point("after-commits@0")
    assert pipeline.verdict().in_sink == CHECKPOINT_RECORDS
    witnessed = pipeline.table.execute("SELECT task, task_attempt FROM eos_witness ORDER BY task")
    assert witnessed[0] == (0, old.task_attempt)
    process.release("after-commits@0")

    process.succeed()
    assert "restarting" not in process.output()
    assert pipeline.head.epoch == 1
    pipeline.assert_exact(at_least=_RECORDS)


@pytest.mark.timeout(1200)
def test_a_new_attempt_finds_its_keys_locked_and_leaves_the_old_one_alone(cluster_pipeline: ClusterPipeline) -> None:
    """With a unique key only one of two attempts can write."""
    pipeline, cluster = cluster_pipeline, cluster_pipeline.cluster
    pipeline.spec["transforms"][0]["sql"] = _SHUFFLED
    pipeline.table.execute(f"ALTER TABLE `{pipeline.table.name}` ADD PRIMARY KEY (id)")
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(arm=_WRITING)
    stems, tasks = _writers(process, cluster)
    _lose(cluster, tasks[1])
    deadline = time.monotonic() + _LOCKED_S
    while "Lock wait timeout" not in (log := pipeline.spark_log()):
        assert time.monotonic() < deadline, f"no new attempt has met the locks of the old one:\n{log}"
        time.sleep(0.1)
    assert "FetchFailed" in log
    process.release(stems[tasks[0]])

    process.succeed()
    assert "restarting" not in process.output()
    assert pipeline.head.epoch == 1
    pipeline.assert_exact(at_least=_RECORDS)


def _writers(process: PipelineProcess, cluster: Cluster) -> tuple[dict[int, str], dict[int, int]]:
    """Of the two tasks that write: the point where each process waits, and the process of each partition."""
    stems = {process.await_point(stem): stem for stem in _WRITING}
    tasks = {cluster.partition_of(pid): pid for pid in stems}
    assert sorted(tasks) == [0, 1]
    return stems, tasks


def _lose(cluster: Cluster, task: int) -> None:
    """Kill its executor, which holds a share of the shuffle.

    When the task is tried again and misses that, all tasks that have not ended run anew, on the executor that comes
    for the dead one: number 0 first. On the other one the old attempt of number 0 still writes.
    """
    os.kill(cluster.executor_of(task), signal.SIGKILL)
    os.kill(task, signal.SIGKILL)


def _prepared(pipeline: ClusterPipeline) -> list[TransactionId]:
    found = pipeline.table.prepared_ids(pipeline.head.incarnation)
    return [each for each in map(TransactionId.parse, found) if each is not None]

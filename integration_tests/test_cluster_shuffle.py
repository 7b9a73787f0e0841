"""H1: an executor dies, a new attempt of the stage begins, and a task of the old attempt prepares late. R5 and R9."""

from __future__ import annotations

import os
import signal

import pytest

from integration_tests.cluster.pipeline import ClusterPipeline
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS
from twophase.ids import TransactionId

_RECORDS = 3 * CHECKPOINT_RECORDS


@pytest.mark.timeout(1200)
def test_spark_accepts_the_old_attempt_after_the_new_one_has_prepared(cluster_pipeline: ClusterPipeline) -> None:
    pipeline, cluster = cluster_pipeline, cluster_pipeline.cluster
    pipeline.spec["transforms"][0]["sql"] = "SELECT /*+ REPARTITION(2, id) */ id, word, payload FROM incoming"
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(arm=["writing", "writing@0"])  # one for each of the two tasks that write
    stems = {process.await_point(stem): stem for stem in ("writing", "writing@0")}
    tasks = {cluster.partition_of(pid): pid for pid in stems}
    assert sorted(tasks) == [0, 1]

    # The executor of task 1 dies with its share of the shuffle. When task 1 misses that, both tasks run anew on the
    # executor that comes for it, task 0 first; on the other one the old attempt of task 0 still writes.
    os.kill(cluster.executor_of(tasks[1]), signal.SIGKILL)
    os.kill(tasks[1], signal.SIGKILL)
    process.faults.arm(stems[tasks[1]])
    renewed = process.await_point(stems[tasks[1]])
    assert cluster.partition_of(renewed) == 0
    assert "FetchFailed" in (pipeline.location / "spark.log").read_text()

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


def _prepared(pipeline: ClusterPipeline) -> list[TransactionId]:
    found = pipeline.table.prepared_ids(pipeline.head.incarnation)
    return [each for each in map(TransactionId.parse, found) if each is not None]

"""`kill -9` on a cluster: of the driver at the points of a checkpoint's life, of executors, of Python, of a machine."""

from __future__ import annotations

import os
import signal

import pytest

from integration_tests.cluster.pipeline import ClusterPipeline
from integration_tests.harness.kills import Kill, assert_seen
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS
from integration_tests.harness.pipeline_process import PipelineProcess

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 8 * CHECKPOINT_RECORDS

_DRIVER_KILLS = (
    Kill("reading", 0, (0, 1)),
    Kill("prepared@0", 0, (1, 2)),
    Kill("after-decide@1", 1, (2,)),
    Kill("between-commits@2", 2.5, (1,)),
)


@pytest.mark.timeout(1200)
def test_the_driver_killed_at_every_point(cluster_pipeline: ClusterPipeline) -> None:
    """Its tasks outlive it: those that a point holds go on when the next driver is at a point of its own."""
    pipeline = cluster_pipeline
    pipeline.workload.produce(_RECORDS)
    killed: list[tuple[PipelineProcess, str]] = []
    for kill in _DRIVER_KILLS:
        process = pipeline.start(arm=[kill.stem])
        process.await_point(kill.stem)
        assert_seen(pipeline, kill)
        for earlier, stem in killed:
            earlier.release(stem)
        process.kill()
        killed.append((process, kill.stem))
    pipeline.catch_up()
    pipeline.assert_exact(at_least=_RECORDS)
    assert pipeline.head.epoch == len(_DRIVER_KILLS) + 1


@pytest.mark.timeout(1200)
def test_a_checkpoint_outlives_what_its_tasks_run_in(cluster_pipeline: ClusterPipeline) -> None:
    """An executor, a Python worker and a whole machine die in one run: tasks are tried again, no checkpoint is."""
    pipeline, cluster = cluster_pipeline, cluster_pipeline.cluster
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(arm=["writing@1", "writing@2", "prepared@3", "after-decide@4", "before-decide@3"])

    orphan = process.await_point("writing@1")
    os.kill(cluster.executor_of(orphan), signal.SIGKILL)  # its Python process lives on, with a connection of its own

    os.kill(process.await_point("writing@2"), signal.SIGKILL)
    process.release("writing@1")

    lost = cluster.worker_of(process.await_point("prepared@3"))
    left = set(pipeline.prepared())
    assert left
    cluster.kill_worker(lost)
    cluster.start_worker(lost)
    process.await_point("before-decide@3")
    assert left < set(pipeline.prepared()), "nobody but the driver may touch what the lost attempt has prepared"
    process.release("before-decide@3")

    process.await_point("after-decide@4")
    for number in range(len(cluster.workers)):
        cluster.kill_worker(number)
    process.release("after-decide@4")
    for number in range(len(cluster.workers)):
        cluster.start_worker(number)

    process.succeed()
    assert "restarting" not in process.output()
    assert pipeline.head.epoch == 1
    pipeline.assert_exact(at_least=_RECORDS)

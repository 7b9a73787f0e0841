"""A driver is killed. One that has waited goes on, or one that starts then: on the same machine, and on another one."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from integration_tests.cluster.pipeline import ClusterPipeline
from integration_tests.cluster.standalone import Cluster
from integration_tests.conftest import TopicFactory
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, Pipeline
from integration_tests.harness.pipeline_process import PipelineProcess
from integration_tests.harness.stores import assert_moved, move, put_location
from integration_tests.harness.takeovers import COLD_S, WARM_S, assert_within, await_rows, await_takeover, slowdown
from integration_tests.services import Services
from tests.object_store import Bucket
from tests.page_http import client_of

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 4 * CHECKPOINT_RECORDS
_IDLE_S = 90.0
"""Spark looks each ten seconds for workers that have been idle for a minute."""


def start(pipeline: Pipeline) -> PipelineProcess:
    return pipeline.command("run", "--standby", "--ui", "--ui-port", "0")


def shown_state(pipeline: Pipeline, process: PipelineProcess) -> tuple[str, int]:
    """The state on the page of this driver, and the status of its readiness probe."""
    client = client_of(process.output())
    return client.api(pipeline.workload.topic)["state"], client.get("/readyz").status


@pytest.mark.timeout(900)
@pytest.mark.parametrize("place", ["disk", "store"])
def test_a_standby_goes_on_where_a_killed_driver_was(pipeline: Pipeline, bucket: Bucket, place: str) -> None:
    if place == "store":
        put_location(pipeline, bucket)
    first = start(pipeline)
    pipeline.workload.produce(_RECORDS)
    await_rows(pipeline)
    drivers, takeovers = [first], []
    for _ in range(2):
        if place == "store":
            move(pipeline)
        standby = start(pipeline)
        standby.await_output("standby for ")
        time.sleep(15)  # Spark has started, and answers are heard
        assert standby.exit_code is None
        assert shown_state(pipeline, standby) == ("standby", 200)
        pipeline.workload.produce(_RECORDS)
        await_rows(pipeline)
        assert pipeline.head.epoch == len(drivers)
        before = slowdown()
        pipeline.workload.produce(_RECORDS)  # a part is under way, or is not read yet
        killed_s = time.monotonic()
        drivers[-1].kill()
        drivers.append(standby)
        takeovers.append(await_takeover(pipeline, killed_s, before))
        print(f"standby, {place}: {takeovers[-1]}")
        assert shown_state(pipeline, standby) == ("running", 200)
    drivers[-1].terminate()
    drivers[-1].succeed()
    pipeline.assert_exact(at_least=5 * _RECORDS)
    assert pipeline.head.epoch == len(drivers) == 3
    assert_within(WARM_S, takeovers)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("place", ["disk", "store"])
def test_a_driver_that_starts_after_the_kill_goes_on(pipeline: Pipeline, bucket: Bucket, place: str) -> None:
    """A supervisor starts it at once: Python, Java and Spark start first."""
    if place == "store":
        put_location(pipeline, bucket)
    driver = pipeline.start(until_caught_up=False)
    pipeline.workload.produce(_RECORDS)
    await_rows(pipeline)
    takeovers = []
    for _ in range(2):
        if place == "store":
            move(pipeline)
        before = slowdown()
        pipeline.workload.produce(_RECORDS)
        killed_s = time.monotonic()
        driver.kill()
        driver = pipeline.start(until_caught_up=False)
        takeovers.append(await_takeover(pipeline, killed_s, before))
        print(f"cold start, {place}: {takeovers[-1]}")
    driver.terminate()
    driver.succeed()
    pipeline.assert_exact(at_least=3 * _RECORDS)
    assert pipeline.head.epoch == len(pipeline.processes) == 3
    if place == "store":
        assert_moved(pipeline)
    assert_within(COLD_S, takeovers)


@pytest.mark.timeout(600)
def test_a_standby_keeps_its_workers_on_a_cluster(
    services: Services, database: str, topic: TopicFactory, tmp_path: Path
) -> None:
    """Spark ends a worker that is idle for a minute; the takeover's tasks run in those that have waited."""
    folder = tmp_path / "pipeline"
    folder.mkdir()
    name = topic(partitions=PARTITIONS)
    with (
        Cluster(tmp_path / "cluster", cores=2) as cluster,
        ClusterPipeline(folder, services.kafka_bootstrap, name, database, cluster) as pipeline,
    ):
        pipeline.conf["spark.cores.max"] = "2"
        pipeline.table.create()
        first = start(pipeline)
        pipeline.workload.produce(_RECORDS)
        await_rows(pipeline)
        of_first = {each.pid for each in cluster.tasks()}
        standby = start(pipeline)
        standby.await_output("standby for ")
        warm = {each.pid for each in cluster.tasks()} - of_first
        assert len(warm) >= 2 * 2  # a daemon and a worker on each of two executors
        time.sleep(_IDLE_S)
        assert warm <= {each.pid for each in cluster.tasks()}
        assert not of_first <= {each.pid for each in cluster.tasks()}  # those of an idle driver have ended
        before = slowdown()
        pipeline.workload.produce(_RECORDS)
        killed_s = time.monotonic()
        first.kill()
        takeover = await_takeover(pipeline, killed_s, before)
        print(f"standby, cluster: {takeover}")
        assert_within(WARM_S, [takeover])
        assert warm <= {each.pid for each in cluster.tasks()}
        standby.terminate()
        standby.succeed()
        pipeline.assert_exact(at_least=2 * _RECORDS)

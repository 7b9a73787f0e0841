"""A driver is killed, and one that has waited goes on: on the same machine, and on another one."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from integration_tests.cluster.pipeline import ClusterPipeline
from integration_tests.cluster.standalone import Cluster
from integration_tests.conftest import TopicFactory
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, Pipeline
from integration_tests.harness.pipeline_process import PipelineProcess
from integration_tests.harness.stores import move, put_location
from integration_tests.services import Services
from tests.object_store import Bucket
from tests.page_http import client_of

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 4 * CHECKPOINT_RECORDS
_IDLE_S = 90.0
"""Spark looks each ten seconds for workers that have been idle for a minute."""
_TAKEOVER_S = 30.0
"""Twice the time that it may take on two idle cores."""


def await_rows(pipeline: Pipeline, seconds: float = 120.0) -> float:
    """Wait until every record is visible; return how long that took."""
    begin = time.monotonic()
    while pipeline.verdict().in_sink < len(pipeline.workload.expected):
        assert time.monotonic() - begin < seconds
        time.sleep(0.05)
    return time.monotonic() - begin


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
    drivers = [first]
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
        pipeline.workload.produce(_RECORDS)  # a part is under way, or is not read yet
        drivers[-1].kill()
        drivers.append(standby)
        took_s = await_rows(pipeline)
        print(f"{place}: {took_s:.1f} s from the kill to the first rows of the standby")
        assert took_s < _TAKEOVER_S
        assert shown_state(pipeline, standby) == ("running", 200)
    drivers[-1].terminate()
    drivers[-1].succeed()
    pipeline.assert_exact(at_least=5 * _RECORDS)
    assert pipeline.head.epoch == len(drivers) == 3


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
        pipeline.workload.produce(_RECORDS)
        first.kill()
        took_s = await_rows(pipeline)
        print(f"cluster: {took_s:.1f} s from the kill to the first rows of the standby")
        assert took_s < _TAKEOVER_S
        assert warm <= {each.pid for each in cluster.tasks()}
        standby.terminate()
        standby.succeed()
        pipeline.assert_exact(at_least=2 * _RECORDS)

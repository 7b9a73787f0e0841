"""The example job on a cluster: each word's chain unbroken, whatever order the workers deliver records in."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from integration_tests.cluster.pipeline import cluster_conf
from integration_tests.cluster.standalone import Cluster
from integration_tests.conftest import TopicFactory
from integration_tests.demo.job import Job
from integration_tests.demo.place import with_table
from integration_tests.harness.words import ROUND, Words, await_rows
from integration_tests.services import Services
from spark_jobs.demo import reference

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_PARTITIONS = 7
_MASTER = "master: local[2] # no retries of single tasks: a failed one ends its checkpoint and restarts the pipeline"
_FAILURES = ("failure_probability: 0.001", "failure_probability: 0.0007")
"""One task in ten fails where a checkpoint takes 2,000 records. It is tried again three times, and the checkpoint goes
on: one in several thousand runs of this test has a task that fails four times."""


@pytest.mark.timeout(1200)
def test_a_lost_machine_breaks_no_chain(
    services: Services, database: str, topic: TopicFactory, cluster: Cluster, tmp_path: Path
) -> None:
    """Seven partitions on two cores, state on both workers, tasks that fail at random, and one worker is killed."""
    place = with_table(services, topic(partitions=_PARTITIONS), database)
    words = Words(place)
    conf = {**cluster_conf(cluster), "spark.executorEnv.EOS_FAULT_DIR": str(tmp_path / "faults-1")}
    spark = (_MASTER, f"master: {cluster.master}\n  conf: {json.dumps(conf)}")
    with Job(tmp_path, place, [spark, _FAILURES]) as job:
        words.produce()
        driver = job.start("prepared@1")
        await_rows(driver, place, words)  # checkpoint 0

        for _ in range(4):
            words.produce()
        lost = cluster.worker_of(driver.await_point("prepared@1"))
        cluster.kill_worker(lost)
        cluster.start_worker(lost)
        await_rows(driver, place, words)

        driver.terminate()
        driver.succeed()
        assert job.starts == 1
        assert job.prepared() == []
    rows = place.table.rows()
    assert rows == reference.expected_rows(words.produced)
    assert rows.total() == 5 * ROUND
    assert reference.broken_chains(Counter(rows).elements()) == []

"""A job of one's own on a cluster whose workers have nothing of the project: it comes with the job, unasked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from integration_tests.cluster.pipeline import cluster_conf
from integration_tests.cluster.standalone import HOST, Cluster
from integration_tests.harness.jobs import FILES, ROWS, Jobs, write_files
from integration_tests.harness.oracle import SinkTable, compare
from integration_tests.harness.pipeline_process import PROJECT

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_JOB = PROJECT / "integration_tests" / "jobs" / "on_cluster.py"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", ["foreachBatch", "format"])
def test_killed_before_a_decision(jobs: Jobs, database: str, tmp_path: Path, cluster: Cluster, way: str) -> None:
    table = SinkTable(database, "records")
    table.create()
    expected = write_files(tmp_path / "files")
    conf = cluster_conf(cluster) | {"spark.driver.host": HOST, "spark.executorEnv.SINK_URL": database}
    arguments = [str(tmp_path / "files"), way, cluster.master, json.dumps(conf)]
    process = jobs.start(_JOB, *arguments, arm=["before-decide@1"])
    process.await_point("before-decide@1")
    process.kill()
    jobs.start(_JOB, *arguments).succeed()
    verdict = compare(expected, table.rows())
    assert verdict.exact, str(verdict)
    assert verdict.in_sink == FILES * ROWS

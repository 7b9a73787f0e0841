"""A driver in a container of YARN: killed there, it continues in another one, which has nothing of the first.

The other container is a new attempt of the application, or that of a standby.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from integration_tests.cluster.standalone import HOST
from integration_tests.cluster.yarn import Yarn
from integration_tests.harness import session
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.harness.pipeline_process import PROJECT
from integration_tests.harness.stores import put_location
from integration_tests.harness.takeovers import await_rows, await_takeover, slowdown
from integration_tests.services.maven_jars import spark_home
from tests.object_store import Bucket
from tests.waiting import until

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 4 * CHECKPOINT_RECORDS
_WAITS = "standby for a driver on another machine"
_START_S = 600.0  # of an application and its executor, on a busy machine


@pytest.fixture
def yarn(tmp_path: Path) -> Iterator[Yarn]:
    folder = tmp_path / "yarn"
    folder.mkdir()
    with Yarn(folder) as started:
        yield started


def _configure(pipeline: Pipeline, bucket: Bucket, yarn: Yarn, attempts: int) -> None:
    """Run its drivers in containers, with the location in a bucket. `attempts`: containers of an application."""
    put_location(pipeline, bucket)
    pipeline.spec["checkpoint"]["scratch"] = "./scratch"  # in the container
    variables = {
        "EOS_FAULT_DIR": str(pipeline.folder / "faults-0"),
        "PYTHONPATH": str(PROJECT),
        "SPARK_LOCAL_IP": HOST,
        **pipeline.environment,
    }
    pipeline.spec["spark"] = {
        "master": "yarn",
        "conf": {
            "spark.authenticate": "true",
            "spark.network.crypto.enabled": "true",
            "spark.pyspark.python": sys.executable,
            "spark.yarn.jars": f"local:{spark_home() / 'jars'}/*",
            "spark.yarn.stagingDir": (pipeline.folder / "staging").as_uri(),
            "spark.driver.memory": "768m",
            "spark.executor.memory": "768m",
            "spark.executor.instances": "1",
            "spark.yarn.maxAppAttempts": str(attempts),
            **{f"spark.yarn.appMasterEnv.{name}": value for name, value in variables.items()},
            **{f"spark.executorEnv.{name}": value for name, value in variables.items()},
        },
    }
    pipeline.environment |= yarn.environment


@pytest.mark.timeout(900)
def test_a_driver_that_is_killed_in_its_container_continues_in_another(
    pipeline: Pipeline, bucket: Bucket, yarn: Yarn
) -> None:
    _configure(pipeline, bucket, yarn, attempts=2)
    pipeline.workload.produce(_RECORDS)

    options = ("--deploy-mode", "cluster", "--until-caught-up")
    submitted = pipeline.command("submit", *options, arm=["before-decide@1"])
    driver = psutil.Process(submitted.await_point("before-decide@1"))
    assert str(yarn.containers) in driver.cwd()
    assert pipeline.verdict().in_sink == CHECKPOINT_RECORDS
    os.kill(driver.pid, signal.SIGKILL)
    submitted.succeed()

    assert yarn.attempts() == {"01", "02"}
    pipeline.assert_exact(at_least=_RECORDS)
    assert pipeline.head.epoch == 2
    assert "SINK_URL -> " in yarn.logs(), "YARN logs the variables of its containers"
    assert pipeline.environment["SINK_URL"] not in yarn.logs()


@pytest.mark.timeout(1500)
def test_a_standby_in_a_container_goes_on_where_a_killed_one_was(
    pipeline: Pipeline, bucket: Bucket, yarn: Yarn
) -> None:
    """Two applications, of one container for the driver each. YARN starts no other one."""
    _configure(pipeline, bucket, yarn, attempts=1)
    options = ("--deploy-mode", "cluster", "--standby")
    first = pipeline.command("submit", *options)
    pipeline.workload.produce(_RECORDS)
    await_rows(pipeline, _START_S)
    (lock,) = yarn.containers.rglob("scratch/run/*.json")
    waited = yarn.logs().count(_WAITS)  # the first one looks for a driver, too
    second = pipeline.command("submit", *options)
    until(lambda: yarn.logs().count(_WAITS) > waited, timeout_s=_START_S, look_s=0.2)
    before = slowdown()
    pipeline.workload.produce(_RECORDS)
    killed_s = time.monotonic()
    session.kill(os.getsid(json.loads(lock.read_text())["pid"]))
    takeover = await_takeover(pipeline, killed_s, before)
    print(f"standby, YARN: {takeover}")
    assert first.wait() != 0
    assert pipeline.head.epoch == 2
    pipeline.command("stop").succeed()
    second.succeed()
    assert yarn.attempts() == {"01"}
    pipeline.assert_exact(at_least=2 * _RECORDS)

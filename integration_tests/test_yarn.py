"""A driver in a container of YARN: killed there, it continues in another one, which has nothing of the first."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from integration_tests.cluster.standalone import HOST
from integration_tests.cluster.yarn import Yarn
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.harness.pipeline_process import PROJECT
from integration_tests.harness.stores import put_location
from integration_tests.services.maven_jars import spark_home
from tests.object_store import Bucket

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 4 * CHECKPOINT_RECORDS


@pytest.fixture
def yarn(tmp_path: Path) -> Iterator[Yarn]:
    folder = tmp_path / "yarn"
    folder.mkdir()
    with Yarn(folder) as started:
        yield started


@pytest.mark.timeout(900)
def test_a_driver_that_is_killed_in_its_container_continues_in_another(
    pipeline: Pipeline, bucket: Bucket, yarn: Yarn
) -> None:
    put_location(pipeline, bucket)
    pipeline.spec["checkpoint"]["scratch"] = "./scratch"  # in the container
    faults = pipeline.folder / "faults-0"
    variables = {
        "EOS_FAULT_DIR": str(faults),
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
            "spark.yarn.maxAppAttempts": "2",
            **{f"spark.yarn.appMasterEnv.{name}": value for name, value in variables.items()},
            **{f"spark.executorEnv.{name}": value for name, value in variables.items()},
        },
    }
    pipeline.environment |= yarn.environment
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

"""A pipeline that `spark-submit` has started: on a cluster with a packed environment, and by a line of one's own."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import psutil
import pytest

from integration_tests.cluster.pipeline import ClusterPipeline
from integration_tests.cluster.standalone import Cluster
from integration_tests.harness.fast_start import fast_start
from integration_tests.harness.intruder import as_nobody, deserialization_error, fetch_broadcasts, listening
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.harness.pipeline_process import PipelineProcess, child_environment
from integration_tests.harness.planted import Planted
from spark_jobs.submit.line import APPLICATION

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 6 * CHECKPOINT_RECORDS
_VISIBLE_S = 240.0
_ABORT_S = 2.0  # a checkpoint that was aborted would be so by then


def _pack(python: Path, archive: Path) -> Path:
    """As venv-pack does: the folders of the environment, from its root."""
    with tarfile.open(archive, "w:gz") as packed:
        for part in sorted(python.parents[1].iterdir()):
            packed.add(part, part.name)
    return archive


def _submit(pipeline: ClusterPipeline, *options: str, arm: Sequence[str] = ()) -> PipelineProcess:
    pipeline.conf["spark.executorEnv.EOS_FAULT_DIR"] = str(pipeline.folder / f"faults-{len(pipeline.processes)}")
    return pipeline.command("submit", *options, arm=arm)


@pytest.mark.timeout(1200)
def test_on_a_cluster_that_has_nothing_of_the_project(
    cluster_pipeline: ClusterPipeline, cluster: Cluster, tmp_path: Path
) -> None:
    """Killed before a decision, stopped by Ctrl-C, which driver and JVM both get, and by SIGTERM to spark-submit."""
    pipeline = cluster_pipeline
    packed = ("--environment", str(_pack(cluster.python, tmp_path / "environment.tar.gz")))
    python = pipeline.conf.pop("spark.pyspark.python")
    pipeline.environment["PYTHONPATH"] = ""  # nothing of the project reaches processes that Java starts here
    pipeline.workload.produce(_RECORDS)

    process = _submit(pipeline, *packed, arm=["prepared@1"])
    task = psutil.Process(process.await_point("prepared@1"))
    assert task.cmdline()[0] == "environment/bin/python"
    look = Planted({"Spark's secret": cluster.conf["spark.authenticate.secret"]})
    for of in (process.pid, *cluster.workers):
        look.look_at_arguments(of)
    assert look.found == set()
    assert look.seen >= 60, "the words of the driver, its JVM, two workers and two executors"
    ports = [port for executor in cluster.executors() for port in listening(executor.pid)]
    assert ports
    assert as_nobody(partial(fetch_broadcasts, ports, 10)) == b""
    assert not any("StreamCorrupted" in as_nobody(partial(deserialization_error, port)) for port in ports)
    process.kill()
    assert pipeline.verdict().in_sink == CHECKPOINT_RECORDS

    process = _submit(pipeline, *packed, arm=["writing@3"])
    process.await_point("writing@3")
    process.interrupt()
    time.sleep(_ABORT_S)
    process.release("writing@3")
    process.succeed()
    assert process.left_behind() == []
    assert pipeline.prepared() == []
    verdict = pipeline.verdict()
    assert verdict.clean, str(verdict)
    assert verdict.in_sink == 4 * CHECKPOINT_RECORDS, str(verdict)

    pipeline.conf["spark.pyspark.python"] = python  # which has packages, but not the project
    process = _submit(pipeline)
    deadline = time.monotonic() + _VISIBLE_S
    while pipeline.verdict().in_sink < _RECORDS:
        assert time.monotonic() < deadline, process.output()
        time.sleep(0.5)
    process.terminate()
    process.succeed()
    assert process.left_behind() == []
    assert "Traceback" not in process.output()
    pipeline.assert_exact(at_least=_RECORDS)


@pytest.mark.timeout(600)
def test_a_line_of_ones_own(pipeline: Pipeline) -> None:
    """What it contradicts is refused; what it says where the spec says nothing holds."""
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    pipeline.spec["spark"] = {"conf": {"spark.driver.memory": "700m", "spark.sql.shuffle.partitions": "3"}}
    settings = ["--conf", "spark.speculation=true", "--conf", "spark.sql.shuffle.partitions=4"]
    refused = _line(pipeline, "--master", "local[2]", *settings)
    assert refused.returncode == 2, refused.stdout
    for words in (
        "spark.speculation is true, and exactly-once needs --conf spark.speculation=false",
        "spark.sql.shuffle.partitions is 3 in the spec, and 4 for spark-submit",
        "spark.driver.memory is 700m in the spec, which only spark-submit can set: --conf spark.driver.memory=700m",
    ):
        assert words in refused.stdout
    assert not pipeline.was_born()

    done = _line(pipeline, "--master", "local[2]", "--driver-memory", "700m")
    assert done.returncode == 0, done.stdout
    pipeline.assert_exact(at_least=CHECKPOINT_RECORDS)


def _line(pipeline: Pipeline, *options: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("spark-submit")
    spec = str(pipeline.write_spec())
    driver = ["--conf", f"spark.pyspark.driver.python={sys.executable}"]
    return subprocess.run(
        [program, *options, *driver, APPLICATION, spec, "--until-caught-up"],
        cwd=pipeline.folder,
        env=child_environment({**fast_start(), **pipeline.environment}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_VISIBLE_S,
        check=False,
    )

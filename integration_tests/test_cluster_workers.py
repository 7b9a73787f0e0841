"""What a worker must have: the project and the steps beside the spec come to it; of the rest it is said what lacks."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from integration_tests.cluster.pipeline import ClusterPipeline
from integration_tests.cluster.standalone import Cluster
from integration_tests.conftest import TopicFactory
from integration_tests.harness.command_line import CommandLine
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS
from integration_tests.services import Services

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 2 * CHECKPOINT_RECORDS

_STEP = """
from pyspark.sql.functions import udf
from louder import whispered

def whisper(text):
    import louder
    return louder.whispered(text)

def quiet(rows):
    return rows.withColumn("payload", udf(whisper, "string")("payload"))
"""
_MODULE = "def whispered(text):\n    return text\n"


@pytest.mark.timeout(600)
def test_state_that_a_worker_would_keep_for_itself_is_refused(
    services: Services, database: str, topic: TopicFactory, tmp_path: Path
) -> None:
    """Steps without state run there all the same."""
    folder = tmp_path / "pipeline"
    location = folder / "checkpoints"
    location.mkdir(parents=True)
    name = topic(partitions=PARTITIONS)
    with (
        Cluster(tmp_path / "cluster", apart=location) as cluster,
        ClusterPipeline(folder, services.kafka_bootstrap, name, database, cluster) as pipeline,
    ):
        pipeline.table.create()
        assert pipeline.location == location
        pipeline.workload.produce(_RECORDS)
        steps = pipeline.spec["transforms"]
        pipeline.spec["transforms"] = [*steps, {"name": "once", "sql": f"SELECT DISTINCT * FROM {steps[-1]['name']}"}]
        plain, pipeline.spec["sinks"][0]["from"] = pipeline.spec["sinks"][0]["from"], "once"
        refused = pipeline.start()
        refused.fail("steps keep state in ", "that is another folder or none", "mount the same disk", code=2)
        assert pipeline.table.count() == 0
        assert not list(folder.rglob("seen-by-workers-*"))
        pipeline.spec["transforms"], pipeline.spec["sinks"][0]["from"] = steps, plain
        pipeline.catch_up()
        pipeline.assert_exact(at_least=_RECORDS)


@pytest.mark.timeout(1200)
def test_modules_beside_the_spec_are_shipped_and_others_by_the_user(
    cluster_pipeline: ClusterPipeline, tmp_path: Path
) -> None:
    pipeline = cluster_pipeline
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "louder.py").write_text(_MODULE)
    (pipeline.folder / "whispering.py").write_text(_STEP)
    pipeline.environment["PYTHONPATH"] = str(elsewhere)  # of the driver alone
    pipeline.spec["transforms"].append({"name": "quiet", "python": "whispering:quiet", "from": "rows"})
    pipeline.spec["sinks"][0]["from"] = "quiet"
    pipeline.workload.produce(_RECORDS)

    pipeline.start().fail("failed on a worker", "No module named 'louder'", "eos doctor", "spark.submit.pyFiles")
    assert pipeline.head.epoch == 1, "no restart cures it"
    assert pipeline.table.count() == 0

    with CommandLine(tmp_path) as commands:
        ended = commands.run(["doctor", str(pipeline.write_spec()), "--json"], pipeline.environment)
    assert ended.code == 1
    findings: list[dict[str, Any]] = json.loads(ended.output)["findings"]
    of_workers = {each["check"]: each for each in findings if each["of"].startswith("worker ")}
    assert set(of_workers) == {"Python", "packages", "services", "checkpoint location"}
    assert [check for check, each in of_workers.items() if not each["ok"]] == ["packages"]
    lacking = of_workers["packages"]
    assert "No module named 'louder'" in lacking["detail"]
    assert "spark.submit.pyFiles" in lacking["remedy"]
    assert str(pipeline.cluster.python) in of_workers["Python"]["detail"]
    assert "(2 executors)" in lacking["of"]

    with zipfile.ZipFile(tmp_path / "louder.zip", "w") as archive:
        archive.writestr("louder.py", _MODULE)
    pipeline.conf["spark.submit.pyFiles"] = str(tmp_path / "louder.zip")
    pipeline.catch_up()
    pipeline.assert_exact(at_least=_RECORDS)

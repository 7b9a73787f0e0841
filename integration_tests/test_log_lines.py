"""The log of a run as JSON: each line is one object, of its pipeline."""

from __future__ import annotations

import json

import pytest

from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]


@pytest.mark.timeout(600)
def test_each_line_of_a_run_is_one_object_with_its_pipeline(pipeline: Pipeline) -> None:
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    process = pipeline.command("run", "--until-caught-up", "--log-format", "json")
    process.succeed()
    lines = [json.loads(line) for line in process.output().splitlines()]
    assert {line.get("pipeline") for line in lines if line["logger"] == "eos.checkpoint"} == {pipeline.spec["pipeline"]}
    (committed,) = (line["message"] for line in lines if "state=committed" in line["message"])
    assert f"records={CHECKPOINT_RECORDS}" in committed
    pipeline.assert_exact(at_least=CHECKPOINT_RECORDS)

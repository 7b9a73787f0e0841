"""`eos doctor` on real servers: the target against what the steps give, and a first run's beginning."""

from __future__ import annotations

import json
from typing import Any

import pytest

from integration_tests.harness.command_line import CommandLine
from integration_tests.harness.pipeline import Pipeline
from integration_tests.services import Services

pytestmark = pytest.mark.any_server


def _doctor(pipeline: Pipeline, eos: CommandLine, code: int) -> dict[str, dict[str, Any]]:
    ended = eos.run(["doctor", str(pipeline.write_spec()), "--json"], pipeline.environment)
    assert ended.code == code, ended.output
    facts = json.loads(ended.output[ended.output.index("{\n") :])
    assert facts["ok"] == (code == 0)
    return {each["check"]: each for each in facts["findings"]}


def _wrong(findings: dict[str, dict[str, Any]]) -> list[str]:
    return [check for check, each in findings.items() if not each["ok"] and each["fatal"]]


@pytest.mark.timeout(600)
def test_the_target_is_compared_with_what_the_steps_give(
    pipeline: Pipeline, eos: CommandLine, services: Services
) -> None:
    pipeline.workload.produce(10)
    findings = _doctor(pipeline, eos, 0)
    assert findings["steps"]["detail"] == "rows gives id BIGINT, word STRING, payload STRING"
    assert "the rows fit" in findings["warehouse: columns"]["detail"]
    (limit,) = (each for check, each in findings.items() if check.startswith("max_connections of "))
    of_mariadb = "a run opens up to 8: warehouse: 2 for as many tasks at once and 6 of the driver"
    of_mysql = "a run opens up to 10: warehouse: 4 kept by workers of 2 tasks at once and 6 of the driver"
    assert (of_mysql if services.database.name == "MySQL" else of_mariadb) in limit["detail"]
    topic = pipeline.workload.topic
    beginning = findings["incoming: starting_offsets"]["detail"]
    assert beginning == f"a first run begins at {topic}/0: 0, {topic}/1: 0"
    assert {"free space", "warehouse: XA", "warehouse: KILL", "warehouse: LOAD DATA LOCAL"} <= findings.keys()
    assert not pipeline.location.exists()

    pipeline.table.execute("ALTER TABLE records DROP COLUMN word, MODIFY payload DATE")
    pipeline.source["starting_offsets"] = {"offsets": {f"{topic}/0": 6, f"{topic}/1": 0}}
    findings = _doctor(pipeline, eos, 1)
    assert _wrong(findings) == ["warehouse: target"]
    assert "column 'word' is missing in the table" in findings["warehouse: target"]["detail"]
    assert "column 'payload' of type date cannot hold STRING" in findings["warehouse: target"]["detail"]
    assert f"{topic}/0 cannot begin at offset 6" in findings["incoming: starting_offsets"]["detail"]

    pipeline.spec["transforms"][0]["sql"] = "SELECT id, wrod(word) AS word FROM incoming"
    findings = _doctor(pipeline, eos, 1)
    assert _wrong(findings) == ["steps"]
    assert findings["steps"]["detail"].startswith("transforms[0] (rows): ")
    assert "wrod" in findings["steps"]["detail"]
    assert pipeline.table.count() == 0

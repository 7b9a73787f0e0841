"""Checkpoints that fail are run again under their next try, and the pipeline goes on as if nothing had been."""

from __future__ import annotations

import re

import pytest

from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 3 * CHECKPOINT_RECORDS
_POINTS = ("writing@1", "prepared@1", "before-decide@1")


def _tries(output: str) -> dict[int, int]:
    return {int(n): int(attempt) for n, attempt in re.findall(r"checkpoint=(\d+) state=committed .*?try=(\d+)", output)}


@pytest.mark.timeout(900)
def test_failures_in_a_row_that_are_tolerated_and_one_that_is_not(pipeline: Pipeline) -> None:
    pipeline.spec["checkpoint"]["tolerable_failures"] = 2
    pipeline.spec["restart"] = {"strategy": "none"}
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(arm=[f"{point} raise" for point in ("reading", *_POINTS[:2])])
    process.fail("fault injected at", "tolerated, failure 2 of 2 in a row")
    assert pipeline.prepared() == [], "the last one is aborted, too"

    process = pipeline.start(arm=[f"{point} raise" for point in _POINTS[:2]])
    process.succeed()
    assert _tries(process.output())[1] == 3
    assert "restart" not in process.output()
    pipeline.assert_exact(at_least=_RECORDS)


@pytest.mark.timeout(900)
def test_a_query_with_state_begins_anew_and_the_restart_strategy_is_not_asked(pipeline: Pipeline) -> None:
    pipeline.spec["checkpoint"]["tolerable_failures"] = 1
    pipeline.spec["restart"] = {"strategy": "none"}
    pipeline.spec["transforms"] = [
        {"name": "rows", "sql": "SELECT DISTINCT id, word, payload FROM incoming"},
    ]
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(arm=["prepared@1 raise", "prepared@2 raise"])
    process.succeed()
    tries = _tries(process.output())
    assert (tries[1], tries[2]) == (2, 2), "each is the first one in a row"
    assert process.output().count("state=running") == 3
    pipeline.assert_exact(at_least=_RECORDS)

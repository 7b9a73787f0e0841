"""Checkpoints that fail are run again under their next try, and the pipeline goes on as if nothing had been."""

from __future__ import annotations

import pytest

from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 2 * CHECKPOINT_RECORDS
_ONE_AFTER_THE_OTHER = ["reading raise", "writing raise", "prepared raise"]
"""Each is met by a later try, where tasks do not run at once."""


@pytest.mark.timeout(900)
def test_failures_in_a_row_that_are_tolerated_and_one_that_is_not(pipeline: Pipeline) -> None:
    pipeline.spec["checkpoint"]["tolerable_failures"] = 2
    pipeline.spec["restart"] = {"strategy": "none"}
    pipeline.spec["spark"]["master"] = "local[1]"
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(arm=_ONE_AFTER_THE_OTHER)
    process.fail("tolerated, failure 2 of 2 in a row", "fault injected at prepared")
    assert pipeline.prepared() == [], "the last one is aborted, too"
    assert pipeline.table.count() == 0

    process = pipeline.start(arm=_ONE_AFTER_THE_OTHER[1:])
    process.succeed()
    assert "tolerated, failure 2 of 2 in a row" in process.output()
    assert process.output().count("state=running") == 1, "the query has not ended"
    pipeline.assert_exact(at_least=_RECORDS)


@pytest.mark.timeout(900)
def test_a_query_with_state_begins_anew_and_the_restart_strategy_is_not_asked(pipeline: Pipeline) -> None:
    pipeline.spec["checkpoint"]["tolerable_failures"] = 1
    pipeline.spec["restart"] = {"strategy": "none"}
    distinct = "SELECT DISTINCT id, word, payload FROM incoming"
    pipeline.spec["transforms"] = [{"name": "rows", "sql": distinct, "output_mode": "update"}]
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(arm=["writing@0 raise", "writing@1 raise"])
    process.succeed()
    assert process.output().count("tolerated, failure 1 of 1 in a row") == 2, "each is the first one in a row"
    assert process.output().count("state=running") == 3
    pipeline.assert_exact(at_least=_RECORDS)

"""`eos stop --delete`: what a pipeline leaves is deleted where nobody needs it, and refused where somebody does."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from integration_tests.harness.oracle import compare
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 3 * CHECKPOINT_RECORDS


@pytest.mark.timeout(900)
def test_what_is_decided_is_never_deleted_and_what_is_prepared_is_rolled_back(pipeline: Pipeline) -> None:
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(arm=["after-decide@1"])
    process.await_point("after-decide@1")
    process.kill()
    before = sorted(path.relative_to(pipeline.location) for path in pipeline.location.rglob("*"))
    pipeline.command("stop", "--delete").fail(
        "1 checkpoints are decided and not committed", "eos run --until-caught-up"
    )
    after = sorted(path.relative_to(pipeline.location) for path in pipeline.location.rglob("*"))
    assert [path for path in before if path not in after] == []

    process = pipeline.start(arm=["before-decide@2"])
    process.await_point("before-decide@2")
    process.kill()
    assert pipeline.prepared() != []
    stopping = pipeline.command("stop", "--delete", "--json")
    stopping.succeed()
    assert json.loads(stopping.output()[stopping.output().index("{") :])["deleted"] is True
    old = pipeline.head
    assert old.completed == -1
    assert pipeline.prepared() == []
    left = {path.name for path in pipeline.location.iterdir()}
    assert left <= {"head", "records", "requests", "run"}, left
    assert pipeline.table.execute("SELECT COUNT(*) FROM eos_witness") == [(0,)]
    assert pipeline.table.count() == 2 * CHECKPOINT_RECORDS, "rows stay"

    pipeline.catch_up()
    found = pipeline.table.rows()
    twice = found - pipeline.workload.expected
    assert twice.total() == 2 * CHECKPOINT_RECORDS, "it began anew, as was said"
    assert compare(pipeline.workload.expected, found - twice).exact
    assert max(Counter(found).values()) == 2

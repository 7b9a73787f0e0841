"""What a killed pipeline has left prepared: looked at, ended by hand, and gone on from."""

from __future__ import annotations

import json
from typing import Any

import pytest

from integration_tests.harness.command_line import CommandLine
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 3 * CHECKPOINT_RECORDS


def _run(pipeline: Pipeline, command: str, *arguments: str) -> tuple[int, dict[str, Any]]:
    with CommandLine(pipeline.folder) as commands:
        whole = ["transactions", command, str(pipeline.folder / "pipeline.yaml"), *arguments, "--json"]
        ended = commands.run(whole, pipeline.environment)
    return ended.code, json.loads(ended.output)


def _killed_at(pipeline: Pipeline, stem: str) -> None:
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(arm=[stem])
    process.await_point(stem)
    process.kill()


@pytest.mark.timeout(300)
def test_what_is_not_decided_is_settled_without_a_start(pipeline: Pipeline) -> None:
    _killed_at(pipeline, "before-decide@1")
    left = pipeline.table.prepared_ids(pipeline.head.incarnation)
    assert len(left) == 2

    _, listed = _run(pipeline, "list")
    own = [each for each in listed["transactions"] if not each["id"].startswith("XA ")]
    assert sorted(each["id"] for each in own) == left
    assert {each["then"] for each in own} == {"not decided"}
    for command in ("commit", "rollback"):
        code, refused = _run(pipeline, command, left[0])
        assert code == 1
        assert "eos transactions settle" in refused["error"]["message"]
    assert pipeline.table.prepared_ids(pipeline.head.incarnation) == left
    assert _run(pipeline, "settle") == (0, {"ok": True, "settled": [each["id"] for each in own]})
    assert pipeline.prepared() == []
    assert pipeline.table.count() == CHECKPOINT_RECORDS

    pipeline.catch_up()
    pipeline.assert_exact(at_least=_RECORDS)


@pytest.mark.timeout(300)
def test_what_is_decided_is_committed_by_hand(pipeline: Pipeline) -> None:
    _killed_at(pipeline, "after-decide@1")
    left = pipeline.table.prepared_ids(pipeline.head.incarnation)
    code, refused = _run(pipeline, "rollback", left[0])
    assert (code, refused["ok"]) == (1, False)
    assert "its checkpoint is decided: its rows would be lost" in refused["error"]["message"]
    assert pipeline.table.count() == CHECKPOINT_RECORDS

    _, ended = _run(pipeline, "commit")
    assert sorted(ended["committed"]) == left
    assert pipeline.table.count() == 2 * CHECKPOINT_RECORDS
    pipeline.catch_up()
    pipeline.assert_exact(at_least=_RECORDS)


@pytest.mark.timeout(300)
def test_what_is_decided_and_rolled_back_by_force_is_said_to_be_lost(pipeline: Pipeline) -> None:
    _killed_at(pipeline, "after-decide@1")
    left = pipeline.table.prepared_ids(pipeline.head.incarnation)
    assert _run(pipeline, "rollback", left[0], "--force") == (0, {"ok": True, "rolled_back": [left[0]]})
    pipeline.start().fail("lost: checkpoint 1 is completed", left[0])

"""R2 on real servers: a life whose record is damaged is ended on purpose, and a sink does not leave with locks."""

from __future__ import annotations

import json

import pytest

from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 4 * CHECKPOINT_RECORDS


@pytest.mark.timeout(900)
def test_a_life_that_cannot_go_on_is_ended_on_purpose(pipeline: Pipeline) -> None:
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(arm=["after-decide@1"])
    process.await_point("after-decide@1")
    process.kill()
    old = pipeline.head
    prepared = pipeline.prepared()
    assert prepared
    record = pipeline.location / "records" / old.records[-1].name
    record.write_bytes(record.read_bytes().replace(b"format", b"farmat"))

    pipeline.start().fail("the record of checkpoint 1", "it is damaged")
    listed = f"transactions: {old.incarnation}-00000001-000000000001-0001/"
    pipeline.command("reset", "--yes").fail(
        "the record of checkpoint 1", "its records lie within", "--abandon-lost", listed
    )
    assert pipeline.prepared() == prepared, "a refused reset has rolled something back"

    ended = pipeline.command("reset", "--yes", "--abandon-lost", "--json")
    ended.succeed()
    output = ended.output()
    facts = json.loads(output[output.index("{\n") :])
    assert (facts["ended"], [each["checkpoint_id"] for each in facts["abandoned"]]) == (old.incarnation, [1])
    assert pipeline.table.prepared(old.incarnation) == []
    assert list((pipeline.location / "records").iterdir()) == []
    assert pipeline.table.execute(f"SELECT * FROM eos_witness WHERE incarnation = '{old.incarnation}'") == []

    pipeline.catch_up()
    verdict = pipeline.verdict()
    assert (verdict.lost, verdict.duplicated, verdict.unexpected) == (0, CHECKPOINT_RECORDS, 0), str(verdict)
    assert pipeline.prepared() == []


@pytest.mark.timeout(900)
def test_a_sink_does_not_leave_the_spec_with_its_locks(pipeline: Pipeline) -> None:
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(arm=["before-decide@1"])
    process.await_point("before-decide@1")
    process.kill()
    assert pipeline.prepared()
    sink = pipeline.spec["sinks"][0]

    sink["name"] = "another"
    said = "sink warehouse, which the spec no longer names, may hold prepared transactions of checkpoint 1"
    pipeline.start().fail(said, "put the sink back", "eos reset")
    pipeline.command("reset", "--yes").fail("checkpoint 1 in warehouse", pipeline.head.incarnation, "--abandon-lost")

    sink["name"] = "warehouse"
    pipeline.catch_up()
    pipeline.assert_exact(at_least=_RECORDS)

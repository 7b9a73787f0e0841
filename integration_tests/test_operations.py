"""The tour of docs/how-to/operations.md, typed at a running pipeline: steered, paused, stopped, lost, begun again."""

from __future__ import annotations

import pytest

from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.harness.typed import blocks, type_in

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 2 * CHECKPOINT_RECORDS


@pytest.mark.timeout(900)
def test_the_tour(pipeline: Pipeline) -> None:
    run, steer, stop, lost, pause = blocks("how-to/operations.md")
    pipeline.spec["checkpoint"]["interval"] = "10min"
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    _eos, name, _spec, *options = run.split()
    process = pipeline.command(name, *options, "--ui-port", "0")
    process.await_output("checkpoint=0 state=committed")
    pipeline.workload.produce(CHECKPOINT_RECORDS)

    said = type_in(pipeline, steer)
    assert f"{CHECKPOINT_RECORDS:,} records" in said, said
    pipeline.assert_exact(_RECORDS)
    assert "checkpoint 1" in said.partition("savepoint")[2], said

    said = type_in(pipeline, pause)
    assert "paused" in said.partition("lag")[0], said

    said = type_in(pipeline, stop)
    assert process.wait() == 0, process.output()
    assert "committed up to checkpoint 1" in said

    pipeline.workload.produce(CHECKPOINT_RECORDS)
    type_in(pipeline, lost)
    pipeline.assert_exact(_RECORDS + CHECKPOINT_RECORDS)

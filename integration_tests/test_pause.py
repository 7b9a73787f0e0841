"""A paused pipeline takes no checkpoint, survives a kill as paused, and misses nothing once it is resumed."""

from __future__ import annotations

import time

import pytest

from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.harness.pipeline_process import PipelineProcess

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_WAIT_S = 120.0


def _await_rows(process: PipelineProcess, pipeline: Pipeline, rows: int) -> None:
    deadline = time.monotonic() + _WAIT_S
    while pipeline.table.count() < rows:
        assert process.exit_code is None, process.output()
        assert time.monotonic() < deadline, process.output()
        time.sleep(0.2)


@pytest.mark.timeout(900)
def test_a_pause_survives_a_kill(pipeline: Pipeline) -> None:
    pipeline.workload.produce(2 * CHECKPOINT_RECORDS)
    process = pipeline.start(until_caught_up=False)
    _await_rows(process, pipeline, 2 * CHECKPOINT_RECORDS)
    assert pipeline.command("pause", "--json").facts()["running"] is True
    completed = pipeline.head.completed
    assert pipeline.prepared() == []
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    time.sleep(3.0)
    assert (pipeline.head.completed, pipeline.table.count()) == (completed, 2 * CHECKPOINT_RECORDS)
    assert process.exit_code is None
    pipeline.command("checkpoint").fail("the pipeline is paused", "eos resume")
    process.kill()

    process = pipeline.start(until_caught_up=False)
    deadline = time.monotonic() + _WAIT_S
    while "state=paused" not in process.output():
        assert time.monotonic() < deadline, process.output()
        time.sleep(0.2)
    time.sleep(3.0)
    assert (pipeline.head.completed, pipeline.table.count()) == (completed, 2 * CHECKPOINT_RECORDS)
    assert pipeline.command("status", "--json").facts()["paused"]
    assert pipeline.command("resume", "--json").facts()["running"] is True
    _await_rows(process, pipeline, 3 * CHECKPOINT_RECORDS)
    pipeline.command("stop").succeed()
    process.succeed()
    pipeline.assert_exact(at_least=3 * CHECKPOINT_RECORDS)


@pytest.mark.timeout(900)
def test_a_pause_lets_the_running_checkpoint_end(pipeline: Pipeline) -> None:
    pipeline.workload.produce(3 * CHECKPOINT_RECORDS)
    process = pipeline.start(arm=["before-decide@1"])
    process.await_point("before-decide@1")
    pausing = pipeline.command("pause")
    process.await_output("kind=pause")
    time.sleep(2.0)
    assert pausing.exit_code is None
    process.release("before-decide@1")
    pausing.succeed()
    assert (pipeline.head.completed, pipeline.head.committed, pipeline.prepared()) == (1, 1, [])
    time.sleep(2.0)
    assert pipeline.head.completed == 1
    pipeline.command("resume").succeed()
    process.succeed()
    pipeline.assert_exact(at_least=3 * CHECKPOINT_RECORDS)

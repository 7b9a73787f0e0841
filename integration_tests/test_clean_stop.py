"""SIGTERM, Ctrl-C and `eos stop` in the middle of a checkpoint: it ends cleanly, and a restart goes on."""

from __future__ import annotations

import pytest

from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.harness.pipeline_process import PipelineProcess

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 8 * CHECKPOINT_RECORDS


@pytest.mark.timeout(1200)
def test_a_signal_lets_the_checkpoint_finish_and_a_second_one_aborts_it(pipeline: Pipeline) -> None:
    pipeline.workload.produce(_RECORDS)

    process = pipeline.start(arm=["writing@1"], until_caught_up=False)
    process.await_point("writing@1")
    process.terminate()
    process.release("writing@1")
    _assert_stopped(pipeline, process, checkpoints=2)

    process = pipeline.start(arm=["before-decide@3"], until_caught_up=False)
    process.await_point("before-decide@3")
    process.interrupt()
    process.release("before-decide@3")
    _assert_stopped(pipeline, process, checkpoints=4)

    process = pipeline.start(arm=["writing@5"], until_caught_up=False)
    process.await_point("writing@5")
    process.terminate()
    process.interrupt()  # another signal, since two equal ones may arrive as one
    _assert_stopped(pipeline, process, checkpoints=5)

    process = pipeline.start(arm=["before-decide@5"], until_caught_up=False)
    process.await_point("before-decide@5")
    process.terminate_all()
    process.release("before-decide@5")
    _assert_stopped(pipeline, process, checkpoints=6)

    pipeline.catch_up()
    pipeline.assert_exact(at_least=_RECORDS)


@pytest.mark.timeout(600)
def test_ctrl_c_while_it_starts(pipeline: Pipeline) -> None:
    """At moments told by what stands at the checkpoint location: Java is about to start, Spark writes its log."""
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    for sign in ("log4j2.properties", "spark.log"):
        (pipeline.location / sign).unlink(missing_ok=True)
        process = pipeline.start(until_caught_up=False)
        process.await_file(pipeline.location / sign)
        process.interrupt()
        process.succeed()
        assert process.left_behind() == []
        assert "Traceback" not in process.output()
        assert pipeline.prepared() == []
    pipeline.catch_up()
    pipeline.assert_exact(at_least=CHECKPOINT_RECORDS)


@pytest.mark.timeout(900)
def test_asked_to_stop_by_a_command(pipeline: Pipeline) -> None:
    pipeline.workload.produce(_RECORDS)

    process = pipeline.start(arm=["writing@1"], until_caught_up=False)
    process.await_point("writing@1")
    stopping = pipeline.command("stop", "--json")
    process.await_output("kind=stop")
    process.release("writing@1")
    _assert_stopped(pipeline, process, checkpoints=2)
    answer = stopping.facts()
    assert (answer["ok"], answer["completed"], answer["committed"], answer["epoch"]) == (True, 1, 1, 1)

    process = pipeline.start(arm=["writing@3"], until_caught_up=False)
    process.await_point("writing@3")
    stopping = pipeline.command("stop", "--now", "--json")
    _assert_stopped(pipeline, process, checkpoints=3)
    assert stopping.facts()["committed"] == 2

    process = pipeline.start(arm=["writing@4"], until_caught_up=False)
    process.await_point("writing@4")
    stopping = pipeline.command("stop", "--json")
    process.await_output("kind=stop")
    process.kill()
    assert "ended without an answer" in stopping.facts(code=1)["error"]["message"]

    pipeline.catch_up()
    pipeline.assert_exact(at_least=_RECORDS)


def _assert_stopped(pipeline: Pipeline, process: PipelineProcess, checkpoints: int) -> None:
    process.succeed()
    assert process.left_behind() == []
    assert "Traceback" not in process.output()
    assert pipeline.prepared() == []
    verdict = pipeline.verdict()
    assert verdict.clean, str(verdict)
    assert verdict.in_sink == checkpoints * CHECKPOINT_RECORDS, str(verdict)
    head = pipeline.head
    done = pipeline.location / "spark" / head.incarnation / "commits" / str(head.completed)
    assert done.exists(), "a start would run the batch again, and refuse it if a step was changed meanwhile"

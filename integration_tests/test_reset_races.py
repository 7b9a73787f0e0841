"""H30 on real servers: a driver completes checkpoints between the moment `eos reset` reads head and its claim."""

from __future__ import annotations

import pytest

from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.harness.pipeline_process import PipelineProcess

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_FIRST, _MEANWHILE, _LATER = 2 * CHECKPOINT_RECORDS, 2 * CHECKPOINT_RECORDS, 100


def _reset_while_a_driver_goes_on(pipeline: Pipeline, *options: str) -> tuple[PipelineProcess, PipelineProcess]:
    """Return a driver and a reset. The reset read head at checkpoint 1. The driver is about to decide checkpoint 3."""
    pipeline.workload.produce(_FIRST)
    driver = pipeline.start(arm=["closed@1", "before-decide@3"], until_caught_up=False)
    driver.await_point("closed@1")
    reset = pipeline.command("reset", *options, arm=["before-claim"])
    reset.await_point("before-claim")
    pipeline.workload.produce(_MEANWHILE)
    driver.release("closed@1")
    driver.await_point("before-decide@3")
    assert pipeline.head.completed == 2
    assert pipeline.prepared()
    reset.release("before-claim")
    return driver, reset


@pytest.mark.timeout(600)
def test_h30_a_reset_to_positions_is_refused_where_a_driver_has_gone_on(pipeline: Pipeline) -> None:
    driver, reset = _reset_while_a_driver_goes_on(pipeline, "--to", "completed", "--yes")
    before = pipeline.head
    reset.fail("has changed since this command read its head", "then checkpoint 1", "now checkpoint 2", "`eos stop`")
    assert pipeline.head == before, "a refused reset has changed head"

    # The driver is not fenced. The remedy: stop it, and give the command again.
    pipeline.workload.produce(_LATER)
    driver.release("before-decide@3")
    pipeline.command("stop").succeed()
    driver.succeed()
    assert pipeline.head.completed >= 3
    assert pipeline.head.epoch == before.epoch
    pipeline.command("reset", "--to", "completed", "--yes").succeed()
    assert pipeline.head.incarnation != before.incarnation
    pipeline.catch_up()
    pipeline.assert_exact(at_least=_FIRST + _MEANWHILE + _LATER)


@pytest.mark.timeout(600)
def test_h30_a_reset_without_positions_fences_the_driver_and_reports_its_checkpoints(pipeline: Pipeline) -> None:
    driver, reset = _reset_while_a_driver_goes_on(pipeline, "--yes")
    reset.succeed()
    assert "It completed checkpoint 2 after this command had read its head" in " ".join(reset.output().split())
    driver.release("before-decide@3")
    driver.fail("fenced: ")
    pipeline.workload.produce(_LATER)
    pipeline.catch_up()
    verdict = pipeline.verdict()
    assert (verdict.lost, verdict.duplicated, verdict.unexpected) == (0, 3 * CHECKPOINT_RECORDS, 0), str(verdict)
    assert pipeline.prepared() == []

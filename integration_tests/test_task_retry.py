"""R5, H1: a task runs twice, and both of its attempts prepare. Spark accepts one; the other is rolled back."""

from __future__ import annotations

import os
import signal

import pytest

from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline

pytestmark = pytest.mark.in_turns

_RECORDS = 4 * CHECKPOINT_RECORDS


@pytest.mark.timeout(1200)
def test_an_attempt_that_prepared_and_died_is_rolled_back_at_close(pipeline: Pipeline) -> None:
    pipeline.spec["spark"]["master"] = "local[2,4]"
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(arm=["prepared@1", "before-decide@1"])
    worker = process.await_point("prepared@1")
    first_attempts = set(pipeline.prepared())
    assert first_attempts
    os.kill(worker, signal.SIGKILL)

    process.await_point("before-decide@1")
    # One branch for each of the two tasks, and the dead attempt's own: nobody touched it so far.
    assert len(pipeline.prepared()) == 3
    assert first_attempts < set(pipeline.prepared())
    process.release("before-decide@1")
    process.succeed()

    assert "restarting" not in process.output()
    assert pipeline.head.epoch == 1
    pipeline.assert_exact(at_least=_RECORDS)

"""When checkpoints of a running pipeline begin: by interval, by pause, and on request."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from integration_tests.harness.pipeline import Pipeline
from twophase.local_head import LocalHead
from twophase.status import read_status

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_STOP_S = 30.0  # of a clean stop, with Spark's own end, on a busy machine


def _await_rows(pipeline: Pipeline, count: int, timeout_s: float = 120.0) -> None:
    deadline = time.monotonic() + timeout_s
    while (found := len(pipeline.table.rows())) < count:
        assert time.monotonic() < deadline, f"{found} rows of {count} after {timeout_s:g} s"
        time.sleep(0.1)


def _asked(pipeline: Pipeline) -> dict[str, object]:
    return pipeline.command("checkpoint", "--json").facts()


@pytest.mark.timeout(900)
def test_a_checkpoint_begins_when_it_is_asked_for_and_no_sooner_than_the_settings_say(pipeline: Pipeline) -> None:
    pipeline.spec["checkpoint"] |= {"interval": "1h", "max_records_per_checkpoint": 150}
    pipeline.workload.produce(100)
    process = pipeline.start(until_caught_up=False)
    _await_rows(pipeline, 100)
    pipeline.workload.produce(200)
    time.sleep(3)
    assert len(pipeline.table.rows()) == 100, "an hour is not over"

    first = _asked(pipeline)
    assert (first["checkpoint_id"], first["records"], first["rows"]) in [(1, 150, 150), (2, 50, 50)]
    while len(pipeline.table.rows()) < 300:
        _asked(pipeline)
    nothing = _asked(pipeline)
    assert (nothing["checkpoint_id"], nothing["records"], nothing["committed"]) == (None, 0, 2)
    before = time.monotonic()
    process.terminate()
    process.succeed()
    assert time.monotonic() - before < _STOP_S, "it waits for its planner"

    pipeline.spec["checkpoint"] |= {"interval": "0s", "min_pause": "2s"}
    pipeline.workload.produce(600)
    process = pipeline.start(until_caught_up=False)
    _await_rows(pipeline, 900)
    process.terminate()
    process.succeed()
    pipeline.assert_exact(at_least=900)
    found = read_status(LocalHead(pipeline.location))
    assert found is not None
    paused = [each for each in reversed(found.checkpoints) if each.checkpoint_id > 2]
    assert len(paused) == 4
    for one, following in pairwise(paused):
        assert following.started_at - one.decided_at >= 1.9

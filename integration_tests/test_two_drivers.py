"""Two drivers of one pipeline: the later one goes on, the earlier one says that it was fenced (R1)."""

from __future__ import annotations

import pytest

from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 8 * CHECKPOINT_RECORDS


@pytest.mark.timeout(1200)
def test_only_the_newest_of_several_drivers_goes_on(pipeline: Pipeline) -> None:
    """Each one is stopped at another moment, superseded by the next, and only then let go on."""
    pipeline.workload.produce(_RECORDS)
    zombie, point = None, ""
    for stem in ("writing@1", "before-decide@2", "after-decide@3", "closed@4"):
        successor = pipeline.start(arm=[stem])
        successor.await_point(stem)
        if zombie is not None:
            zombie.release(point)
            zombie.fail("fenced: ", "another driver of this pipeline has started since")
        zombie, point = successor, stem
        assert pipeline.verdict().clean, f"{stem}: {pipeline.verdict()}"
    assert zombie is not None
    last = pipeline.catch_up()
    zombie.release(point)
    zombie.fail("fenced: ", "another driver of this pipeline has started since")
    assert "fenced" not in last.output()
    pipeline.assert_exact(at_least=_RECORDS)
    assert pipeline.head.epoch == len(pipeline.processes)

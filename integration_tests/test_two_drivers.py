"""Two drivers of one pipeline: the later one goes on, the earlier one says that it was fenced (R1)."""

from __future__ import annotations

import json

import pytest

from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from spark_jobs.query.spark_log import LocalSparkLog

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 8 * CHECKPOINT_RECORDS


@pytest.mark.timeout(1200)
def test_only_the_newest_of_several_drivers_goes_on(pipeline: Pipeline) -> None:
    """Each one is stopped at another moment, superseded by the next, and only then let go on."""
    pipeline.workload.produce(_RECORDS)
    zombie, point = None, ""
    for stem in ("writing@1", "before-decide@2", "after-decide@3", "closed@4"):
        successor = pipeline.start(arm=[stem], take_over=True)
        successor.await_point(stem)
        if zombie is not None:
            zombie.release(point)
            zombie.fail("fenced: ", "another driver of this pipeline has started since")
        zombie, point = successor, stem
        assert pipeline.verdict().clean, f"{stem}: {pipeline.verdict()}"
    assert zombie is not None
    last = pipeline.catch_up(take_over=True)
    zombie.release(point)
    zombie.fail("fenced: ", "another driver of this pipeline has started since")
    assert "fenced" not in last.output()
    pipeline.assert_exact(at_least=_RECORDS)
    assert pipeline.head.epoch == len(pipeline.processes)


@pytest.mark.timeout(600)
def test_h25_a_plan_that_another_driver_has_written_over_sparks_is_not_run(pipeline: Pipeline) -> None:
    """Spark renames its file over another one: where two drivers plan a batch at once, one runs what no file says."""
    pipeline.spec["checkpoint"]["max_records_per_checkpoint"] = CHECKPOINT_RECORDS
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(arm=["planned@1"])
    process.await_point("planned@1")
    folder = LocalSparkLog(pipeline.location).folder(pipeline.head.incarnation) / "offsets"
    version, metadata, planned = (folder / "1").read_text().splitlines()
    offset = json.loads(planned)
    offset["ends"] = {split: end - 1 for split, end in offset["ends"].items()}
    (folder / ".1.crc").unlink()
    (folder / "1").write_text("\n".join([version, metadata, json.dumps(offset)]))
    process.release("planned@1")
    process.succeed()
    assert "another driver has written its own plan of this batch over Spark's" in process.output()
    pipeline.assert_exact(at_least=_RECORDS)
    assert pipeline.head.epoch == 2

"""`on_bad_record: skip` has a limit in each checkpoint, and what it leaves out is counted, however rows travel."""

from __future__ import annotations

import json
import re

import pytest

from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.harness.pipeline_process import PipelineProcess

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_FEW = 7


def _counted(process: PipelineProcess) -> int:
    """What the run has told of, for all checkpoints; its lines of figures must say the same."""
    told = re.findall(r"leaves out (\d+) bad records of source incoming", process.output())
    figures = re.findall(r" skipped=(\d+) ", process.output())
    assert told == figures
    return sum(map(int, told))


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("chained", [True, False], ids=["chained", "by Spark"])
def test_records_are_left_out_up_to_the_limit(pipeline: Pipeline, chained: bool) -> None:
    pipeline.source["on_bad_record"] = "skip"
    pipeline.spec["checkpoint"]["max_skipped"] = _FEW
    pipeline.spec["restart"] = {"strategy": "none"}
    if chained:
        pipeline.spec["transforms"] = []
        pipeline.spec["sinks"][0]["from"] = "incoming"
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    for number in range(_FEW):
        pipeline.workload.produce_bad(f"bad {number}", partition=number % 2)
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    assert _counted(pipeline.catch_up()) == _FEW
    pipeline.assert_exact(at_least=2 * CHECKPOINT_RECORDS)

    for number in range(_FEW + 1):
        pipeline.workload.produce_bad(json.dumps({"id": f"seven {number}"}), partition=number % 2)
    process = pipeline.start()
    process.fail(
        f"would leave out {_FEW + 1} of {_FEW + 1} records of source incoming: "
        f"more than checkpoint.max_skipped ({_FEW}) allows",
        "remedy: ",
    )
    assert pipeline.table.count() == 2 * CHECKPOINT_RECORDS
    assert pipeline.prepared() == []

    pipeline.spec["checkpoint"]["max_skipped"] = "100%"
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    assert _counted(pipeline.catch_up()) == _FEW + 1
    pipeline.assert_exact(at_least=3 * CHECKPOINT_RECORDS)

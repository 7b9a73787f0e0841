"""A decided batch that Spark repeats for its state, after the topic has deleted records of it."""

from __future__ import annotations

import pytest

from connectors.kafka.splits import as_offset
from integration_tests import topics
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, Pipeline
from integration_tests.savepoints import keep_ids
from integration_tests.services import Services

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]


@pytest.fixture
def lenient(pipeline: Pipeline) -> Pipeline:
    """A pipeline that remembers each id, and leaves out deleted records."""
    keep_ids(pipeline)
    pipeline.source["fail_on_data_loss"] = False
    pipeline.spec["restart"] = {"strategy": "none"}
    return pipeline


@pytest.mark.timeout(600)
def test_h39_a_batch_is_not_repeated_without_its_records(lenient: Pipeline, services: Services) -> None:
    """It has no rows, so the comparison of rows would find nothing."""
    lenient.workload.produce(CHECKPOINT_RECORDS)
    lenient.catch_up()
    lenient.workload.repeat(CHECKPOINT_RECORDS)
    process = lenient.start(arm=["after-decide@1"])
    process.kill_at("after-decide@1")
    assert lenient.decided().rows == 0
    end = lenient.head.positions["incoming"]
    _delete_up_to(lenient, services, {split: as_offset(at) - 1 for split, at in end.items()})
    lenient.start().fail("Spark repeats checkpoint 1 for its state", "were deleted", "`eos reset`")
    lenient.assert_exact(at_least=CHECKPOINT_RECORDS)


@pytest.mark.timeout(600)
def test_h39_a_batch_is_repeated_without_what_its_decision_left_out(lenient: Pipeline, services: Services) -> None:
    lenient.workload.produce(CHECKPOINT_RECORDS)
    lenient.catch_up()
    lenient.workload.produce(CHECKPOINT_RECORDS)
    before = lenient.head.positions["incoming"]
    _delete_up_to(lenient, services, {split: as_offset(at) + 1 for split, at in before.items()})
    process = lenient.start(arm=["after-decide@1"])
    process.kill_at("after-decide@1")
    left_out = lenient.decided().left_out["incoming"]
    assert {each.split: (each.start, each.end) for each in left_out} == {
        split: (at, as_offset(at) + 1) for split, at in before.items()
    }
    assert "replayed=true" in lenient.catch_up().output()
    assert lenient.table.count() == 2 * CHECKPOINT_RECORDS - PARTITIONS


def _delete_up_to(pipeline: Pipeline, services: Services, before: dict[str, int]) -> None:
    assert set(before) == {f"{pipeline.workload.topic}/{n}" for n in range(PARTITIONS)}
    topics.delete_records(services.kafka_bootstrap, before)

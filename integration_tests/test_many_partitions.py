"""A topic of 200 partitions: 200 writers of each checkpoint, of which a start ends, or commits, all at once."""

from __future__ import annotations

import pytest

from integration_tests.harness.pipeline import Pipeline
from integration_tests.services import Services
from integration_tests.topics import create, delete

_PARTITIONS = 200
_RECORDS = 10 * _PARTITIONS


@pytest.mark.in_turns
@pytest.mark.timeout(1200)
def test_each_record_of_200_partitions_arrives_once(pipeline: Pipeline, services: Services) -> None:
    topic = f"{pipeline.workload.topic}-wide"
    create(services.kafka_bootstrap, topic, _PARTITIONS, {})
    try:
        pipeline.workload.direct(topic, _PARTITIONS)
        pipeline.source["topics"] = [topic]
        pipeline.spec["checkpoint"]["max_records_per_checkpoint"] = _RECORDS // 2
        pipeline.workload.produce(_RECORDS)

        killed = pipeline.start(arm=["before-decide@0"])
        killed.await_point("before-decide@0")
        assert len(pipeline.prepared()) == _PARTITIONS
        killed.kill()
        # The next start rolls them back, and its own are killed with one of them committed.
        killed = pipeline.start(arm=["between-commits@0"])
        killed.await_point("between-commits@0")
        assert len(pipeline.prepared()) == _PARTITIONS - 1
        killed.kill()
        pipeline.catch_up()

        pipeline.assert_exact(at_least=_RECORDS)
        decided = pipeline.decided()
        assert [len(group) for group in decided.committables.values()] == [_PARTITIONS]
        assert [len(ranges) for ranges in decided.ranges.values()] == [_PARTITIONS]
        assert (pipeline.head.committed, pipeline.head.epoch) == (1, 3)
    finally:
        pipeline.close()
        delete(services.kafka_bootstrap, [topic])

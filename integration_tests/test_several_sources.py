"""Several sources in one checkpoint, and one partition read by several tasks."""

from __future__ import annotations

from copy import deepcopy

import pytest

from connectors.kafka.splits import as_offset
from integration_tests.conftest import TopicFactory
from integration_tests.harness.kills import kill_at
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, Pipeline
from integration_tests.harness.workload import Workload
from integration_tests.services import Services

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 4 * CHECKPOINT_RECORDS
_JOIN = [
    {
        "name": "left_side",
        "sql": "SELECT id, word, payload, _timestamp AS at FROM incoming",
        "watermark": {"column": "at", "delay": "1h"},
    },
    {
        "name": "right_side",
        "sql": "SELECT id AS other, _timestamp AS seen FROM more",
        "watermark": {"column": "seen", "delay": "1h"},
    },
    {
        "name": "rows",
        "sql": "SELECT id, word, payload FROM left_side JOIN right_side ON id = other"
        " AND seen BETWEEN at - INTERVAL 1 HOUR AND at + INTERVAL 1 HOUR",
    },
]


@pytest.mark.timeout(900)
def test_two_topics_joined(pipeline: Pipeline, topic: TopicFactory, services: Services) -> None:
    """Each id once on either side: the rows are those of one side, whenever the other comes and whatever is killed."""
    other = Workload(services.kafka_bootstrap, topic(partitions=PARTITIONS), PARTITIONS)
    more = {**deepcopy(pipeline.source), "name": "more", "topics": [other.topic]}
    pipeline.spec["sources"].append(more)
    pipeline.start().fail("sources[1] (more): the steps read it 0 times", code=2)
    pipeline.spec["transforms"] = _JOIN
    more["split_above"] = 100
    pipeline.start().fail("sources[1].split_above: the records of a partition reach a stateful step", code=2)
    del more["split_above"]

    pipeline.workload.produce(_RECORDS)
    other.produce(_RECORDS // 2)
    kill_at(pipeline, "before-decide@1", "after-decide@2")
    pipeline.catch_up()
    assert pipeline.verdict().in_sink == _RECORDS // 2
    other.produce(_RECORDS - _RECORDS // 2)
    pipeline.catch_up()
    pipeline.assert_exact(at_least=_RECORDS)
    assert {source: sum(map(as_offset, ends.values())) for source, ends in pipeline.head.positions.items()} == {
        "incoming": _RECORDS,
        "more": _RECORDS,
    }


@pytest.mark.timeout(600)
def test_one_partition_read_by_several_tasks(pipeline: Pipeline) -> None:
    pipeline.source["split_above"] = 60
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(arm=["prepared@1"])
    process.await_point("prepared@1")
    process.kill()
    pipeline.catch_up()
    pipeline.assert_exact(at_least=_RECORDS)
    assert "writers=10 " in pipeline.processes[-1].output()  # 500 records of 2 partitions, at most 60 each

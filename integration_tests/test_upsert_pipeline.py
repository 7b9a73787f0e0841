"""`commit: upsert` in a pipeline: what it asks of table and rows. It is killed in test_matrix."""

from __future__ import annotations

from collections import Counter

import pytest

from integration_tests.conftest import TopicFactory
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.harness.targets import STEPS, newest

pytestmark = pytest.mark.in_turns

_RECORDS = 8 * CHECKPOINT_RECORDS
_REMEDY = "send all records of a key to one partition of one topic"


@pytest.fixture
def merged(pipeline: Pipeline) -> Pipeline:
    (step,), (sink,) = pipeline.spec["transforms"], pipeline.spec["sinks"]
    step["sql"] = STEPS["changes"]
    sink.update(commit="upsert", key=["id"], deleted="gone")
    pipeline.table.execute(f"ALTER TABLE `{pipeline.table.name}` ADD PRIMARY KEY (id)")
    return pipeline


@pytest.mark.timeout(300)
def test_what_merging_takes_is_said_before_the_first_record(merged: Pipeline) -> None:
    merged.workload.produce(10)
    (step,), (sink,) = merged.spec["transforms"], merged.spec["sinks"]
    whole = step["sql"]
    step["sql"] = whole.replace(", _partition, _offset", "")
    merged.start().fail("the rows have no column _offset; the rows have no column _partition")
    step["sql"] = whole
    sink["key"] = ["id", "word"]
    merged.start().fail("no unique index is on id, word and nothing else", "unique index PRIMARY is on other columns")
    sink["key"] = ["id"]
    merged.catch_up()
    assert merged.table.rows() == newest(merged.workload.expected)


@pytest.mark.timeout(300)
def test_h16_a_key_of_two_partitions_stops_the_pipeline(merged: Pipeline) -> None:
    """Offsets of two partitions do not compare. It goes on where each key is of one."""
    merged.workload.produce(400)
    (step,) = merged.spec["transforms"]
    columns = "SELECT id % {} AS id, word, payload, false AS gone, _partition, _offset FROM incoming"
    step["sql"] = columns.format(7)  # records go to partitions by parity
    merged.start().fail("comes from partitions 0 and 1, whose offsets do not compare", _REMEDY)
    assert merged.table.count() == 0
    step["sql"] = columns.format(8)
    merged.catch_up()
    newest_of = {number % 8: (number % 8, word, payload) for number, word, payload in sorted(merged.workload.expected)}
    assert merged.table.rows() == Counter(newest_of.values())


@pytest.mark.timeout(600)
def test_h16_a_key_of_two_topics_stops_the_pipeline(merged: Pipeline, topic: TopicFactory) -> None:
    """Partition 0 of the one has nothing to do with partition 0 of the other: the newest row has the least offset."""
    old, new = sorted([topic(), topic()])
    merged.source["topics"] = [old, new]
    for name, records in ((old, 100), (new, 1)):
        merged.workload.direct(name, 1)
        merged.workload.produce(records)
    (step,) = merged.spec["transforms"]
    columns = "SELECT {} AS id, word, payload, false AS gone, _partition, _offset{} FROM incoming"
    step["sql"] = columns.format("7", "")
    merged.start().fail("the rows have no column _topic, which tells apart what comes from several topics")
    step["sql"] = columns.format("7", ", _topic")
    merged.start().fail(f"key id 7 comes from topics {old} and {new}, whose offsets do not compare", _REMEDY)
    assert merged.table.count() == 0
    step["sql"] = columns.format(f"if(_topic = '{old}', 1, 2)", ", _topic")
    merged.catch_up()
    rows = sorted(merged.workload.expected)
    assert merged.table.rows() == Counter([(1, *rows[99][1:]), (2, *rows[100][1:])])

"""`commit: upsert` in a pipeline: what it asks of table and rows. It is killed in test_matrix."""

from __future__ import annotations

from collections import Counter

import pytest

from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.harness.targets import STEPS, newest

pytestmark = pytest.mark.in_turns

_RECORDS = 8 * CHECKPOINT_RECORDS


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
def test_h16_keys_of_two_partitions_need_a_number_of_their_own(merged: Pipeline) -> None:
    """Offsets of two partitions do not compare: the pipeline stops, and goes on where the rows say what is newer."""
    merged.workload.produce(400)
    (step,) = merged.spec["transforms"]
    columns = "SELECT id % 7 AS id, word, payload, false AS gone"  # records go to partitions by parity
    step["sql"] = f"{columns}, _partition, _offset FROM incoming"
    merged.start().fail("comes from partitions 0 and 1, whose offsets do not compare")
    assert merged.table.count() == 0
    step["sql"] = f"{columns}, 0 AS _partition, id AS _offset FROM incoming"
    merged.catch_up()
    newest_of = {number % 7: (number % 7, word, payload) for number, word, payload in sorted(merged.workload.expected)}
    assert merged.table.rows() == Counter(newest_of.values())

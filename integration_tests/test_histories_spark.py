"""Histories that begin with Spark or with Kafka as a source, on real servers (docs/explanation/protocol.md)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, Pipeline
from integration_tests.harness.workload import Workload
from integration_tests.services import Services
from tests.waiting import until
from twophase.codec import decode_head
from twophase.head_value import HeadValue

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 4 * CHECKPOINT_RECORDS


@pytest.mark.timeout(600)
def test_h3_latest_is_resolved_once_also_when_killed_in_batch_0(pipeline: Pipeline, services: Services) -> None:
    """Spark writes only the end of batch 0 down: asked again after the kill, `latest` would be a later one."""
    before = Workload(services.kafka_bootstrap, pipeline.workload.topic, PARTITIONS)
    before.produce(100)  # not to be read
    pipeline.source["starting_offsets"] = "latest"
    process = pipeline.start(until_caught_up=False, arm=["writing@0"])
    until(lambda: pipeline.was_born() and bool(pipeline.head.initial), timeout_s=120, look_s=0.1)
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    process.await_point("writing@0")
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    process.kill()

    pipeline.catch_up()
    pipeline.assert_exact(at_least=2 * CHECKPOINT_RECORDS)
    topic = pipeline.workload.topic
    assert pipeline.head.initial == {"incoming": {f"{topic}/{n}": 100 // PARTITIONS for n in range(PARTITIONS)}}


@pytest.mark.timeout(900)
def test_h6_a_head_that_was_set_back_by_one_checkpoint_is_refused(pipeline: Pipeline, tmp_path: Path) -> None:
    """As after a failover to a replica that lacks the newest swaps: Spark's log and the sink both know better."""
    pipeline.workload.produce(_RECORDS)
    pipeline.catch_up()
    last = pipeline.head.completed
    shutil.copytree(pipeline.location / "head", tmp_path / "whole")
    _set_head_back(pipeline, lambda head: head.completed == last)
    assert pipeline.head.completed == last - 1

    rows, epoch = _protocol_rows(pipeline), pipeline.head.epoch
    pipeline.start().fail(f"Spark has committed batch {last}", f"newest completed checkpoint is {last - 1}")
    commits = pipeline.location / "spark" / pipeline.head.incarnation / "commits"
    (commits / str(last)).unlink()
    pipeline.start().fail(f"sink warehouse holds rows of checkpoint {last}", "head was set back")
    assert (_protocol_rows(pipeline), pipeline.head.epoch) == (rows, epoch), "a refused start has changed something"

    shutil.rmtree(pipeline.location / "head")
    shutil.copytree(tmp_path / "whole", pipeline.location / "head")
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    pipeline.catch_up()
    pipeline.assert_exact(at_least=_RECORDS + CHECKPOINT_RECORDS)


@pytest.mark.timeout(600)
def test_h13_a_batch_whose_checkpoint_was_aborted_is_not_done_for_spark(pipeline: Pipeline) -> None:
    pipeline.spec["restart"] = {"strategy": "none"}
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(arm=["writing@1 raise"])
    assert process.wait() == 1
    assert pipeline.prepared() == []
    spark = pipeline.location / "spark" / pipeline.head.incarnation
    assert (pipeline.head.completed, pipeline.head.aborted_checkpoint) == (0, 1)
    assert (spark / "offsets" / "1").exists()
    assert not (spark / "commits" / "1").exists(), "Spark would go on with batch 2"

    pipeline.catch_up()
    pipeline.assert_exact(at_least=_RECORDS)


@pytest.mark.timeout(600)
def test_h22_state_that_no_longer_matches_what_was_written_stops_the_pipeline(pipeline: Pipeline) -> None:
    """The decided batch is run again for its state, and its rows are not those that were decided."""
    pipeline.spec["transforms"] = [
        {
            "name": "counted",
            "sql": "SELECT max(id) AS id, word, count(*) AS times FROM incoming GROUP BY word",
            "output_mode": "update",
        },
        {"name": "rows", "sql": "SELECT id, word, CAST(times + rand() AS STRING) AS payload FROM counted"},
    ]
    pipeline.spec["spark"]["conf"] = {"spark.sql.shuffle.partitions": 2}
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(arm=["after-decide@1"])
    process.await_point("after-decide@1")
    process.kill()

    process = pipeline.start()
    process.fail("Spark re-runs batch 1 and gets other rows than it was decided with", "deterministic")
    head = pipeline.head
    assert (head.completed, pipeline.prepared()) == (1, []), "what was decided is committed all the same"


@pytest.mark.timeout(600)
def test_h23_a_run_until_caught_up_ends_with_nothing_pending(pipeline: Pipeline) -> None:
    """What comes while it runs is for the next run; what it began is committed, closed, and known to Spark."""
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(arm=["prepared@1"])
    process.await_point("prepared@1")
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    process.release("prepared@1")
    process.succeed()
    head = pipeline.head
    commits = pipeline.location / "spark" / head.incarnation / "commits"
    assert head.committed == head.completed == _RECORDS // CHECKPOINT_RECORDS - 1
    assert (commits / str(head.completed)).exists()
    assert (pipeline.prepared(), pipeline.table.execute("SELECT * FROM eos_permit")) == ([], [])
    assert pipeline.table.count() == _RECORDS

    pipeline.catch_up()
    pipeline.assert_exact(at_least=_RECORDS + CHECKPOINT_RECORDS)


def _set_head_back(pipeline: Pipeline, forgets: Callable[[HeadValue], bool]) -> None:
    for path in sorted((pipeline.location / "head").glob("[0-9]*.json"), reverse=True):
        if not forgets(decode_head(path.read_bytes())):
            return
        path.unlink()


def _protocol_rows(pipeline: Pipeline) -> list[list[tuple[object, ...]]]:
    tables = ("eos_claim", "eos_permit", "eos_slot", "eos_witness")
    return [sorted(pipeline.table.execute(f"SELECT * FROM {table}")) for table in tables]

"""R2: the state of a pipeline is divided anew, with kills at every point, and counts go on where they were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from integration_tests.counting import assert_counted, count_words
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, TABLE, Pipeline
from integration_tests.harness.pipeline_process import PipelineProcess
from spark_jobs.query.spark_log import LocalSparkLog

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]


@pytest.fixture
def counting(pipeline: Pipeline) -> Pipeline:
    count_words(pipeline)
    return pipeline


@pytest.mark.timeout(900)
def test_more_state_partitions_whatever_is_killed(counting: Pipeline) -> None:
    counting.workload.produce(4 * CHECKPOINT_RECORDS)
    process = counting.start(arm=["after-decide@2"])
    process.await_point("after-decide@2")
    counting.command("rescale", "--state-partitions", "5", "--yes").fail("runs, as process")
    process.kill()
    shown = counting.command("rescale", "--state-partitions", "5")
    shown.succeed()
    assert "with 2 state partitions" in shown.output()
    assert "Nothing was changed" in shown.output()

    first = _rescale(counting, 5)  # runs batch 2 to its end, for Spark has not heard that it is decided
    first.await_file(_spark(counting) / "offsets" / "3")
    first.kill()
    assert (counting.head.completed, _partitions(counting)) == (2, {2: 2, 3: 5})
    said = "a rescale to 5 state partitions has begun after checkpoint 2, and has not ended"
    counting.start().fail(said, "eos rescale --state-partitions 5")
    _rescale(counting, 3).fail("a rescale to 5 state partitions has not ended", "take it back, by 2")

    second = _rescale(counting, 5, "before-decide@3")
    second.await_point("before-decide@3")
    second.kill()
    assert (_spark(counting) / "commits" / "3").exists()
    counting.start().fail(said)
    _rescale(counting, 2).fail("a rescale to 5 state partitions has not ended")

    third = _rescale(counting, 5, "after-decide@3")
    third.await_point("after-decide@3")
    third.kill()
    assert (counting.head.completed, counting.head.committed) == (3, 2)

    counting.workload.produce(CHECKPOINT_RECORDS)
    process = counting.start(arm=["prepared@5"])
    process.await_point("prepared@5")
    process.kill()
    counting.catch_up()
    assert _partitions(counting) == {4: 5, 5: 5}
    assert_counted(counting, checkpoints=5)
    same = _rescale(counting, 5)
    same.succeed()
    assert "there is nothing to do" in same.output()
    assert counting.head.completed == 5


@pytest.mark.timeout(900)
def test_fewer_state_partitions_with_slots_that_count_checkpoints(counting: Pipeline) -> None:
    """What has not ended is taken back, and done later. The log's slots count the checkpoint without rows."""
    counting.spec["sinks"][0]["commit"] = "write-ahead-log"
    counting.spec["spark"]["conf"] = {"spark.sql.shuffle.partitions": 4}
    counting.workload.produce(2 * CHECKPOINT_RECORDS)
    counting.catch_up()
    _rescale(counting, 1).fail("has spark.sql.shuffle.partitions: 4, and not 1", "write 1 there", code=2)

    counting.spec["spark"]["conf"] = {"spark.sql.shuffle.partitions": 1}
    process = _rescale(counting, 1)
    process.await_file(_spark(counting) / "offsets" / "2")
    process.kill()
    counting.spec["spark"]["conf"] = {}
    _rescale(counting, 4).succeed()
    assert (counting.head.completed, _partitions(counting)) == (1, {0: 4, 1: 4})
    counting.workload.produce(CHECKPOINT_RECORDS)
    counting.spec["spark"]["conf"] = {"spark.sql.shuffle.partitions": 1}
    assert "spark.sql.shuffle.partitions: 1, and the state keeps its 4 partitions" in counting.catch_up().output()

    done = _rescale(counting, 1, options=["--json"])
    done.succeed()
    output = done.output()
    facts = json.loads(output[output.index("{\n") :])
    assert (facts["before"], facts["after"], facts["checkpoint_id"]) == (4, 1, 3)
    assert facts["state_bytes"] > 0
    assert counting.head.committed == 3
    counting.workload.produce(CHECKPOINT_RECORDS)
    counting.catch_up()
    assert _partitions(counting) == {3: 1, 4: 1}
    assert_counted(counting, checkpoints=4)
    status = counting.command("status", "--json")
    status.succeed()
    assert [each["state_partitions"] for each in json.loads(status.output())["checkpoints"]] == [
        None,
        1,
        None,
        None,
        None,
    ]


@pytest.mark.timeout(900)
def test_another_number_of_cores_is_another_number_of_tasks(pipeline: Pipeline) -> None:
    """Of a sink with a key, where dead letters have rows go through a shuffle: around a decision and without one."""
    pipeline.table.execute(f"ALTER TABLE `{TABLE}` ADD PRIMARY KEY (id)")
    (sink,) = pipeline.spec["sinks"]
    kept = ("connector", "url", "commit")
    pipeline.spec["dead_letter"] = {name: sink[name] for name in kept} | {"table": "letters", "create": "if-missing"}
    pipeline.spec["spark"]["conf"] = {
        "spark.sql.adaptive.coalescePartitions.enabled": "false"
    }  # the few rows are one's
    pipeline.workload.produce(3 * CHECKPOINT_RECORDS)
    tasks = []
    for cores, stem in ((1, "prepared@1"), (3, "after-decide@2"), (2, "prepared@3")):
        pipeline.spec["spark"]["master"] = f"local[{cores}]"
        process = pipeline.start(arm=[stem])
        process.await_point(stem)
        process.kill()
        tasks.append(len(pipeline.decided().committables["warehouse"]))
        pipeline.workload.produce(CHECKPOINT_RECORDS)
    pipeline.catch_up()
    assert [*tasks, len(pipeline.decided().committables["warehouse"])] == [1, 3, 3, 2]
    pipeline.assert_exact(6 * CHECKPOINT_RECORDS)


@pytest.mark.timeout(900)
def test_what_spark_cannot_divide_is_left_as_it_was(pipeline: Pipeline) -> None:
    """No state; state that is refused beforehand; and a file of the state that Spark finds damaged under way."""
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    pipeline.catch_up()
    _rescale(pipeline, 5).fail("keeps no state: there is nothing to divide", code=2)

    once = "SELECT DISTINCT id, word, payload FROM incoming"
    pipeline.spec["transforms"] = [{"name": "rows", "sql": once, "output_mode": "update"}]
    pipeline.command("reset", "--to", "completed", "--yes").succeed()
    pipeline.workload.produce(2 * CHECKPOINT_RECORDS)
    pipeline.catch_up()
    completed = pipeline.head.completed
    kept = {path: path.read_bytes() for path in (_spark(pipeline) / "state").rglob("*.zip")}
    assert kept
    for path in kept:
        path.write_bytes(b"damaged")
    _rescale(pipeline, 5).fail("dividing the state into 5 partitions failed", "all is as before")
    assert (pipeline.head.completed, not (_spark(pipeline) / "offsets" / str(completed + 1)).exists()) == (
        completed,
        True,
    )
    for path, content in kept.items():
        path.write_bytes(content)
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    pipeline.catch_up()
    pipeline.assert_exact(4 * CHECKPOINT_RECORDS)


def _rescale(pipeline: Pipeline, partitions: int, *arm: str, options: list[str] | None = None) -> PipelineProcess:
    return pipeline.command("rescale", "--state-partitions", str(partitions), "--yes", *(options or []), arm=arm)


def _spark(pipeline: Pipeline) -> Path:
    return LocalSparkLog(pipeline.location).folder(pipeline.head.incarnation)


def _partitions(pipeline: Pipeline) -> dict[int, int]:
    return dict(LocalSparkLog(pipeline.location).state(pipeline.head.incarnation).state_partitions)

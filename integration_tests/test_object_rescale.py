"""`eos rescale` and `eos repair` of a pipeline in an object store: each command is on a machine of its own."""

from __future__ import annotations

import json

import pytest

from integration_tests.counting import assert_counted, count_words
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.harness.pipeline_process import PipelineProcess
from integration_tests.harness.stores import ON_BOTH_STORES, kept_states, move, put_location
from spark_jobs.query.spark_log import STATE_PARTITIONS
from tests.object_store import Bucket

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]


def _command(pipeline: Pipeline, name: str, *options: str, arm: str = "") -> PipelineProcess:
    move(pipeline)
    return pipeline.command(name, *options, arm=[arm] if arm else [])


def _rescale(pipeline: Pipeline, partitions: int, *options: str, arm: str = "") -> PipelineProcess:
    return _command(pipeline, "rescale", "--state-partitions", str(partitions), *options, arm=arm)


def _partitions(pipeline: Pipeline) -> int:
    """Return those of the newest decided plan."""
    return int(json.loads(pipeline.decided().offsets_log.split("\n")[1])["conf"][STATE_PARTITIONS])


def _catch_up(pipeline: Pipeline) -> PipelineProcess:
    move(pipeline)
    return pipeline.catch_up()


@ON_BOTH_STORES
@pytest.mark.timeout(1800)
def test_state_is_divided_whatever_is_killed(pipeline: Pipeline, bucket: Bucket) -> None:
    count_words(pipeline)
    pipeline.spec["spark"]["conf"] = {STATE_PARTITIONS: 2}
    put_location(pipeline, bucket)
    pipeline.workload.produce(4 * CHECKPOINT_RECORDS)
    _command(pipeline, "run", "--until-caught-up", arm="after-decide@2").kill_at("after-decide@2")
    pipeline.spec["spark"]["conf"] = {}
    shown = _rescale(pipeline, 5)
    shown.succeed()
    assert "with 2 state partitions" in shown.output()
    assert "Nothing was changed" in shown.output()

    # It has not sent its state: nothing has begun. Batch 2 has ended, with nothing read behind it.
    _rescale(pipeline, 5, "--yes", arm="state-sent@3").kill_at("state-sent@3")
    assert (pipeline.head.completed, pipeline.head.committed, _partitions(pipeline)) == (2, 2, 2)

    # It has sent its state, which no decision rests on: a start passes it over, and decides another checkpoint 3.
    _rescale(pipeline, 5, "--yes", arm="state-kept@3").kill_at("state-kept@3")
    assert pipeline.head.completed == 2
    assert sorted({checkpoint for _, checkpoint in kept_states(bucket)}) == [1, 2, 3]
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    _command(pipeline, "run", "--until-caught-up", arm="state-sent@3").kill_at("state-sent@3")
    following = _catch_up(pipeline)
    assert "state after checkpoint 2: " in following.output()
    assert (pipeline.head.completed, _partitions(pipeline)) == (4, 2)

    # It is decided: the start after it commits it, with the state in its new partitions.
    _rescale(pipeline, 5, "--yes", arm="after-decide@5").kill_at("after-decide@5")
    assert (pipeline.head.completed, pipeline.head.committed) == (5, 4)
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    assert "state after checkpoint 5: " in _catch_up(pipeline).output()
    assert (pipeline.head.completed, _partitions(pipeline)) == (6, 5)

    done = _rescale(pipeline, 3, "--yes", "--json")
    done.succeed()
    output = done.output()
    facts = json.loads(output[output.index("{\n") :])
    assert (facts["before"], facts["after"], facts["checkpoint_id"], facts["state_bytes"] > 0) == (5, 3, 7, True)
    assert sorted({checkpoint for _, checkpoint in kept_states(bucket)}) == [6, 7]
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    _command(pipeline, "run", "--until-caught-up", arm="prepared@8").kill_at("prepared@8")
    _catch_up(pipeline)
    assert (pipeline.head.completed, _partitions(pipeline)) == (8, 3)
    assert_counted(pipeline, checkpoints=7)


@pytest.mark.timeout(900)
def test_a_rescale_that_is_superseded(pipeline: Pipeline, bucket: Bucket) -> None:
    """It is frozen before its decision; a driver elsewhere goes on, and then it is let go: it changes nothing."""
    count_words(pipeline)
    put_location(pipeline, bucket)
    pipeline.spec["spark"]["conf"] = {STATE_PARTITIONS: 2}
    pipeline.workload.produce(2 * CHECKPOINT_RECORDS)
    _catch_up(pipeline)
    pipeline.spec["spark"]["conf"] = {}
    frozen = _rescale(pipeline, 5, "--yes", arm="state-kept@2")
    frozen.await_point("state-kept@2")
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    _catch_up(pipeline)
    frozen.release("state-kept@2")
    frozen.fail("fenced: ", "another driver of this pipeline has started since")
    assert (pipeline.head.completed, _partitions(pipeline)) == (2, 2)
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    _catch_up(pipeline)
    assert_counted(pipeline, checkpoints=4)


@pytest.mark.timeout(900)
def test_state_of_a_rescale_that_is_lost_is_not_repeated(pipeline: Pipeline, bucket: Bucket) -> None:
    """Spark cannot repeat it over the state before."""
    count_words(pipeline)
    put_location(pipeline, bucket)
    pipeline.spec["spark"]["conf"] = {STATE_PARTITIONS: 2}
    pipeline.workload.produce(2 * CHECKPOINT_RECORDS)
    _catch_up(pipeline)
    pipeline.spec["spark"]["conf"] = {}
    _rescale(pipeline, 5, "--yes").succeed()
    newest = max(key for key in bucket.listed() if key.endswith(".state"))
    content = bucket.content(newest)
    bucket.s3.delete_object(Bucket=bucket.name, Key=newest)
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    move(pipeline)
    pipeline.start().fail("the state after checkpoint 2 is not at")
    bucket.write(newest, content)
    _catch_up(pipeline)
    assert_counted(pipeline, checkpoints=3)


@pytest.mark.timeout(600)
def test_a_pipeline_without_state_has_nothing_to_divide(pipeline: Pipeline, bucket: Bucket) -> None:
    put_location(pipeline, bucket)
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    pipeline.catch_up()
    _rescale(pipeline, 5, "--yes").fail("keeps no state: there is nothing to divide", code=2)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("has_state", [False, True])
def test_a_transaction_that_was_rolled_back_by_hand(pipeline: Pipeline, bucket: Bucket, *, has_state: bool) -> None:
    """The rows are read again over the state before them, which is in the store; killed after the swap."""
    if has_state:
        count_words(pipeline)
        pipeline.spec["spark"]["conf"] = {STATE_PARTITIONS: 2}
    put_location(pipeline, bucket)
    records = 4 * CHECKPOINT_RECORDS
    pipeline.workload.produce(records)
    _command(pipeline, "run", "--until-caught-up", arm="after-decide@1").kill_at("after-decide@1")
    left = pipeline.prepared()
    assert len(left) == 2
    pipeline.table.execute(f"XA ROLLBACK {left[0]}")
    move(pipeline)
    pipeline.start().fail("lost: checkpoint 1 is completed", "eos repair SPEC")
    shown = pipeline.table.count()
    if has_state:
        states = {key: bucket.content(key) for key in bucket.listed() if "/state/" in key}
        for key in states:
            bucket.s3.delete_object(Bucket=bucket.name, Key=key)
        refused = _command(pipeline, "repair", "--yes")
        refused.fail("the state before checkpoint 1 is not kept any more", "is not at", code=2)
        for key, content in states.items():
            bucket.write(key, content)
    killed = _command(pipeline, "repair", "--yes", arm="after-repair@1")
    killed.kill_at("after-repair@1")
    assert (pipeline.table.count(), len(pipeline.prepared())) == (shown, 1)
    _catch_up(pipeline)
    if has_state:
        assert_counted(pipeline, checkpoints=4)
    else:
        pipeline.assert_exact(at_least=records)

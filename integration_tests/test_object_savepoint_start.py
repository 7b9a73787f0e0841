"""Starts from a savepoint into an object store: killed at every point, each on a machine of its own."""

from __future__ import annotations

import shutil

import pytest

from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.harness.stores import ON_BOTH_STORES, kept_states, move, put_location
from integration_tests.savepoints import begin_from, keep_ids, take_elsewhere
from tests.object_store import Bucket

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_FIRST, _NEW = 2 * CHECKPOINT_RECORDS, 300


@ON_BOTH_STORES
@pytest.mark.timeout(1500)
def test_state_is_in_the_store_before_head_has_it(pipeline: Pipeline, bucket: Bucket) -> None:
    """From a disk into a store. Each start is killed, and its machine is lost with it."""
    keep_ids(pipeline)
    pipeline.workload.produce(_FIRST)
    pipeline.catch_up()
    savepoint = take_elsewhere(pipeline, pipeline.folder / "kept")
    shutil.rmtree(pipeline.location)
    put_location(pipeline, bucket)
    pipeline.workload.repeat(_FIRST)
    pipeline.workload.produce(_NEW)

    for point in ("state-sent@1", "state-kept@1"):  # no head: nothing has begun
        begin_from(pipeline, savepoint, "--take-over", arm=point).kill_at(point)
        assert not pipeline.was_born()
    assert len(kept_states(bucket)) == 1, "of the second start; the first one has sent no manifest"

    begin_from(pipeline, savepoint, "--take-over", arm="state-sent@2").kill_at("state-sent@2")
    begun = pipeline.head
    assert (begun.origin is not None and begun.origin.checkpoint_id, begun.completed) == (1, 2)
    assert {incarnation for incarnation, _ in kept_states(bucket)} == {begun.incarnation}, "what they left is deleted"

    move(pipeline)
    pipeline.workload.repeat(_FIRST)
    following = pipeline.catch_up()  # checkpoint 2 is decided, and its state lost with the machine
    assert "state after checkpoint 1: " in following.output()
    assert "replayed=true" in following.output()
    pipeline.assert_exact(at_least=_FIRST + _NEW)
    assert pipeline.head.incarnation == begun.incarnation
    assert not pipeline.location.exists()
    assert [key for key in bucket.listed() if "/births/" in key] == []


@pytest.mark.timeout(1500)
def test_a_start_over_a_pipeline_in_the_store(pipeline: Pipeline, bucket: Bucket) -> None:
    """Killed before its swap the old incarnation goes on; after it the start is repeated, and rows are as announced."""
    keep_ids(pipeline)
    put_location(pipeline, bucket)
    pipeline.workload.produce(_FIRST)
    pipeline.catch_up()
    savepoint = take_elsewhere(pipeline, pipeline.folder / "kept")
    pipeline.workload.produce(_NEW)
    move(pipeline)
    pipeline.catch_up()
    before = pipeline.head
    begin_from(pipeline, savepoint).fail("were read after the savepoint was written", "--accept-duplicates")
    assert pipeline.head == before

    begin_from(pipeline, savepoint, "--accept-duplicates", arm="before-restore").kill_at("before-restore")
    assert len({incarnation for incarnation, _ in kept_states(bucket)}) == 2
    pipeline.workload.repeat(_FIRST)
    move(pipeline)
    pipeline.catch_up()
    assert pipeline.head.incarnation == before.incarnation
    pipeline.assert_exact(at_least=_FIRST + _NEW)

    begin_from(pipeline, savepoint, "--accept-duplicates", arm="after-restore").kill_at("after-restore")
    assert pipeline.head.completed == 1
    move(pipeline)
    pipeline.start().fail("was cut short")
    begin_from(pipeline, savepoint, "--accept-duplicates").succeed()
    verdict = pipeline.verdict()
    assert (verdict.duplicated, verdict.lost, verdict.unexpected) == (_NEW, 0, 0), str(verdict)
    assert {incarnation for incarnation, _ in kept_states(bucket)} == {pipeline.head.incarnation}
    assert [key for key in bucket.listed() if "/births/" in key] == []

    # Still at its savepoint, on another machine: it goes on.
    newest = take_elsewhere(pipeline, pipeline.folder / "kept")
    incarnation = pipeline.head.incarnation
    pipeline.workload.produce(_NEW)
    same = begin_from(pipeline, newest)
    same.succeed()
    assert "still at the savepoint" in same.output()
    assert pipeline.head.incarnation == incarnation


@pytest.mark.timeout(900)
def test_without_state_from_a_store_to_a_store(pipeline: Pipeline, bucket: Bucket) -> None:
    """Head alone has all that such a pipeline needs: nothing is sent but the note of the start."""
    put_location(pipeline, bucket)
    pipeline.workload.produce(_FIRST)
    pipeline.catch_up()
    savepoint = take_elsewhere(pipeline, pipeline.folder / "kept")
    put_location(pipeline, bucket, prefix="eos/moved")
    pipeline.workload.produce(_NEW)
    begin_from(pipeline, savepoint, "--take-over", arm="after-decide@2").kill_at("after-decide@2")
    move(pipeline)
    pipeline.catch_up()
    pipeline.assert_exact(at_least=_FIRST + _NEW)
    assert pipeline.head.origin is not None
    assert [key for key in bucket.listed() if key.startswith("eos/moved/state/")] == []


@pytest.mark.timeout(900)
def test_the_state_of_the_first_checkpoint_is_lost(pipeline: Pipeline, bucket: Bucket) -> None:
    """A start does not repeat a batch of another incarnation: it is refused, and the savepoint is begun from again."""
    keep_ids(pipeline)
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    pipeline.catch_up()
    savepoint = take_elsewhere(pipeline, pipeline.folder / "kept")
    shutil.rmtree(pipeline.location)
    put_location(pipeline, bucket)
    begin_from(pipeline, savepoint, "--take-over").succeed()
    assert pipeline.head.completed == 0
    for key in [key for key in bucket.listed() if "/state/" in key]:
        bucket.s3.delete_object(Bucket=bucket.name, Key=key)
    move(pipeline)
    pipeline.workload.repeat(CHECKPOINT_RECORDS)
    pipeline.workload.produce(_NEW)
    pipeline.start().fail("the state after checkpoint 0 is not at")
    begin_from(pipeline, savepoint, "--take-over").fail("the state after checkpoint 0 is not at")

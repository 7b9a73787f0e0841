"""State that is kept in an object store: each driver begins in an empty folder, and remembers every id."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.harness.pipeline_process import PipelineProcess
from integration_tests.harness.stores import (
    ON_ALL_STORES,
    cut_off_at,
    driver_at,
    move,
    put_location,
    release_fenced,
)
from integration_tests.savepoints import keep_ids
from tests.object_store import Bucket, Request, Wire, lost_answer, through

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

Lay = Callable[..., Wire]

_HALF = CHECKPOINT_RECORDS // 2
_POINTS = (
    "writing@0", "state-sent@0", "before-decide@1", "after-decide@2", "state-kept@2", "between-commits@3",
    "state-sent@4", "after-commits@5", "closed@6",
)  # fmt: skip
"""Batch 4 is decided and its state is not kept, or kept and head does not know it, and so on."""


@pytest.fixture
def remembering(pipeline: Pipeline, bucket: Bucket) -> Pipeline:
    keep_ids(pipeline)
    put_location(pipeline, bucket)
    return pipeline


def _feed(pipeline: Pipeline) -> None:
    """Two checkpoints. Half of each is ids that come once more: a driver that has forgotten one writes it twice."""
    for _ in range(2):
        pipeline.workload.repeat(_HALF)
        pipeline.workload.produce(_HALF)


def _assert_remembered(pipeline: Pipeline) -> None:
    produced = len(pipeline.workload.expected)
    pipeline.workload.repeat(produced)
    move(pipeline)
    pipeline.catch_up()
    pipeline.assert_exact(at_least=produced)
    assert pipeline.head.committed == pipeline.head.completed
    assert not pipeline.location.exists()


@ON_ALL_STORES
@pytest.mark.timeout(1500)
def test_a_driver_that_is_killed_anywhere_leaves_its_state(remembering: Pipeline) -> None:
    for stem in _POINTS:
        _feed(remembering)
        driver_at(remembering, stem).kill()
    _assert_remembered(remembering)


@pytest.mark.timeout(1500)
def test_only_the_newest_of_several_machines_keeps_state(remembering: Pipeline) -> None:
    """Each driver is frozen at another moment, superseded by one on another machine, and only then let go on."""
    frozen: list[tuple[PipelineProcess, str]] = []
    for stem in ("planned@0", "state-sent@0", "before-decide@2", "state-kept@3", "after-decide@5"):
        _feed(remembering)
        frozen.append((driver_at(remembering, stem), stem))
    _feed(remembering)
    move(remembering)
    remembering.catch_up()
    for process, stem in frozen:
        release_fenced(process, stem)
        _feed(remembering)
        move(remembering)
        remembering.catch_up()
    _assert_remembered(remembering)
    assert remembering.head.epoch == len(remembering.processes)


@pytest.mark.timeout(900)
def test_an_idle_pipeline_leaves_the_state_of_its_newest_checkpoint(remembering: Pipeline) -> None:
    """Its records may be gone from the topic when it starts elsewhere, and no batch must run again."""
    _feed(remembering)
    running = remembering.start(until_caught_up=False, arm=["state-kept@1"])
    running.await_point("state-kept@1")
    running.kill()
    move(remembering)
    following = remembering.catch_up()
    assert "state after checkpoint 1: " in following.output()
    assert "replayed=true" not in following.output()
    _assert_remembered(remembering)


@pytest.mark.timeout(900)
def test_answers_to_the_objects_of_states_are_lost(pipeline: Pipeline, bucket: Bucket, wire: Lay) -> None:
    """Every second object is there, and the driver is not told. The store is then cut off, in the middle of a state."""
    lost = 0

    def hearing(line: Wire, request: Request) -> bytes | None:
        nonlocal lost
        if request.method == "PUT" and b"/eos/orders/state/" in request.head:
            lost += 1
            if lost % 2:
                lost_answer(line, request)
                return None
        return through(line, request)

    line = wire(hearing)
    keep_ids(pipeline)
    put_location(pipeline, bucket, line.port)
    pipeline.spec["restart"] = {"strategy": "fixed-delay", "attempts": 1000, "delay": "100ms"}
    for _ in range(4):
        _feed(pipeline)
    pipeline.catch_up()
    assert lost >= 2 * pipeline.head.completed
    line.behaviours[:] = [through]
    points = ["state-sent@8"]
    _feed(pipeline)
    move(pipeline)
    process = pipeline.start(arm=points)
    cut_off_at(process, line, points, 6)
    process.succeed()
    _assert_remembered(pipeline)


@pytest.mark.timeout(600)
def test_objects_of_older_states_do_not_stay(remembering: Pipeline, bucket: Bucket) -> None:
    """Also those of a driver that was killed while it sent them."""
    _feed(remembering)
    process = remembering.start(arm=["state-sent@1"])
    process.await_point("state-sent@1")
    process.kill()
    for _ in range(3):
        _feed(remembering)
        move(remembering)
        remembering.catch_up()
    names = [key.rpartition("/")[2] for key in bucket.listed() if key.startswith("eos/orders/state/")]
    manifests = [name for name in names if name.endswith(".state")]
    newest = remembering.head.completed
    assert [int(name[:12]) for name in manifests] == [newest - 1, newest]
    assert not any(name.startswith("00000001.") for name in names), names
    _assert_remembered(remembering)
    move(remembering)
    remembering.command("stop", "--delete", "--timeout", "5s").succeed()
    assert [key for key in bucket.listed() if key.startswith("eos/orders/state/")] == []

"""Savepoints of a pipeline with state in an object store: whole or absent, from a driver's folder or from the store."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.harness.stores import ON_BOTH_STORES, kept_states, move, put_location
from integration_tests.savepoints import await_committed, begin_from, keep_ids, take_elsewhere
from spark_jobs.savepoints import manifest as manifests
from tests.object_store import Bucket, Request, Wire, lost_request, through

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_FIRST, _NEW = 2 * CHECKPOINT_RECORDS, 300


def _facts(pipeline: Pipeline, name: str, *options: str) -> dict[str, Any]:
    process = pipeline.command(name, *options, "--json")
    process.succeed()
    output = process.output()
    found: dict[str, Any] = json.loads(output[output.index("{\n") :])
    return found


@ON_BOTH_STORES
@pytest.mark.timeout(900)
def test_of_a_stopped_pipeline_whose_machine_is_lost(pipeline: Pipeline, bucket: Bucket) -> None:
    """Each process is on a machine of its own. The savepoint is killed twice, and then has each id."""
    keep_ids(pipeline)
    put_location(pipeline, bucket)
    pipeline.workload.produce(_FIRST)
    pipeline.catch_up()
    into = pipeline.folder / "kept"
    for point in ("savepoint-pinned", "savepoint-copied"):
        move(pipeline)
        process = pipeline.command("savepoint", str(into), arm=[point])
        process.kill_at(point)
        assert [path for path in into.glob("*") if not path.name.endswith(".partial")] == []
    before = bucket.listed()
    savepoint = take_elsewhere(pipeline, into)
    assert list(into.iterdir()) == [savepoint], "what the killed ones left is swept away"
    assert bucket.listed() == before, "nothing is written to the store"
    manifest = manifests.checked(savepoint)
    assert (manifest.checkpoint_id, manifest.later, manifest.state_bytes > 0) == (1, 0, True)

    pipeline.workload.repeat(_FIRST)
    pipeline.workload.produce(_NEW)
    put_location(pipeline, bucket, prefix="eos/moved")
    begin_from(pipeline, savepoint, "--take-over").succeed()
    pipeline.assert_exact(at_least=_FIRST + _NEW)


@pytest.mark.timeout(900)
def test_the_newest_state_was_not_kept(pipeline: Pipeline, bucket: Bucket) -> None:
    """The driver was killed before it had sent it: the savepoint has the checkpoint before, and says so."""
    keep_ids(pipeline)
    put_location(pipeline, bucket)
    pipeline.workload.produce(_FIRST)
    process = pipeline.start(arm=["state-sent@1"])
    process.kill_at("state-sent@1")
    assert pipeline.head.committed == 1
    savepoint = take_elsewhere(pipeline, pipeline.folder / "kept")
    manifest = manifests.checked(savepoint)
    assert (manifest.checkpoint_id, manifest.later, manifest.lacking) == (0, 1, "checkpoint 1")
    shown = pipeline.command("savepoint", str(pipeline.folder / "kept"))
    shown.succeed()
    assert "does not hold checkpoint 1: committed in the sinks" in " ".join(shown.output().split())
    begin_from(pipeline, savepoint).fail(f"{CHECKPOINT_RECORDS} records were read after the savepoint was written")
    pipeline.workload.repeat(_FIRST)
    begin_from(pipeline, savepoint, "--accept-duplicates").succeed()
    verdict = pipeline.verdict()
    assert (verdict.duplicated, verdict.lost, verdict.unexpected) == (CHECKPOINT_RECORDS, 0, 0), str(verdict)


@pytest.mark.timeout(900)
def test_of_a_running_pipeline(pipeline: Pipeline, bucket: Bucket) -> None:
    """On the driver's machine from its folder, elsewhere from the store; and after a stop."""
    keep_ids(pipeline)
    put_location(pipeline, bucket)
    pipeline.workload.produce(_FIRST)
    running = pipeline.start(until_caught_up=False)
    await_committed(pipeline, _FIRST)
    into = str(pipeline.folder / "kept")
    beside = _facts(pipeline, "savepoint", into)
    assert beside["checkpoint_id"] == pipeline.head.committed
    elsewhere = take_elsewhere(pipeline, Path(into))
    pipeline.workload.produce(_NEW)
    await_committed(pipeline, _FIRST + _NEW)
    move(pipeline)
    stopped = _facts(pipeline, "stop", "--savepoint", into)
    running.succeed()
    last = Path(stopped["savepoint"]["folder"])
    manifest = manifests.checked(last)
    assert (manifest.checkpoint_id, manifest.later) == (pipeline.head.completed, 0)

    for savepoint in (Path(beside["folder"]), elsewhere):
        found = manifests.checked(savepoint)
        assert (found.checkpoint_id, found.state_bytes > 0) == (beside["checkpoint_id"], True)
    pipeline.workload.repeat(_FIRST + _NEW)
    put_location(pipeline, bucket, prefix="eos/moved")
    begin_from(pipeline, last, "--take-over").succeed()
    pipeline.assert_exact(at_least=_FIRST + _NEW)


@pytest.mark.timeout(600)
def test_state_that_is_lost_or_damaged(pipeline: Pipeline, bucket: Bucket) -> None:
    """No savepoint is left. Where the state before is whole, the savepoint has that."""
    keep_ids(pipeline)
    put_location(pipeline, bucket)
    pipeline.workload.produce(_FIRST)
    pipeline.catch_up()
    assert [checkpoint for _, checkpoint in kept_states(bucket)] == [0, 1]
    into = pipeline.folder / "kept"
    newest = max(key for key in bucket.listed() if key.endswith(".state"))
    bucket.write(newest, bucket.content(newest)[:-1])
    assert manifests.checked(take_elsewhere(pipeline, into)).checkpoint_id == 0
    for key in [key for key in bucket.listed() if key.endswith(".files")]:
        bucket.s3.delete_object(Bucket=bucket.name, Key=key)
    move(pipeline)
    pipeline.command("savepoint", str(into)).fail("the state after checkpoint 0 is not at", "does not exist")
    assert len(list(into.iterdir())) == 1


@pytest.mark.timeout(600)
def test_of_the_first_checkpoint_whose_state_was_not_kept(
    pipeline: Pipeline, bucket: Bucket, wire: Callable[..., Wire]
) -> None:
    """The store takes everything but the state, so that the second checkpoint is never decided."""

    def hearing(line: Wire, request: Request) -> bytes | None:
        if request.method == "PUT" and b"/eos/orders/state/" in request.head:
            lost_request(line, request)
            return None
        return through(line, request)

    keep_ids(pipeline)
    put_location(pipeline, bucket, wire(hearing).port)
    pipeline.spec["restart"] = {"strategy": "none"}
    pipeline.workload.produce(2 * CHECKPOINT_RECORDS)
    pipeline.start().wait()
    assert (pipeline.head.completed, pipeline.head.committed) == (0, 0)
    move(pipeline)
    pipeline.command("savepoint", str(pipeline.folder / "kept")).fail("has no batch that is done")
    assert list((pipeline.folder / "kept").iterdir()) == []

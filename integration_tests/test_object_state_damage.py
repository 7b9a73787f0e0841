"""State in an object store that is damaged: the next driver begins with the state before, on real stores."""

from __future__ import annotations

import json

import pytest

from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.harness.stores import move, put_location
from integration_tests.savepoints import keep_ids
from tests.object_store import Bucket

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_STATE = "eos/orders/state/"


def _damage_newest(bucket: Bucket, kind: str) -> None:
    """Alter a byte of a file that the newest state alone has."""
    manifests = sorted(key for key in bucket.listed() if key.startswith(_STATE) and key.endswith(".state"))
    before, newest = (json.loads(bucket.content(key)) for key in manifests[-2:])
    new = {path: at for path, at in newest["files"].items() if path not in before["files"] and path.endswith(kind)}
    pack, offset, size, _ = new[max(new)]
    key = f"{manifests[-1].rpartition('/')[0]}/{newest['packs'][pack][0]}"
    content = bytearray(bucket.content(key))
    content[offset + size // 2] ^= 1
    bucket.write(key, bytes(content))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", [".sst", ".zip"])
def test_the_newest_state_is_damaged(pipeline: Pipeline, bucket: Bucket, kind: str) -> None:
    """Spark repeats the newest batch over the state before, and the state is whole from then on."""
    keep_ids(pipeline)
    put_location(pipeline, bucket)
    half = CHECKPOINT_RECORDS // 2
    for _ in range(4):
        pipeline.workload.repeat(half)
        pipeline.workload.produce(half)
    pipeline.catch_up()
    newest = pipeline.head.completed
    _damage_newest(bucket, kind)
    pipeline.workload.repeat(len(pipeline.workload.expected))
    for _ in range(2):  # the second one has only what the first one has kept
        move(pipeline)
        pipeline.catch_up()
        pipeline.workload.produce(half)
    assert f"state after checkpoint {newest - 1}: " in pipeline.processes[1].output()
    assert "replayed=true" in pipeline.processes[1].output()
    move(pipeline)
    pipeline.catch_up()
    pipeline.assert_exact(at_least=len(pipeline.workload.expected))

"""A location in an object store: each driver begins in an empty folder, as on another machine."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.harness.stores import ON_BOTH_STORES
from tests.object_store import KEYS, Bucket, Wire

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

Lay = Callable[..., Wire]

_RECORDS = 8 * CHECKPOINT_RECORDS
_POINTS = (
    "writing@0", "prepared@0", "before-decide@0", "after-decide@0", "between-commits@1", "after-commits@2", "closed@3",
)  # fmt: skip


def put_location(pipeline: Pipeline, bucket: Bucket, port: int | None = None) -> None:
    """Keep the pipeline's memory in the bucket. `port`: of a wire to it."""
    pipeline.address = bucket.address("eos/orders")
    pipeline.spec["checkpoint"] |= {
        "location": str(pipeline.address),
        "location_options": {
            "endpoint": f"http://127.0.0.1:{port or bucket.port}",
            "allow_http": True,
            "region": "us-east-1",
            "access_key_id": KEYS["access_key_id"],
            "secret_access_key": "${env:STORE_SECRET}",
        },
    }
    pipeline.environment["STORE_SECRET"] = KEYS["secret_access_key"]
    move(pipeline)


def move(pipeline: Pipeline) -> None:
    """Let the next driver begin in an empty folder."""
    pipeline.spec["checkpoint"]["scratch"] = f"./machine-{len(pipeline.processes)}"


def assert_exact(pipeline: Pipeline) -> None:
    """Every record once, head at its end, and the store's secret nowhere in what was printed."""
    pipeline.assert_exact(at_least=_RECORDS)
    assert pipeline.head.committed == pipeline.head.completed >= _RECORDS / CHECKPOINT_RECORDS - 1
    assert not pipeline.location.exists()
    for process in pipeline.processes:
        assert KEYS["secret_access_key"] not in process.output()


@ON_BOTH_STORES
@pytest.mark.timeout(900)
def test_a_driver_that_is_killed_anywhere_is_followed_by_one_in_an_empty_folder(
    pipeline: Pipeline, bucket: Bucket
) -> None:
    put_location(pipeline, bucket)
    pipeline.workload.produce(_RECORDS)
    for stem in _POINTS:
        move(pipeline)
        process = pipeline.start(arm=[stem])
        process.await_point(stem)
        assert pipeline.verdict().clean, stem
        process.kill()
    move(pipeline)
    pipeline.catch_up()
    assert_exact(pipeline)

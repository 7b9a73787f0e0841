"""A savepoint of a pipeline whose state was never kept in its object store: none is taken without the state."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.harness.stores import move, put_location
from integration_tests.savepoints import keep_ids
from tests.object_store import Bucket, Request, Wire, lost_request, through

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]


@pytest.mark.timeout(600)
def test_a_savepoint_of_the_first_checkpoint_whose_state_was_not_kept(
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
    savepoint = pipeline.command("savepoint", str(pipeline.folder / "kept"))
    code = savepoint.wait()
    found = [path for path in (pipeline.folder / "kept").rglob("*") if "/state/" in str(path)]
    assert code != 0 or found, f"a savepoint without state:\n{savepoint.output()}"

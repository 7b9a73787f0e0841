"""Object stores of tests: values of the fixture `s3_port`, the options of a spec, and a store that is cut off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest

from integration_tests.harness.pipeline import Pipeline
from integration_tests.harness.pipeline_process import PipelineProcess
from tests.object_store import KEYS, Bucket, Wire, lost_request, through

_MINIO: Final = pytest.param("minio", marks=pytest.mark.minio)

ON_MINIO: Final = pytest.mark.parametrize("s3_port", [_MINIO], indirect=True)
"""Decorator of a test that runs on MinIO, as its fixtures `bucket` and `wire` do."""

ON_BOTH_STORES: Final = pytest.mark.parametrize("s3_port", ["moto", _MINIO], indirect=True)
"""Decorator of a test that runs on moto's server, and on MinIO."""


def options_of(pipeline: Pipeline, bucket: Bucket, port: int | None = None) -> dict[str, object]:
    """Return the options of the store for a spec, and give its secret to the pipeline. `port`: of a wire to it."""
    pipeline.environment["STORE_SECRET"] = KEYS["secret_access_key"]
    return {
        "endpoint": f"http://127.0.0.1:{port or bucket.port}",
        "allow_http": True,
        "region": "us-east-1",
        "access_key_id": KEYS["access_key_id"],
        "secret_access_key": "${env:STORE_SECRET}",
    }


def cut_off_at(process: PipelineProcess, line: Wire, points: Sequence[str], requests: int) -> None:
    """Cut the store off at each of these points, until so many requests of the pipeline were lost."""
    for stem in points:
        process.await_point(stem)
        asked = len(line.requests)
        line.behaviours[:] = [lost_request]
        process.release(stem)
        line.await_requests(asked + requests)
        line.behaviours[:] = [through]

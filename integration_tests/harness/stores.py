"""Object stores of tests: values of the fixture `store`, pipelines that move, and a store that is cut off."""

from __future__ import annotations

from collections.abc import Sequence
from socket import gethostname
from typing import Final

import pytest

from integration_tests.harness.other_host import can_rename
from integration_tests.harness.pipeline import Pipeline
from integration_tests.harness.pipeline_process import PipelineProcess
from spark_jobs.observe.history.store import History
from tests.object_store import Bucket, Wire, lost_request, through

_MINIO: Final = pytest.param("minio", marks=pytest.mark.minio)
_GOOGLE: Final = pytest.param("google", marks=pytest.mark.google)
_AZURITE: Final = pytest.param("azurite", marks=pytest.mark.azurite)

ON_MINIO: Final = pytest.mark.parametrize("store", [_MINIO], indirect=True)
"""Decorator of a test that runs on MinIO, as its fixtures `bucket` and `wire` do."""

ON_GOOGLE: Final = pytest.mark.parametrize("store", [_GOOGLE], indirect=True)
"""The same on the server of Google Cloud Storage's protocol."""

ON_AZURITE: Final = pytest.mark.parametrize("store", [_AZURITE], indirect=True)
"""The same on Azurite, which speaks the protocol of Azure Blob Storage."""

ON_STORED: Final = pytest.mark.parametrize("store", [_MINIO, _GOOGLE, _AZURITE], indirect=True)
"""The same on the three servers that compare and replace in one step, which moto's does not."""

ON_BOTH_STORES: Final = pytest.mark.parametrize("store", ["moto", _MINIO], indirect=True)
"""Decorator of a test that runs on both servers of S3's protocol."""

ON_ALL_STORES: Final = pytest.mark.parametrize("store", ["moto", _MINIO, _GOOGLE, _AZURITE], indirect=True)
"""Decorator of a test that runs on moto's server, on MinIO, and on the servers of the other protocols."""

ON_CLOUDS: Final = pytest.mark.parametrize("store", [_GOOGLE, _AZURITE], indirect=True)
"""Decorator of a test of the protocols of Google and Azure."""


def options_of(pipeline: Pipeline, bucket: Bucket, port: int | None = None) -> dict[str, object]:
    """Return the options of the store for a spec, and give its secret to the pipeline. `port`: of a wire to it."""
    pipeline.environment["STORE_SECRET"] = bucket.secret
    return {**bucket.options(port), "allow_http": True, bucket.secret_option: "${env:STORE_SECRET}"}


def put_location(pipeline: Pipeline, bucket: Bucket, port: int | None = None, prefix: str = "eos/orders") -> None:
    """Keep the pipeline's memory in the bucket. `port`: of a wire to it."""
    pipeline.address = bucket.address(prefix)
    pipeline.spec["checkpoint"] |= {
        "location": str(pipeline.address),
        "location_options": options_of(pipeline, bucket, port),
    }
    move(pipeline)


def move(pipeline: Pipeline) -> None:
    """Let the next driver begin in an empty folder, and under another host name where that `can_rename`."""
    machine = f"machine-{len(pipeline.processes)}"
    pipeline.spec["checkpoint"]["scratch"] = f"./{machine}"
    pipeline.host = machine if can_rename() else None


def assert_moved(pipeline: Pipeline) -> None:
    """Each driver worked in a folder that no other one had, and under a host name that no other one had.

    Its history, which is in that folder, names the host.
    """
    folders = pipeline.folder.glob("machine-*")
    hosts = {folder.name: {run.host for run in History.at(folder).runs()} for folder in folders}
    here = gethostname()
    assert hosts == {name: {name if can_rename() else here} for name in hosts}, hosts
    assert len(hosts) == len(pipeline.processes) > 1
    assert here not in hosts


def below(bucket: Bucket, folder: str, prefix: str = "eos/orders") -> list[str]:
    """Return the names of the objects below a folder of the location."""
    return [key for key in bucket.listed() if key.startswith(f"{prefix}/{folder}/")]


def kept_states(bucket: Bucket) -> list[tuple[str, int]]:
    """Return the states in the bucket, by incarnation and checkpoint."""
    found = [key.split("/")[-2:] for key in bucket.listed() if key.endswith(".state")]
    return [(incarnation, int(name[:12])) for incarnation, name in found]


def driver_at(pipeline: Pipeline, stem: str) -> PipelineProcess:
    """Start a driver on another machine, and return it when it waits at this point. Until then nothing is wrong."""
    move(pipeline)
    process = pipeline.start(arm=[stem])
    process.await_point(stem)
    assert pipeline.verdict().clean, stem
    return process


def release_fenced(process: PipelineProcess, stem: str) -> None:
    """Let a driver that was superseded go on from its point: it ends, and says why."""
    process.release(stem)
    process.fail("fenced: ", "another driver of this pipeline has started since")


def cut_off_at(process: PipelineProcess, line: Wire, points: Sequence[str], requests: int) -> None:
    """Cut the store off at each of these points, until so many requests of the pipeline were lost."""
    for stem in points:
        process.await_point(stem)
        asked = len(line.requests)
        line.behaviours[:] = [lost_request]
        process.release(stem)
        line.await_requests(asked + requests)
        line.behaviours[:] = [through]

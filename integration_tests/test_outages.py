"""Services that are away for longer than each time limit of a run whose location is in a bucket.

The run fails and is restarted several times meanwhile, with the longest delay of its `restart`. So each time limit has
passed: of a request and its retries, of the wait for a sink, of a task's reading, and of a checkpoint. A longer outage
adds attempts that are like these, and nothing else.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
import sqlalchemy

from integration_tests import topics
from integration_tests.harness.link import Link
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, Pipeline
from integration_tests.harness.pipeline_process import PipelineProcess
from integration_tests.harness.stores import put_location
from integration_tests.services.copied import CopiedKafka
from tests.object_store import Bucket, Request, Wire, lost_request, through

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns, pytest.mark.timeout(1500)]

_RECORDS: Final = 6 * CHECKPOINT_RECORDS
_RESTARTS: Final = 2
_DELAY_S: Final = 2.0
_SILENT_S: Final = 600.0
_READ_TIMEOUT_S: Final = 60.0
_CONNECT_TIMEOUT_S: Final = 15.0
"""Defaults of a Kafka source."""
_RESTARTED: Final = re.compile(r"; restarting in (\d+\.\d) s")
"""End of the warning that names a failure. The line of the state, which follows it, ends otherwise."""


def _configure(pipeline: Pipeline) -> None:
    """Set short limits, which an outage of minutes exceeds as one of an hour exceeds the default ones."""
    pipeline.spec["checkpoint"]["timeout"] = "30s"
    delay = {"initial_delay": f"{_DELAY_S:g}s", "max_delay": f"{_DELAY_S:g}s", "jitter": 0}
    pipeline.spec["restart"] = {"strategy": "exponential-delay", **delay}


def _await_restarts(process: PipelineProcess, count: int, at_least_s: float = 0.0) -> float:
    """Wait until the run has failed so many times, and so long; return how long that took. It does not end."""
    began_s = time.monotonic()
    while len(found := _RESTARTED.findall(process.output())) < count or time.monotonic() - began_s < at_least_s:
        assert process.exit_code is None, process.output()[-2000:]
        assert time.monotonic() - began_s < _SILENT_S, process.output()[-2000:]
        time.sleep(0.1)
    assert {float(each) for each in found} == {_DELAY_S}
    return time.monotonic() - began_s


def _assert_follows(pipeline: Pipeline, process: PipelineProcess, restore: Callable[[], object]) -> None:
    """Nothing was decided and no row appeared during the outage. After it the same process writes what is left."""
    head, rows = pipeline.head, pipeline.table.rows()
    assert rows.total() == CHECKPOINT_RECORDS * (head.committed + 1) < _RECORDS
    restore()
    process.succeed()
    assert len(pipeline.processes) == 1
    pipeline.assert_exact(at_least=_RECORDS)
    assert pipeline.table.rows() > rows
    after = pipeline.head
    assert after.committed == after.completed > head.completed
    assert after.epoch > head.epoch


def test_a_bucket_that_is_away_is_waited_for(pipeline: Pipeline, bucket: Bucket, wire: Callable[..., Wire]) -> None:
    """It first answers nothing, until requests and their retries have timed out. Then it refuses connections."""

    def deaf(line: Wire, request: Request) -> None:
        del request
        line.released.wait(_SILENT_S)

    line = wire(through)
    put_location(pipeline, bucket, line.port)
    _configure(pipeline)
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(arm=["before-decide@2"])
    process.await_point("before-decide@2")
    line.behaviours[:] = [deaf]
    process.release("before-decide@2")
    silent_s = _await_restarts(process, 1)
    line.behaviours[:] = [lost_request]
    refused_s = _await_restarts(process, 1 + _RESTARTS)
    print(f"bucket: {silent_s:.0f} s without an answer, {refused_s:.0f} s without a connection")
    assert silent_s > 20
    assert pipeline.head.completed == 1

    def restore() -> None:
        line.behaviours[:] = [through]

    _assert_follows(pipeline, process, restore)


def test_the_database_of_a_sink_that_is_away_is_waited_for(pipeline: Pipeline, bucket: Bucket) -> None:
    """A decided checkpoint waits for its commit: for a minute, and then as `restart` says."""
    url = sqlalchemy.make_url(pipeline.table.url)
    assert url.host is not None
    put_location(pipeline, bucket)
    _configure(pipeline)
    pipeline.workload.produce(_RECORDS)
    with Link(url.host, url.port or 3306) as link:
        far = url.set(host="127.0.0.1", port=link.port)
        pipeline.environment["SINK_URL"] = far.render_as_string(hide_password=False)
        process = pipeline.start(arm=["after-decide@2"])
        process.await_point("after-decide@2")
        link.stall()
        process.release("after-decide@2")
        silent_s = _await_restarts(process, 1)
        link.cut()
        refused_s = _await_restarts(process, 1 + _RESTARTS)
        print(f"database: {silent_s:.0f} s without an answer, {refused_s:.0f} s without a connection")
        assert silent_s > 60
        assert refused_s > 60
        assert "; retrying" in process.output()
        assert pipeline.head.completed == 2 > pipeline.head.committed
        assert link.disturbed > 0
        _assert_follows(pipeline, process, link.restore)


@pytest.fixture
def with_own_brokers(copied_kafka: CopiedKafka, bucket: Bucket, database: str, tmp_path: Path) -> Iterator[Pipeline]:
    topics.create(copied_kafka.bootstrap, bucket.name, PARTITIONS, {})
    with Pipeline(tmp_path, copied_kafka.bootstrap, bucket.name, database) as made:
        made.table.create()
        put_location(made, bucket)
        yield made


def test_the_brokers_of_a_source_that_are_away_are_waited_for(
    with_own_brokers: Pipeline, copied_kafka: CopiedKafka
) -> None:
    """A checkpoint is planned, and its records cannot be read."""
    pipeline = with_own_brokers
    _configure(pipeline)
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(arm=["planned@2"])
    process.await_point("planned@2")
    copied_kafka.kill()
    process.release("planned@2")
    away_s = _await_restarts(process, 1 + _RESTARTS, _READ_TIMEOUT_S + _CONNECT_TIMEOUT_S)
    print(f"brokers: {away_s:.0f} s without a connection")
    assert pipeline.head.completed == 1
    _assert_follows(pipeline, process, copied_kafka.up)

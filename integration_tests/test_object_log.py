"""A log that lies in an object store: killed at every point, cut off, and asked by `eos doctor`."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from integration_tests.cluster.pipeline import ClusterPipeline
from integration_tests.harness.command_line import CommandLine
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.harness.stores import cut_off_at, options_of
from tests.object_store import KEYS, Bucket, Wire, deaf, lost_answer, through

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

Lay = Callable[..., Wire]

_RECORDS = 8 * CHECKPOINT_RECORDS


def put_log(pipeline: Pipeline, bucket: Bucket, port: int | None = None) -> None:
    """Let the sink's rows wait in the bucket. `port`: of a wire to it."""
    (sink,) = pipeline.spec["sinks"]
    sink.update(commit="write-ahead-log", slots=2)
    pipeline.spec["checkpoint"] |= {
        "log": str(bucket.address()),
        "log_options": options_of(pipeline, bucket, port),
    }


def assert_exact(pipeline: Pipeline, bucket: Bucket) -> None:
    """Every record once; the slots are where head is, and nothing waits any more, nor ever did on this machine."""
    pipeline.assert_exact(at_least=_RECORDS)
    slots = pipeline.table.execute("SELECT slot, checkpoint_id FROM eos_slot ORDER BY slot")
    assert slots == [(slot, pipeline.head.committed) for slot in range(2)]
    assert bucket.listed() == []
    assert not (pipeline.location / "log").exists()
    for process in pipeline.processes:
        assert KEYS["secret_access_key"] not in process.output()


@pytest.mark.timeout(900)
def test_killed_while_rows_wait_in_a_bucket(pipeline: Pipeline, bucket: Bucket) -> None:
    put_log(pipeline, bucket)
    pipeline.workload.produce(_RECORDS)
    waiting = {}
    for stem in ("writing@0", "prepared@0", "after-decide@1", "applying@2", "after-commits@3"):
        process = pipeline.start(arm=[stem])
        process.await_point(stem)
        assert pipeline.verdict().clean, stem
        process.kill()
        waiting[stem] = len(bucket.listed())
    assert all(waiting[stem] for stem in ("prepared@0", "after-decide@1", "applying@2")), waiting
    pipeline.catch_up()
    assert_exact(pipeline, bucket)


@pytest.mark.timeout(600)
def test_a_store_that_is_cut_off_in_the_middle_of_a_checkpoint(pipeline: Pipeline, bucket: Bucket, wire: Lay) -> None:
    """While tasks write, and again between the decision and its rows: it is waited for, and nothing is lost or doubled.

    Before that, answers to puts are lost: the rows are there, and the tasks find them.
    """
    line = wire(lost_answer, lost_answer, through)
    put_log(pipeline, bucket, line.port)
    pipeline.workload.produce(_RECORDS)
    points = ("writing@1", "after-decide@3")
    process = pipeline.start(arm=points)
    cut_off_at(process, line, points, 3)
    process.succeed()
    assert_exact(pipeline, bucket)


@pytest.mark.timeout(900)
def test_on_a_cluster(cluster_pipeline: ClusterPipeline, bucket: Bucket) -> None:
    """What a worker has put into the bucket is found by whichever driver comes next."""
    pipeline = cluster_pipeline
    put_log(pipeline, bucket)
    pipeline.workload.produce(_RECORDS)
    for stem in ("prepared@0", "after-decide@1"):
        process = pipeline.start(arm=[stem])
        process.await_point(stem)
        process.kill()
        process.release(stem)  # a task on a worker lives on
    pipeline.catch_up()
    assert_exact(pipeline, bucket)


@pytest.mark.timeout(300)
def test_the_doctor_tries_the_store(pipeline: Pipeline, bucket: Bucket, wire: Lay, eos: CommandLine) -> None:
    pipeline.workload.produce(10)
    for port, code in ((bucket.port, 0), (wire(deaf).port, 1)):
        put_log(pipeline, bucket, port)
        ended = eos.run(["doctor", str(pipeline.write_spec()), "--json"], pipeline.environment)
        assert ended.code == code, ended.output
        assert KEYS["secret_access_key"] not in ended.output
        facts = json.loads(ended.output[ended.output.index("{\n") :])
        found = {each["check"]: each for each in facts["findings"]}
        assert found["warehouse: log store"]["ok"]
        assert found["warehouse: log store: conditional put"]["ok"] == (code == 0)
        assert bucket.listed() == []

"""A location in an object store: each driver begins in an empty folder, as on another machine."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable

import pytest

from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.harness.stores import (
    ON_ALL_STORES,
    below,
    cut_off_at,
    driver_at,
    move,
    put_location,
    release_fenced,
)
from integration_tests.savepoints import keep_ids
from tests.object_store import Bucket, Request, Wire, lost_answer, lost_request, through

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

Lay = Callable[..., Wire]

_RECORDS = 8 * CHECKPOINT_RECORDS
_POINTS = (
    "writing@0", "prepared@0", "before-decide@0", "after-decide@0", "between-commits@1", "after-commits@2", "closed@3",
)  # fmt: skip


def assert_exact(pipeline: Pipeline) -> None:
    """Every record once, head at its end, and the store's secret in no output."""
    pipeline.assert_exact(at_least=_RECORDS)
    assert pipeline.head.committed == pipeline.head.completed >= _RECORDS / CHECKPOINT_RECORDS - 1
    assert not pipeline.location.exists()
    for process in pipeline.processes:
        assert pipeline.environment["STORE_SECRET"] not in process.output()


@ON_ALL_STORES
@pytest.mark.timeout(900)
def test_a_driver_that_is_killed_anywhere_is_followed_by_one_in_an_empty_folder(
    pipeline: Pipeline, bucket: Bucket
) -> None:
    put_location(pipeline, bucket)
    pipeline.workload.produce(_RECORDS)
    for stem in _POINTS:
        driver_at(pipeline, stem).kill()
    move(pipeline)
    pipeline.catch_up()
    assert_exact(pipeline)


@pytest.mark.timeout(900)
def test_rows_wait_in_the_store_too(pipeline: Pipeline, bucket: Bucket) -> None:
    """The log is beside head, where the spec names no other place."""
    put_location(pipeline, bucket)
    (sink,) = pipeline.spec["sinks"]
    sink.update(commit="write-ahead-log", slots=2)
    pipeline.workload.produce(_RECORDS)
    waiting = {}
    for stem in ("prepared@0", "after-decide@1", "applying@2", "after-commits@3"):
        driver_at(pipeline, stem).kill()
        waiting[stem] = len(below(bucket, "log"))
    assert all(waiting[stem] for stem in ("prepared@0", "after-decide@1", "applying@2")), waiting
    move(pipeline)
    pipeline.catch_up()
    assert_exact(pipeline)
    assert below(bucket, "log") == []


@pytest.mark.timeout(1200)
def test_only_the_newest_of_several_machines_goes_on(pipeline: Pipeline, bucket: Bucket) -> None:
    """Each driver is frozen at another moment, superseded by one on another machine, and only then let go on."""
    put_location(pipeline, bucket)
    pipeline.workload.produce(_RECORDS)
    stems = ("planned@0", "writing@1", "before-decide@2", "after-decide@3", "closed@4")
    frozen = [(driver_at(pipeline, stem), stem) for stem in stems]
    move(pipeline)
    pipeline.catch_up()
    for process, stem in frozen:
        release_fenced(process, stem)
    assert_exact(pipeline)
    assert pipeline.head.epoch == len(pipeline.processes)


@pytest.mark.timeout(600)
def test_answers_to_swaps_are_lost(pipeline: Pipeline, bucket: Bucket, wire: Lay) -> None:
    """Every third swap lands and its answer is lost; every third one is not sent. The driver cannot know which."""
    number = itertools.count()

    def hearing(line: Wire, request: Request) -> bytes | None:
        if request.head.startswith(b"PUT ") and b"/eos/orders/head " in request.head:
            return (lost_answer, through, lost_request)[next(number) % 3](line, request)
        return through(line, request)

    line = wire(hearing)
    put_location(pipeline, bucket, line.port)
    pipeline.spec["restart"] = {"strategy": "fixed-delay", "attempts": 100, "delay": "100ms"}
    pipeline.workload.produce(_RECORDS)
    pipeline.catch_up()
    assert_exact(pipeline)
    assert next(number) > _RECORDS / CHECKPOINT_RECORDS


@pytest.mark.timeout(600)
def test_a_store_that_is_cut_off_in_the_middle_of_a_checkpoint(pipeline: Pipeline, bucket: Bucket, wire: Lay) -> None:
    line = wire(through)
    put_location(pipeline, bucket, line.port)
    pipeline.spec["restart"] = {"strategy": "fixed-delay", "attempts": 1000, "delay": "100ms"}
    pipeline.workload.produce(_RECORDS)
    points = ("before-decide@1", "after-decide@3")
    process = pipeline.start(arm=points)
    cut_off_at(process, line, points, 12)
    process.succeed()
    assert_exact(pipeline)


@pytest.mark.timeout(900)
def test_a_bucket_goes_back_in_time_and_then_is_lost(pipeline: Pipeline, bucket: Bucket) -> None:
    """Each start is refused, names the contradiction, and writes no record twice."""
    put_location(pipeline, bucket)
    pipeline.workload.produce(_RECORDS)
    pipeline.catch_up()
    before = bucket.contents()
    move(pipeline)
    pipeline.workload.produce(_RECORDS)
    pipeline.catch_up()
    newest = bucket.contents()

    bucket.restore(before)
    move(pipeline)
    pipeline.start().fail("sink warehouse has seen epoch 2, head is at 1: head was set back")
    bucket.restore({})
    move(pipeline)
    pipeline.start().fail("sink warehouse belongs to another incarnation of pipeline", "eos reset")
    pipeline.assert_exact(at_least=2 * _RECORDS)

    bucket.restore(newest)
    move(pipeline)
    pipeline.workload.produce(_RECORDS)
    pipeline.catch_up()
    pipeline.assert_exact(at_least=3 * _RECORDS)

    bucket.restore({})
    move(pipeline)
    pipeline.command("reset", "--to", "latest", "--yes").succeed()
    pipeline.workload.produce(_RECORDS)
    move(pipeline)
    pipeline.catch_up()
    pipeline.assert_exact(at_least=4 * _RECORDS)


@pytest.mark.timeout(600)
def test_a_sink_is_taken_out_only_after_a_clean_end(pipeline: Pipeline, bucket: Bucket) -> None:
    """A plan that is lost with its machine may have prepared something in it, which no driver would ever roll back."""
    put_location(pipeline, bucket)
    (sink,) = pipeline.spec["sinks"]
    other = {**sink, "name": "archive", "table": "archive"}
    pipeline.table.execute("CREATE TABLE archive LIKE records")
    pipeline.spec["sinks"] = [sink, other]
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(arm=["prepared@1"])
    process.await_point("prepared@1")
    process.kill()
    move(pipeline)
    pipeline.spec["sinks"] = [sink]
    pipeline.start().fail("sink archive, which the spec no longer names, may hold prepared transactions")
    pipeline.spec["sinks"] = [sink, other]
    move(pipeline)
    pipeline.catch_up()
    assert pipeline.prepared() == []
    assert pipeline.table.execute("SELECT COUNT(*) FROM archive") == [(_RECORDS,)]
    move(pipeline)
    pipeline.spec["sinks"] = [sink]
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    pipeline.catch_up()
    assert_exact(pipeline)
    assert pipeline.table.execute("SELECT COUNT(*) FROM archive") == [(_RECORDS,)]


@pytest.mark.parametrize("stateful", [False, True])
@pytest.mark.timeout(600)
def test_requests_of_a_checkpoint(pipeline: Pipeline, bucket: Bucket, wire: Lay, stateful: bool) -> None:
    """They cost money. Looks for requests of users, one listing each five seconds, are not among these."""
    counted: Counter[str] = Counter()

    def count(line: Wire, request: Request) -> bytes | None:
        target = request.head.split(b" ", 2)[1].decode()
        listed = "list-type=2" in target
        counted["LIST" if listed else f"{request.method} {target.rpartition('orders/')[2].partition('/')[0]}"] += 1
        return through(line, request)

    line = wire(count)
    if stateful:
        keep_ids(pipeline)
    put_location(pipeline, bucket, line.port)
    pipeline.workload.produce(_RECORDS)
    pipeline.catch_up()
    assert_exact(pipeline)
    before = Counter(counted)
    first = pipeline.head.completed
    pipeline.workload.produce(5 * _RECORDS)
    pipeline.catch_up()
    pipeline.assert_exact(at_least=6 * _RECORDS)
    checkpoints = pipeline.head.completed - first
    each = {name: round((counted[name] - before[name]) / checkpoints, 2) for name in counted}
    print(f"requests of a checkpoint, of {checkpoints} and a start: {each}")
    assert checkpoints >= 5 * _RECORDS / CHECKPOINT_RECORDS
    assert each["PUT head"] < 2.2
    assert each["PUT records"] < 1.1
    assert each["HEAD records"] < 1.1
    assert each.get("PUT state", 0) < (2.1 if stateful else 0.1)
    assert sum(number for name, number in each.items() if name not in {"LIST"}) < (11 if stateful else 6)


@pytest.mark.timeout(600)
def test_commands_on_another_machine(pipeline: Pipeline, bucket: Bucket) -> None:
    """They see head, and the driver answers them. The history of the other machine is not here."""
    put_location(pipeline, bucket)
    running = pipeline.start(until_caught_up=False)
    running.await_output("running")
    pipeline.workload.produce(_RECORDS)
    move(pipeline)
    assert pipeline.command("checkpoint", "--json").facts()["ok"]
    deadline = time.monotonic() + 120
    while pipeline.verdict().in_sink < _RECORDS or pipeline.head.waiting:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    status = pipeline.command("status", "--json").facts()
    assert status["completed"] == status["committed"] == pipeline.head.completed
    pipeline.command("stop").succeed()
    running.succeed()
    assert pipeline.head.epoch == 1
    move(pipeline)
    pipeline.catch_up()
    assert_exact(pipeline)
    pipeline.command("stop", "--delete", "--timeout", "5s").succeed()
    assert below(bucket, "records") == []
    assert pipeline.verdict().in_sink == _RECORDS

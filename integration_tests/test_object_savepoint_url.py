"""Savepoints in the object store of a pipeline: killed at every point, and started from on an empty machine."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from connectors.registry import open_requests
from connectors.spec import load_spec
from integration_tests.harness.command_line import CommandLine
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.harness.stores import ON_ALL_STORES, move, put_location
from integration_tests.savepoints import await_committed, begin_from, facts, keep_ids
from tests.object_store import Bucket, Request, Wire, through
from twophase.requests import Answer, Channel

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_FIRST, _NEW = 2 * CHECKPOINT_RECORDS, 300
_PLACE = "eos/orders/savepoints/"
_ANSWER_S = 120.0


def _in_place(bucket: Bucket, prefix: str = _PLACE) -> dict[str, list[str]]:
    """Return the objects of each savepoint, by its name."""
    found: dict[str, list[str]] = {}
    for key in bucket.listed():
        if key.startswith(prefix):
            name, _, path = key.removeprefix(prefix).partition("/")
            found.setdefault(name, []).append(path)
    return found


@contextmanager
def _channel(pipeline: Pipeline) -> Iterator[Channel]:
    with open_requests(load_spec(pipeline.write_spec(), pipeline.environment)) as channel:
        yield channel


def _answered(channel: Channel, arguments: dict[str, str]) -> Answer:
    request = channel.ask("savepoint", arguments, asked_by="a test", patience_s=_ANSWER_S)
    deadline = time.monotonic() + _ANSWER_S
    while (answer := channel.answer_of(request)) is None:
        assert time.monotonic() < deadline, "no answer"
        time.sleep(0.2)
    return answer


@ON_ALL_STORES
@pytest.mark.timeout(1200)
def test_the_machine_is_lost_at_every_point(pipeline: Pipeline, bucket: Bucket, eos: CommandLine) -> None:
    """Each process begins in an empty folder. Only a savepoint with its manifest is used, and only if it is whole."""
    keep_ids(pipeline)
    put_location(pipeline, bucket)
    pipeline.workload.produce(_FIRST)
    pipeline.catch_up()
    before = bucket.listed()
    for point, savepoints, manifests in (
        ("savepoint-pinned", 0, 0),
        ("savepoint-copied", 1, 0),
        ("savepoint-written", 2, 1),
    ):
        move(pipeline)
        pipeline.command("savepoint", arm=[point]).kill_at(point)
        found = _in_place(bucket)
        assert (len(found), sum("manifest.json" in each for each in found.values())) == (savepoints, manifests), point
    move(pipeline)
    taken = pipeline.command("savepoint", "--json").facts()
    assert (taken["checkpoint_id"], taken["later"]) == (1, 0)
    (unfinished,) = (name for name, paths in _in_place(bucket).items() if "manifest.json" not in paths)
    whole = sorted(set(_in_place(bucket)) - {unfinished})
    spec = str(pipeline.write_spec())
    listed = facts(pipeline, eos, "list", spec)["savepoints"]
    assert next(each["folder"] for each in listed if each["is_savepoint"]) == taken["folder"], "newest first"
    assert {each["folder"].rpartition("/")[2]: each["is_savepoint"] for each in listed} == {
        unfinished: False,
        **dict.fromkeys(whole, True),
    }
    assert set(before) < set(bucket.listed()), "nothing of the pipeline is changed"

    place = taken["folder"].rpartition("/")[0]
    pipeline.workload.repeat(_FIRST)
    pipeline.workload.produce(_NEW)
    put_location(pipeline, bucket, prefix="eos/moved")
    begin_from(pipeline, f"{place}/{unfinished}", "--take-over").fail("is no savepoint: it has no manifest.json")
    (damaged,) = (name for name in whole if name not in taken["folder"])
    key = next(f"{_PLACE}{damaged}/{path}" for path in _in_place(bucket)[damaged] if path.endswith(".sst"))
    bucket.write(key, bucket.content(key)[::-1])
    begin_from(pipeline, f"{place}/{damaged}", "--take-over").fail("its content does not match its hash")
    assert not pipeline.was_born()

    killed = begin_from(pipeline, taken["folder"], "--take-over", arm="savepoint-downloaded@1")
    killed.kill_at("savepoint-downloaded@1")
    scratch = pipeline.folder / pipeline.spec["checkpoint"]["scratch"]
    assert list((scratch / "download").rglob("*.sst")) != []
    assert not pipeline.was_born()
    given = ("--until-caught-up", "--from-savepoint", taken["folder"], "--take-over")
    pipeline.command("run", *given).succeed()  # on the same machine
    assert list((scratch / "download").iterdir()) == [], "what the killed start has left is swept away"
    pipeline.assert_exact(at_least=_FIRST + _NEW)
    assert pipeline.head.origin is not None
    assert pipeline.head.origin.checkpoint_id == 1

    by = ("--spec", str(pipeline.write_spec()))
    facts(pipeline, eos, "dispose", f"{place}/{unfinished}", *by, code=1)
    facts(pipeline, eos, "dispose", f"{place}/{unfinished}", "--unfinished", *by)
    for name in whole:
        facts(pipeline, eos, "dispose", f"{place}/{name}", *by)
    assert _in_place(bucket) == {unfinished: ["manifest.json"]}
    assert [key for key in bucket.listed() if key.startswith("eos/orders/") and not key.startswith(_PLACE)] == before


@pytest.mark.timeout(900)
def test_of_a_running_pipeline_whose_store_loses_answers(
    pipeline: Pipeline, bucket: Bucket, eos: CommandLine, wire: Callable[..., Wire]
) -> None:
    """By a request, as the page sends it; and by `eos stop`. Each manifest is created, and its answer is lost."""
    lost: list[str] = []

    def hearing(line: Wire, request: Request) -> Any:
        first = request.head.partition(b"\r\n")[0]
        if request.method == "PUT" and first.split()[1].endswith(b"/manifest.json"):
            lost.append(first.decode())
            line.relay(request)
            return None
        return through(line, request)

    keep_ids(pipeline)
    put_location(pipeline, bucket, wire(hearing).port)
    pipeline.workload.produce(_FIRST)
    running = pipeline.start(until_caught_up=False)
    await_committed(pipeline, _FIRST)
    with _channel(pipeline) as channel:
        answer = _answered(channel, {})
        assert answer.ok, answer.message
        elsewhere = _answered(channel, {"into": f"s3://{bucket.name}/eos/backup"})
        assert (elsewhere.ok, "cannot name the place" in elsewhere.message) == (False, True)
    assert str(answer.facts["folder"]).startswith(f"s3://{bucket.name}/{_PLACE}savepoint-")
    assert lost
    pipeline.workload.produce(_NEW)
    await_committed(pipeline, _FIRST + _NEW)
    move(pipeline)
    process = pipeline.command("stop", f"s3://{bucket.name}/eos/backup", "--savepoint", "--json")
    process.succeed()
    running.succeed()
    output = process.output()
    stopped = json.loads(output[output.index("{\n") :])["savepoint"]
    spec = str(pipeline.write_spec())
    assert len(facts(pipeline, eos, "list", f"s3://{bucket.name}/eos/backup", "--spec", spec)["savepoints"]) == 1
    for at in (answer.facts["folder"], stopped["folder"]):
        assert facts(pipeline, eos, "inspect", at, "--spec", spec)["damage"] == []
    assert stopped["checkpoint_id"] == pipeline.head.completed

    pipeline.workload.repeat(_FIRST + _NEW)
    put_location(pipeline, bucket, prefix="eos/moved")
    begin_from(pipeline, stopped["folder"], "--take-over").succeed()
    pipeline.assert_exact(at_least=_FIRST + _NEW)


@pytest.mark.timeout(600)
def test_a_writer_on_a_frozen_machine_is_discarded(pipeline: Pipeline, bucket: Bucket, eos: CommandLine) -> None:
    """It goes on later: it is refused, says so, and leaves nothing that is used. Then a copy in a folder is."""
    put_location(pipeline, bucket)
    pipeline.workload.produce(_FIRST)
    pipeline.catch_up()
    move(pipeline)
    writer = pipeline.command("savepoint", arm=["savepoint-copied"])
    writer.await_point("savepoint-copied")
    ((name, _),) = _in_place(bucket).items()
    by = ("--spec", str(pipeline.write_spec()))
    facts(pipeline, eos, "dispose", f"s3://{bucket.name}/{_PLACE}{name}", "--unfinished", *by)
    writer.release("savepoint-copied")
    writer.fail("was discarded while it was written")
    assert _in_place(bucket) == {name: ["manifest.json"]}

    move(pipeline)
    url = pipeline.command("savepoint", "--json").facts()["folder"]
    copied = pipeline.folder / "copied"
    prefix = f"{url.partition(f'{bucket.name}/')[2]}/"
    for key in (key for key in bucket.listed() if key.startswith(prefix)):
        path = copied / key.removeprefix(prefix)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bucket.content(key))
    assert facts(pipeline, eos, "inspect", str(copied))["damage"] == []
    put_location(pipeline, bucket, prefix="eos/moved")
    pipeline.workload.produce(_NEW)
    begin_from(pipeline, Path(copied), "--take-over").succeed()
    pipeline.assert_exact(at_least=_FIRST + _NEW)

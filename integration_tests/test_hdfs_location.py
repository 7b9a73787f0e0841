"""A location in HDFS: each driver begins in an empty folder, and the namenode stops and is killed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration_tests.harness.command_line import CommandLine
from integration_tests.harness.hdfs import Folder, put_location
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from integration_tests.harness.stores import driver_at, move, release_fenced
from integration_tests.savepoints import begin_from, facts, keep_ids
from integration_tests.services.hdfs_cluster import HdfsServers
from wal.hdfs import HdfsClient

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 8 * CHECKPOINT_RECORDS
_POINTS = ("writing@0", "prepared@0", "before-decide@0", "after-decide@0", "between-commits@1", "closed@2")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[HdfsServers]:
    """One of the test's own, whose namenode may be killed."""
    with HdfsServers(tmp_path / "hdfs", tmp_path / "hdfs.log") as started:
        yield started


def assert_exact(pipeline: Pipeline, records: int = _RECORDS) -> None:
    """Every record once, head at its end, and nothing of it on the driver's machine."""
    pipeline.assert_exact(at_least=records)
    assert pipeline.head.committed == pipeline.head.completed >= records / CHECKPOINT_RECORDS - 1
    assert not pipeline.location.exists()


@pytest.mark.timeout(900)
def test_a_driver_that_is_killed_anywhere_is_followed_by_one_in_an_empty_folder(
    pipeline: Pipeline, hdfs_folder: Folder
) -> None:
    put_location(pipeline, hdfs_folder)
    pipeline.workload.produce(_RECORDS)
    for stem in _POINTS:
        driver_at(pipeline, stem).kill()
    move(pipeline)
    pipeline.catch_up()
    assert_exact(pipeline)
    head = [name for name in hdfs_folder.listed() if name.startswith("head/")]
    assert len(head) == 2, head


@pytest.mark.timeout(900)
def test_state_and_waiting_rows_move_with_the_driver(pipeline: Pipeline, hdfs_folder: Folder) -> None:
    put_location(pipeline, hdfs_folder)
    keep_ids(pipeline)
    (sink,) = pipeline.spec["sinks"]
    sink.update(commit="write-ahead-log", slots=2)
    pipeline.workload.produce(_RECORDS)
    waiting = {}
    for stem in ("prepared@0", "after-decide@1", "after-commits@3"):
        driver_at(pipeline, stem).kill()
        waiting[stem] = [name for name in hdfs_folder.listed() if name.startswith("log/")]
    assert all(waiting[stem] for stem in ("prepared@0", "after-decide@1")), waiting
    move(pipeline)
    pipeline.catch_up()
    assert_exact(pipeline)
    left = hdfs_folder.listed()
    assert [name for name in left if name.startswith("log/")] == []
    assert any(name.startswith("state/") and name.endswith(".state") for name in left)
    assert [name for name in left if name.endswith(".unfinished")] == []


@pytest.mark.timeout(900)
def test_only_the_newest_of_several_machines_goes_on(pipeline: Pipeline, hdfs_folder: Folder) -> None:
    """Each driver is frozen at another moment, superseded by one on another machine, and only then released."""
    put_location(pipeline, hdfs_folder)
    pipeline.workload.produce(_RECORDS)
    stems = ("planned@0", "before-decide@1", "after-decide@2", "closed@3")
    frozen = [(driver_at(pipeline, stem), stem) for stem in stems]
    move(pipeline)
    pipeline.catch_up()
    for process, stem in frozen:
        release_fenced(process, stem)
    assert_exact(pipeline)
    assert pipeline.head.epoch == len(pipeline.processes)


@pytest.mark.timeout(900)
def test_a_namenode_that_stops_and_is_killed_in_the_middle_of_a_checkpoint(
    cluster: HdfsServers, pipeline: Pipeline
) -> None:
    """First it does nothing, with its connections open; then it is gone, and is started on its data."""
    put_location(pipeline, Folder.of(cluster.port))
    pipeline.spec["restart"] = {"strategy": "fixed-delay", "attempts": 1000, "delay": "100ms"}
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(arm=["before-decide@1", "after-decide@3"])
    process.await_point("before-decide@1")
    cluster.stop_namenode()
    process.release("before-decide@1")
    process.await_output("no answer within 20 s")
    cluster.resume_namenode()
    process.await_point("after-decide@3")
    cluster.kill_namenode()
    process.release("after-decide@3")
    process.await_output("Connection refused")
    cluster.start_namenode()
    process.succeed()
    assert_exact(pipeline)


@pytest.mark.timeout(600)
def test_commands_on_another_machine(pipeline: Pipeline, hdfs_folder: Folder, eos: CommandLine) -> None:
    """`eos doctor` proves the promises, `eos status` shows head, and `eos stop` reaches the driver."""
    put_location(pipeline, hdfs_folder)
    running = pipeline.start(until_caught_up=False)
    running.await_output("running")
    pipeline.workload.produce(_RECORDS)
    move(pipeline)
    assert pipeline.command("checkpoint", "--json").facts()["ok"]
    status = pipeline.command("status", "--json").facts()
    assert status["completed"] == pipeline.head.completed
    doctor = eos.run(["doctor", str(pipeline.write_spec()), "--json"], pipeline.environment)
    found = {each["check"]: each for each in json.loads(doctor.output[doctor.output.index("{\n") :])["findings"]}
    assert found["location store"]["ok"]
    assert found["location store: conditional replace"]["ok"]
    assert doctor.code == 0, doctor.output
    pipeline.command("stop").succeed()
    running.succeed()
    assert pipeline.head.epoch == 1
    move(pipeline)
    pipeline.catch_up()
    assert_exact(pipeline)


@pytest.mark.timeout(1200)
def test_a_savepoint_in_hdfs(pipeline: Pipeline, hdfs_folder: Folder, eos: CommandLine) -> None:
    """Its writer is killed before and after the manifest, each on its own machine. A disposal leaves no folder."""
    put_location(pipeline, hdfs_folder)
    keep_ids(pipeline)
    pipeline.workload.produce(_RECORDS)
    pipeline.catch_up()
    for point in ("savepoint-copied", "savepoint-written"):
        move(pipeline)
        pipeline.command("savepoint", arm=[point]).kill_at(point)
    listed = facts(pipeline, eos, "list", str(pipeline.write_spec()))["savepoints"]
    assert sorted(each["is_savepoint"] for each in listed) == [False, True]
    (whole,) = (each["folder"] for each in listed if each["is_savepoint"])
    (unfinished,) = (each["folder"] for each in listed if not each["is_savepoint"])
    assert facts(pipeline, eos, "inspect", whole)["damage"] == []

    pipeline.workload.repeat(_RECORDS)
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    other = hdfs_folder.address("eos/moved")
    pipeline.address = other
    pipeline.spec["checkpoint"]["location"] = str(other)
    begin_from(pipeline, unfinished, "--take-over").fail("is no savepoint: it has no manifest.json")
    begin_from(pipeline, whole, "--take-over").succeed()
    assert_exact(pipeline, _RECORDS + CHECKPOINT_RECORDS)

    facts(pipeline, eos, "dispose", whole)
    facts(pipeline, eos, "dispose", unfinished, "--unfinished")
    name = unfinished.rpartition("/")[2]
    assert hdfs_folder.listed("eos/orders/savepoints") == [f"{name}/manifest.json"]
    client = HdfsClient(hdfs_folder.address("eos/orders"))
    assert [each.path.rpartition("/")[2] for each in client.list("savepoints")] == [name], "no empty folder stays"
    assert [each.path.rpartition("/")[2] for each in client.list(f"savepoints/{name}")] == ["manifest.json"]

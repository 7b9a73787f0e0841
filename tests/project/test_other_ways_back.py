"""Other ways in which a part of a pipeline goes back in time: each loses and doubles nothing, or is refused.

The table "Other ways back" of docs/explanation/protocol.md names them. The real driver, head, log and SQLite; S3 is
moto's server.
"""

from __future__ import annotations

import re
import shutil
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.log.place import LogPlace
from eos.errors import FencedError, IdentityError, LostCommittableError
from tests.connectors.sql.sqlite.test_sink_protocol import ROWS, SCHEMA, CrashError, Job, World
from tests.connectors.sql.sqlite.test_sink_repair import _crashing, again
from tests.object_store import Bucket
from twophase.codec import decode_head
from twophase.driver import Driver
from twophase.local_head import LocalHead

_PROJECT = Path(__file__).resolve().parents[2]
_LOCATION = ("head", "records", "log")
_SINK = ("t.db", "t.db-wal", "t.db-shm")


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Checkpoint 0 is committed, and its driver is gone."""
    made = World(tmp_path / "pipeline")
    _run(made, 0)
    return made


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path) -> None:
    (tmp_path / "pipeline").mkdir()


def _run(world: World, *numbers: int) -> None:
    """A start, and these checkpoints."""
    driver = _started(world)
    for number in numbers:
        world.run(driver, number, Job(world))
    driver.close()


def _started(world: World) -> Driver:
    driver = world.driver()
    driver.start()
    return driver


def _copy(world: World, *names: str) -> Path:
    """A copy of these parts of the pipeline, as they are now."""
    copy = world.folder.with_name(f"copy-{world.starts}")
    copy.mkdir()
    for name in names:
        _put(world.folder / name, copy / name)
    return copy


def _put_back(world: World, copy: Path, *names: str) -> None:
    for name in names:
        target = world.folder / name
        shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
        _put(copy / name, target)


def _put(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target)
    elif source.exists():
        shutil.copy2(source, target)


def _refused(world: World, message: str) -> None:
    """A start is refused, and changes nothing in the sink."""
    before = world.query("SELECT n FROM t ORDER BY n")
    with pytest.raises(IdentityError, match=message):
        world.driver().start()
    assert world.query("SELECT n FROM t ORDER BY n") == before


def test_a_snapshot_of_the_whole_machine_is_restored(world: World) -> None:
    """Driver, Spark's plans and sink of one moment: what came since is read again, and is there once."""
    copy = _copy(world, *_LOCATION, *_SINK)
    _run(world, 1, 2)
    world.check(3)
    _put_back(world, copy, *_LOCATION, *_SINK)
    world.planned = 0
    world.check(1)
    _run(world, 1, 2, 3)
    world.check(4)


def test_a_snapshot_of_the_sinks_machine_alone_is_refused_and_repaired(world: World) -> None:
    copy = _copy(world, *_SINK)
    _run(world, 1)
    _put_back(world, copy, *_SINK)
    _refused(world, "sink s went back in time: it counts checkpoints up to 0, head calls 1 committed")
    assert [loss.rows for loss in world.driver().repair(again(world)).losses] == [ROWS]
    world.check(2)
    _run(world, 2)
    world.check(3)


def test_a_snapshot_of_the_drivers_machine_alone_is_refused(world: World) -> None:
    """Its plans went back with it; the sink has seen a later driver."""
    copy = _copy(world, *_LOCATION)
    _run(world, 1)
    _put_back(world, copy, *_LOCATION)
    world.planned = 0
    _refused(world, "holds rows of checkpoint 1|has seen epoch 2, head is at 1")
    world.check_rows(2)


def test_a_fail_over_to_a_replica_and_back_is_refused_where_rows_are_missing(world: World) -> None:
    """What was written to the one server alone (an errant transaction) is not on the other: each lacks something."""
    replica = _copy(world, *_SINK)
    _run(world, 1)
    primary = _copy(world, *_SINK)
    _put_back(world, replica, *_SINK)
    _refused(world, "it counts checkpoints up to 0, head calls 1 committed")
    _put_back(world, primary, *_SINK)  # nothing was written to the replica: the primary goes on
    _run(world, 2)
    world.check(3)
    _put_back(world, replica, *_SINK)
    assert [loss.rows for loss in world.driver().repair(again(world)).losses] == [ROWS, ROWS]
    _run(world, 3)
    world.check(4)
    _put_back(world, primary, *_SINK)  # it has checkpoint 1 of its own, and lacks what the replica was given
    _refused(world, "it counts checkpoints up to 1, head calls 3 committed")


def test_a_new_incarnation_on_one_server_is_not_mixed_with_the_old_one_on_another(world: World) -> None:
    """The pipeline was reset while the replica was primary: the old primary belongs to the old incarnation."""
    replica = _copy(world, *_SINK)
    _run(world, 1)
    primary = _copy(world, *_SINK)
    _put_back(world, replica, *_SINK)
    head = LocalHead(world.folder).read()
    assert head is not None
    begun = world.driver().reset(expected=decode_head(head.value))
    assert [each.checkpoint_id for each in begun.abandoned] == [1]
    world.planned = -1
    _put_back(world, primary, *_SINK)
    _refused(world, "is claimed by incarnation 00000000000000000001, this pipeline is 0000000000000000000[2-9]")
    world.check_rows(2)


def _in_bucket(world: World, bucket: Bucket) -> None:
    """Versions are kept, as of a bucket that can be rolled back."""
    bucket.s3.put_bucket_versioning(Bucket=bucket.name, VersioningConfiguration={"Status": "Enabled"})
    world.sink = replace(world.sink, log=LogPlace(bucket.address())).open(SCHEMA)


def _versions(bucket: Bucket) -> tuple[Counter[str], dict[str, str]]:
    """How often each object was written; of those that are deleted the mark that says so."""
    listed = bucket.s3.list_object_versions(Bucket=bucket.name)
    marks = {each["Key"]: each["VersionId"] for each in listed.get("DeleteMarkers", []) if each["IsLatest"]}
    return Counter(each["Key"] for each in listed.get("Versions", [])), marks


def test_a_bucket_that_shows_deleted_segments_again_applies_none_of_them(world: World, bucket: Bucket) -> None:
    """The bucket is rolled back to a moment at which they waited."""
    _in_bucket(world, bucket)
    _run(world, 1, 2)
    written, marks = _versions(bucket)
    assert (set(written.values()), len(marks), bucket.listed()) == ({1}, len(written), [])
    assert len(written) >= 4
    for key, mark in marks.items():
        bucket.s3.delete_object(Bucket=bucket.name, Key=key, VersionId=mark)
    assert len(bucket.listed()) == len(written)
    _run(world, 3)
    world.check_rows(4)
    assert bucket.listed() == []


def test_a_bucket_that_lacks_decided_segments_stops_the_pipeline_and_is_repaired(world: World, bucket: Bucket) -> None:
    """The bucket is rolled back to a moment before they were written."""
    _in_bucket(world, bucket)
    driver = world.driver(_crashing(world))
    driver.start()
    with pytest.raises(CrashError):
        world.run(driver, 1, Job(world))
    waiting = bucket.listed()
    assert len(waiting) >= 2
    for key in waiting:
        bucket.s3.delete_object(Bucket=bucket.name, Key=key)
    with pytest.raises(LostCommittableError, match="eos repair SPEC"):
        world.driver().start()
    world.check_rows(1)
    assert [loss.rows for loss in world.driver().repair(again(world)).losses] == [ROWS]
    _run(world, 1, 2)
    world.check_rows(3)


@pytest.mark.parametrize("back_s", [3600, 10 * 365 * 86_400], ids=["an hour", "ten years"])
def test_a_clock_that_is_set_back_changes_no_decision(
    world: World, monkeypatch: pytest.MonkeyPatch, back_s: int
) -> None:
    """The driver's, under a live driver and for its successor; one that lives on is fenced all the same."""
    older = _started(world)
    world.run(older, 1, Job(world))
    now, now_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: now() - back_s)
    monkeypatch.setattr(time, "time_ns", lambda: now_ns() - back_s * 1_000_000_000)
    world.run(older, 2, Job(world))
    _run(world, 3)
    with pytest.raises(FencedError):
        world.run(older, 3, Job(world))
    _run(world, 4)
    world.check(5)


def test_no_statement_reads_the_time_that_a_database_wrote() -> None:
    """The clock of the database alone may be set back: it is written into the witness, for people, and never read."""
    files = [
        path for name in ("connectors", "eos", "twophase", "spark_jobs") for path in (_PROJECT / name).rglob("*.py")
    ]
    assert len(files) > 100
    lines = [
        (path.name, line.strip())
        for path in files
        for line in path.read_text().splitlines()
        if re.search(r"written_at|utc_now|clock_timestamp|UTC_TIMESTAMP|\bNOW\(|CURRENT_TIMESTAMP", line)
    ]
    used = {name for name, line in lines if not line.startswith(("#", "utc_now:", "self.utc_now ="))}
    assert used == {"tables.py"}, lines
    (inserted,) = (line for name, line in lines if "utc_now" in line and name == "tables.py")
    assert inserted.startswith("server.execute(inserting(WITNESS, server.utc_now)")

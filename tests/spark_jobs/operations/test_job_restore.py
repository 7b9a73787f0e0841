"""The restore of a job of the user's own, without Spark."""

from __future__ import annotations

import json
import stat
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from connectors.registry import build_sink
from connectors.spec import Spec
from eos.errors import ConnectorError, IdentityError, SavepointError, SpecError
from spark_jobs.observe.head_reader import read_head
from spark_jobs.operations import spark_rewriting
from spark_jobs.operations.from_savepoint import Allowed, Beginning, begin
from spark_jobs.operations.job_restore import restore
from spark_jobs.savepoints import manifest as manifests
from spark_jobs.savepoints.take import take
from tests import savepoint_files as files
from tests.savepoint_files import INCARNATION, NEWEST
from twophase.codec import sha256_of


@pytest.fixture
def job(tmp_path: Path) -> tuple[Spec, Path]:
    """A job that Spark has done up to the checkpoint before the newest one, and a savepoint of that."""
    spec, _ = files.run_job(tmp_path, done=NEWEST - 1)
    return spec, files.folder_of(take(spec, tmp_path / "kept"))


def restored(
    spec: Spec, savepoint: Path, folder: Path, *, duplicates: bool = False, take_over: bool = False
) -> Beginning:
    """Returns what it has reported before it did anything."""
    told: list[Beginning] = []
    restore(spec, folder, Allowed(savepoint, duplicates=duplicates, take_over=take_over), told.append)
    (beginning,) = told
    return beginning


def test_rows_after_the_savepoint_have_to_be_accepted(job: tuple[Spec, Path], tmp_path: Path) -> None:
    spec, savepoint = job
    before = read_head(spec)
    with pytest.raises(IdentityError, match=f"out has checkpoints up to {NEWEST}"):
        restored(spec, savepoint, tmp_path / "new" / "spark")
    assert read_head(spec) == before
    assert not (tmp_path / "new" / "spark").exists()
    beginning = restored(spec, savepoint, tmp_path / "new" / "spark", duplicates=True)
    assert (dict(beginning.repeated.rows), dict(beginning.repeated.beyond)) == ({"out": 90}, {"out": NEWEST})
    head = read_head(spec)
    assert head is not None
    assert (head.completed, head.committed, head.sinks) == (NEWEST - 1, NEWEST - 1, ("out",))
    assert head.incarnation != INCARNATION
    folder = tmp_path / "new" / "spark"
    assert [path.name for path in folder.parent.iterdir()] == ["spark"]
    kept = {path.removeprefix("spark/") for path in manifests.read(savepoint).files if path.startswith("spark/")}
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} == kept
    assert json.loads((folder / "metadata").read_text()) == {"id": head.query_id}
    assert head.query_id != "query"
    assert (folder / "offsets" / str(NEWEST - 1)).read_text() == files.offsets(NEWEST - 1)


def test_where_it_was_interrupted_it_is_completed_without_an_option(job: tuple[Spec, Path], tmp_path: Path) -> None:
    spec, savepoint = job
    restored(spec, savepoint, tmp_path / "first", duplicates=True)
    first = read_head(spec)
    assert not restored(spec, savepoint, tmp_path / "second").repeated.any
    second = read_head(spec)
    assert first is not None
    assert second is not None
    assert (first.query_id != second.query_id, first.incarnation != second.incarnation) == (True, True)
    assert take(spec).manifest.incarnation == second.incarnation, "its folder is known before the job has started"


def test_sinks_of_a_lost_location_are_taken_over_on_purpose(job: tuple[Spec, Path], tmp_path: Path) -> None:
    spec, savepoint = job
    restored(spec, savepoint, tmp_path / "first", duplicates=True)
    (tmp_path / "state").rename(tmp_path / "lost")
    with pytest.raises(IdentityError, match="another incarnation of pipeline"):
        restored(spec, savepoint, tmp_path / "second", duplicates=True)
    assert read_head(spec) is None
    restored(spec, savepoint, tmp_path / "second", duplicates=True, take_over=True)
    assert read_head(spec) is not None


def test_a_head_that_was_set_back_to_before_the_savepoint_is_refused(tmp_path: Path) -> None:
    """Head and sinks were restored from one older copy, so they agree. The rows in between are in neither."""
    spec, _ = files.run_job(tmp_path)
    savepoint = files.folder_of(take(spec, tmp_path / "kept"))
    files.set_head_back(tmp_path / "state")
    before = read_head(spec)
    assert before is not None
    for options in ({}, {"duplicates": True, "take_over": True}):
        with pytest.raises(IdentityError, match=f"was set back to checkpoint {NEWEST - 1}, and the savepoint"):
            restored(spec, savepoint, tmp_path / "new", **options)
    assert (read_head(spec), (tmp_path / "new").exists()) == (before, False)


def test_rows_that_a_head_does_not_know_any_more_have_to_be_accepted(job: tuple[Spec, Path], tmp_path: Path) -> None:
    """Head was set back to the savepoint's checkpoint, and the sink was not."""
    spec, savepoint = job
    with closing(build_sink(spec, spec.sinks[0]).committer(spec.pipeline)) as committer:
        committer.inspect(INCARNATION, ())
        committer.claim(INCARNATION, 3, begins=NEWEST)
    files.set_head_back(tmp_path / "state")
    with pytest.raises(IdentityError, match=f"out has checkpoints up to {NEWEST}"):
        restored(spec, savepoint, tmp_path / "new")
    assert restored(spec, savepoint, tmp_path / "new", duplicates=True).repeated.beyond == {"out": NEWEST}


def test_a_folder_behind_a_link_is_refused_before_anything_changes(job: tuple[Spec, Path], tmp_path: Path) -> None:
    """Spark's folder takes its place by a rename, and a rename does not replace a link."""
    spec, savepoint = job
    before = read_head(spec)
    (tmp_path / "disk").mkdir()
    (tmp_path / "spark2").symlink_to(tmp_path / "disk")
    with pytest.raises(SavepointError, match="is a link"):
        restored(spec, savepoint, tmp_path / "spark2", duplicates=True)
    assert read_head(spec) == before


def test_a_folder_that_is_used_is_left_alone(job: tuple[Spec, Path], tmp_path: Path) -> None:
    spec, savepoint = job
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "mine").write_text("")
    with pytest.raises(SavepointError, match="is not empty: it has mine"):
        restored(spec, savepoint, tmp_path / "used", duplicates=True)
    (tmp_path / "used" / "mine").unlink()
    restored(spec, savepoint, tmp_path / "used", duplicates=True)
    assert (tmp_path / "used" / "metadata").exists()


def test_a_folder_that_gets_files_meanwhile_is_left_alone(
    job: tuple[Spec, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job was started too early."""
    spec, savepoint = job
    target, copy = tmp_path / "spark2", spark_rewriting.copy

    def copy_and_use(*arguments: object) -> None:
        copy(*arguments)  # type: ignore[arg-type]
        files.put(target / "metadata", "the job's")

    monkeypatch.setattr(spark_rewriting, "copy", copy_and_use)
    with pytest.raises(SavepointError, match="cannot be written"):
        restored(spec, savepoint, target, duplicates=True)
    assert (target / "metadata").read_text() == "the job's"
    monkeypatch.undo()
    restored(spec, savepoint, tmp_path / "spark3")


def test_a_hostile_savepoint_writes_nothing_outside(job: tuple[Spec, Path], tmp_path: Path) -> None:
    """It names a file twice. The end of the second name is an absolute path."""
    spec, savepoint = job
    key = tmp_path / "home" / "key"
    files.put(savepoint / f"spark{key}", "theirs")
    entry = [6, sha256_of(b"theirs")]
    files.forge(savepoint, lambda document: document["files"].update({f"spark{key}": entry, f"spark/{key}": entry}))
    with pytest.raises(SavepointError, match=r"manifest\.json is damaged"):
        restored(spec, savepoint, tmp_path / "new", duplicates=True)
    assert not key.exists()


def test_a_folder_that_cannot_get_the_files_is_refused_before_head_changes(
    job: tuple[Spec, Path], tmp_path: Path
) -> None:
    spec, savepoint = job
    before = read_head(spec)
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    (tmp_path / "also").symlink_to(savepoint)
    for folder, said in (
        (tmp_path / "link", "is a link"),
        (tmp_path / "dangling", "is a link"),
        (savepoint / "spark2", "is inside the savepoint"),
        (tmp_path / "also" / "spark2", "is inside the savepoint"),
    ):
        with pytest.raises(SavepointError, match=said):
            restored(spec, savepoint, folder, duplicates=True)
    assert read_head(spec) == before
    manifests.checked(savepoint)


def test_a_folder_keeps_the_access_rights_that_the_user_gave_it(job: tuple[Spec, Path], tmp_path: Path) -> None:
    spec, savepoint = job
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o770)
    for folder, mode in ((tmp_path / "shared", 0o770), (tmp_path / "new", 0o700)):
        restored(spec, savepoint, folder, duplicates=True)
        assert stat.S_IMODE(folder.stat().st_mode) == mode


def test_the_other_kind_of_pipeline_is_refused(job: tuple[Spec, Path], tmp_path: Path) -> None:
    spec, savepoint = job
    of_eos_run = files.spec_in(tmp_path)
    with pytest.raises(SpecError, match="has sources, so `eos run` runs it"):
        restored(of_eos_run, savepoint, tmp_path / "new")
    with pytest.raises(SavepointError, match="is a savepoint of a job with `ExactlyOnce`"):
        begin(of_eos_run, cast(SparkSession, None), Allowed(savepoint), lambda _: None)
    files.keep_plan(tmp_path / "state", of_eos_run)
    other = files.folder_of(take(of_eos_run, tmp_path / "others"))
    with pytest.raises(SavepointError, match="which `eos run` runs"):
        restored(spec, other, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_savepoint_that_is_damaged_is_not_restored(job: tuple[Spec, Path], tmp_path: Path) -> None:
    spec, savepoint = job
    (savepoint / "spark" / "sources" / "0" / "5").write_text("v1\n[]")
    with pytest.raises(ConnectorError, match="is damaged: spark/sources/0/5"):
        restored(spec, savepoint, tmp_path / "new", duplicates=True)

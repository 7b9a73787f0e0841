"""Savepoints of a job of the user's own, whose Spark checkpoint is where the job has it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from connectors.registry import open_documents
from eos.errors import HeadFormatError, SavepointError
from spark_jobs.operations.upgrade import stored_findings
from spark_jobs.savepoints import job as jobs
from spark_jobs.savepoints import manifest as manifests
from spark_jobs.savepoints.take import take
from tests import savepoint_files as files
from tests.savepoint_files import INCARNATION, NEWEST
from twophase.documents import LocalDocuments


def test_it_holds_state_and_the_files_of_sparks_sources_and_no_path_of_this_machine(tmp_path: Path) -> None:
    spec, spark = files.run_job(tmp_path)
    taken = take(spec, tmp_path / "kept")
    manifest = manifests.checked(files.folder_of(taken))
    assert jobs.is_of_a_job(manifest)
    assert manifest.checkpoint_id == NEWEST
    assert {path for path in manifest.files if "sources" in path} == {"spark/sources/0/5", "spark/sources/0/6"}
    assert sum("/state/" in path for path in manifest.files) == 7
    assert str(spark) not in (files.folder_of(taken) / manifests.NAME).read_text()
    assert manifest.plan is not None
    assert set(manifest.plan.described["sinks"]) == {"out"}


def test_a_checkpoint_that_a_sink_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `max_backlog` a job that runs has some at any moment."""
    monkeypatch.setattr(jobs, "_PATIENCE_S", 0.1)
    spec, _ = files.run_job(tmp_path, committed=NEWEST - 1)
    manifest = take(spec).manifest
    assert (manifest.checkpoint_id, manifest.lacking) == (NEWEST - 1, f"checkpoint {NEWEST}")


def test_an_upgrade_is_checked_against_it(tmp_path: Path) -> None:
    spec, spark = files.run_job(tmp_path)
    found = {finding.check: finding for _, finding in stored_findings(spec)}
    assert found["Spark's checkpoint"].detail.startswith(f"{spark} on ")
    path = tmp_path / "state" / "jobs" / f"{INCARNATION}.json"
    path.write_text(json.dumps({"format": 2, "folder": "/a", "host": "here"}))
    found = {finding.check: finding for _, finding in stored_findings(spec)}
    assert (found["Spark's checkpoint"].ok, found["Spark's checkpoint"].fatal) == (False, True)


@pytest.mark.parametrize("change", ["unknown", "gone", "another"])
def test_a_checkpoint_that_is_not_there_is_not_guessed(tmp_path: Path, change: str) -> None:
    spec, spark = files.run_job(tmp_path)
    if change == "unknown":
        shutil.rmtree(tmp_path / "state" / "jobs")
    elif change == "gone":
        spark.rename(tmp_path / "elsewhere")
    else:
        (spark / "metadata").write_text('{"id":"another"}')
    said = {"unknown": "has not stored where", "gone": f"is not at {spark}", "another": "is of query another"}
    with pytest.raises(SavepointError, match=said[change]):
        take(spec)


def test_the_path_is_replaced_where_the_job_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, spark = files.run_job(tmp_path)
    documents, replaced = open_documents(spec), list[str]()
    monkeypatch.setattr(LocalDocuments, "replace", lambda _self, name, _content: replaced.append(name))
    jobs.remember(spec, INCARNATION, str(spark))
    assert replaced == [], "nothing has changed"
    jobs.remember(spec, INCARNATION, str(spark / "moved"))
    assert replaced == [f"jobs/{INCARNATION}.json"]
    found = jobs.find(documents, INCARNATION)
    assert found is not None
    assert found.folder == str(spark)


def test_a_checkpoint_that_only_spark_reads_has_no_savepoint(tmp_path: Path) -> None:
    """The job has stored its URL, as Spark resolved it."""
    spec, _ = files.run_job(tmp_path)
    jobs.remember(spec, INCARNATION, "s3a://bucket/spark")
    with pytest.raises(SavepointError, match=r"is at s3a://bucket/spark, and not on a local disk: a command") as caught:
        take(spec)
    assert "copy this folder together with the checkpoint location" in caught.value.remedy


def test_a_start_that_is_cut_off_leaves_no_savepoint_without_a_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restore would refuse it, as one of `eos run`."""
    spec, spark = files.run_job(tmp_path)
    for name in ("jobs", "plans"):
        shutil.rmtree(tmp_path / "state" / name)
    replace = LocalDocuments.replace

    def once(documents: LocalDocuments, name: str, content: bytes) -> None:
        replace(documents, name, content)
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalDocuments, "replace", once)
    with pytest.raises(KeyboardInterrupt):
        jobs.remember(spec, INCARNATION, str(spark))
    monkeypatch.undo()
    with pytest.raises(SavepointError, match="has not stored where"):
        take(spec)
    jobs.remember(spec, INCARNATION, str(spark))
    assert jobs.is_of_a_job(take(spec).manifest)


@pytest.mark.parametrize(
    ("link", "target"), [("sources", "home"), ("sources/0", "home"), ("sources/7", "home/key"), ("offsets", "home")]
)
def test_a_link_puts_no_file_of_another_folder_into_a_savepoint(tmp_path: Path, link: str, target: str) -> None:
    """Another user of the store may store the path of a folder with such a link."""
    spec, spark = files.run_job(tmp_path)
    for name in ("key", str(NEWEST), str(NEWEST - 1)):
        files.put(tmp_path / "home" / name, "secret")
    shutil.rmtree(spark / link, ignore_errors=True)
    (spark / link).symlink_to(tmp_path / target)
    with pytest.raises(SavepointError, match="a link that leads out of Spark's checkpoint"):
        take(spec, tmp_path / "kept")
    assert [path for path in (tmp_path / "kept").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("content", [b"[" * 200_000, b"[]", b"7", b"null", b"{}", b'{"folder": "/a"}'])
def test_a_damaged_path_is_not_known(tmp_path: Path, content: bytes) -> None:
    LocalDocuments(tmp_path).replace("jobs/life.json", content)
    assert jobs.find(LocalDocuments(tmp_path), "life") is None


def test_a_path_of_a_newer_format_is_refused_by_its_number(tmp_path: Path) -> None:
    LocalDocuments(tmp_path).replace("jobs/life.json", json.dumps({"format": 2}).encode())
    with pytest.raises(HeadFormatError, match="has format 2"):
        jobs.find(LocalDocuments(tmp_path), "life")

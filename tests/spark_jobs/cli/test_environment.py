"""What `eos doctor` says about the machine, tried on folders and programs made for it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from connectors.spec import load_spec
from spark_jobs.cli.environment import (
    check_environment,
    check_interpreter,
    check_java,
    check_location,
    check_pyspark,
    check_scratch,
    check_space,
    tasks_at_once,
    why_not_writable,
)


def java(folder: Path, says: str, code: int = 0) -> dict[str, str]:
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {code}\n")
    program.chmod(0o755)
    return {"JAVA_HOME": str(folder), "PATH": "/nowhere"}


@pytest.mark.parametrize(
    ("says", "code", "ok", "fatal"),
    [
        ('openjdk version "17.0.12" 2024-07-16', 0, True, True),
        ('openjdk version "25" 2025-09-16', 0, True, True),
        ('openjdk version "11.0.2" 2019-01-15', 0, False, True),
        ('java version "1.8.0_292"', 0, False, True),
        ("hello", 0, False, False),
        ('openjdk version "17.0.12"', 3, False, True),
    ],
)
def test_the_version_of_java(tmp_path: Path, says: str, code: int, ok: bool, fatal: bool) -> None:
    finding = check_java(java(tmp_path, says, code))
    assert (finding.ok, finding.fatal) == (ok, fatal)
    assert "install Java 17" in finding.remedy


def test_no_java() -> None:
    assert not check_java({"PATH": "/nowhere"}).ok
    assert not check_java({"JAVA_HOME": "/nowhere"}).ok


def test_pyspark_is_the_version_that_this_is_made_for() -> None:
    assert check_pyspark().ok


def test_the_interpreter_of_the_workers() -> None:
    assert check_interpreter({}).ok
    assert check_interpreter({"PYSPARK_PYTHON": sys.executable}).ok
    other = check_interpreter({"PYSPARK_PYTHON": "/bin/sh"})
    assert not other.ok
    assert not other.fatal, "eos run sets it"


def test_a_location_that_is_still_to_be_made(tmp_path: Path) -> None:
    findings = list(check_location(tmp_path / "a" / "b"))
    assert [finding.ok for finding in findings] == [True, True]
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_a_location_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "is not a folder" in (why_not_writable(tmp_path / "file" / "x") or "")
    first, _ = check_location(Path("/proc/eos"))
    assert (first.ok, first.fatal, bool(first.remedy)) == (False, True, True)


def test_a_disk_that_is_almost_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_space(tmp_path / "a" / "b").ok in {True, False}
    for free, ok, fatal in ((2**40, True, False), (2**29, False, False), (2**20, False, True)):
        monkeypatch.setattr(shutil, "disk_usage", lambda _path, free=free: SimpleNamespace(free=free))
        finding = check_space(tmp_path / "a" / "b")
        assert (finding.ok, finding.fatal) == (ok, fatal)
        assert str(tmp_path) in finding.detail
        assert finding.remedy


@pytest.mark.parametrize("scratch", ["", ", scratch: machine"])
def test_the_folder_beside_a_location_in_an_object_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scratch: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "orders.yaml"
    path.write_text(
        f"pipeline: orders\ncheckpoint: {{location: 's3://bucket/eos/orders'{scratch}}}\n"
        "sources: [{name: s, connector: kafka, bootstrap_servers: a, topics: [t], format: {type: raw}}]\n"
        "sinks: [{name: out, from: s, connector: print}]\n"
    )
    findings = {each.check: each for each in check_environment(load_spec(path, {}), os.environ)}
    assert not findings.keys() & {"checkpoint location", "checkpoint filesystem"}
    folder = tmp_path / "machine" if scratch else tmp_path / "cache"
    assert findings["scratch folder"].ok
    assert findings["scratch folder"].detail.startswith(f"{folder}")
    assert "checkpoint.scratch" in findings["scratch folder"].detail
    assert str(tmp_path) in findings["free space"].detail
    assert "set checkpoint.scratch to a folder on another disk" in findings["free space"].remedy
    assert "checkpoint.location" not in findings["free space"].remedy


def test_a_scratch_folder_that_cannot_be_written() -> None:
    finding = check_scratch(Path("/proc/eos"))
    assert (finding.ok, finding.fatal) == (False, True)
    assert "/proc" in finding.detail
    assert finding.remedy == "give a folder that this user may write, in checkpoint.scratch"


@pytest.mark.parametrize(
    ("master", "cores", "tasks"),
    [
        ("local", "", 1),
        ("local[3]", "", 3),
        ("local[3,4]", "", 3),
        ("local[*]", "", os.cpu_count()),
        ("local[*,4]", "9", os.cpu_count()),
        ("spark://h:7077", "8", 8),
        ("spark://h:7077", "", None),
        ("yarn", "many", None),
    ],
)
def test_how_many_tasks_write_at_once(tmp_path: Path, master: str, cores: str, tasks: int | None) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(
        f"spark: {{master: '{master}', conf: {{spark.cores.max: '{cores}'}}}}\n"
        "pipeline: orders\ncheckpoint: {location: state}\n"
        "sources: [{name: s, connector: kafka, bootstrap_servers: a, topics: [t], format: {type: raw}}]\n"
        "sinks: [{name: out, from: s, connector: sqlite, path: x.db, table: t, commit: write-ahead-log}]\n"
    )
    assert tasks_at_once(load_spec(path, {})) == tasks

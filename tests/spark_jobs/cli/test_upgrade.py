"""`eos upgrade --check` on locations of earlier versions, and of later ones."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from integration_tests.golden import LOCATIONS
from spark_jobs.cli import run_command_line
from spark_jobs.savepoints.manifest import NAME
from tests.project.test_golden_location import SPEC
from tests.twophase.test_codec import GOLDEN
from twophase.codec import _dump, sha256_of
from twophase.local_head import LocalHead

_NEIGHBOURS = GOLDEN / "neighbours"


@pytest.fixture(params=LOCATIONS)
def location(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of each golden location and its sink, beside a spec."""
    (tmp_path / "pipeline.yaml").write_text(SPEC)
    shutil.copytree(GOLDEN / request.param, tmp_path / "checkpoints")
    (tmp_path / "checkpoints" / "sink.db").rename(tmp_path / "sink.db")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "checkpoints"


def _checked(capsys: pytest.CaptureFixture[str], *, code: int) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the findings, by what each is about and its check."""
    assert run_command_line(["upgrade", "--check", "pipeline.yaml", "--json"]) == code
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is (code == 0)
    return {(each["of"], each["check"]): each for each in told["findings"]}


def _content(location: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in location.rglob("*") if path.is_file()}


def test_a_location_of_an_earlier_version_can_be_continued(location: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = _content(location)
    found = _checked(capsys, code=0)
    assert [each for each in found.values() if not each["ok"]] == []
    assert found["head", "head"]["detail"] == "checkpoint 2 is decided, and committed up to 1"
    assert found["head", "records"]["detail"].startswith("3 checkpoints, decided by ")
    sink = found["sink warehouse", "rows and transactions"]["detail"]
    assert sink == "checkpoint 1 is counted, and 2 transactions are prepared"
    assert _content(location) == before


def test_a_head_of_a_version_that_cannot_be_read(location: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _swap(location, (_NEIGHBOURS / "head.refused").read_bytes())
    (finding,) = _checked(capsys, code=1).values()
    assert "this head has format 4, which is read from format 3 on" in finding["detail"]
    assert finding["remedy"]


def test_a_head_that_this_version_reads_and_may_not_write(location: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen = LocalHead(location).read()
    assert seen is not None
    document = {**json.loads(seen.value), "format": 3, "least_reader": 2, "colour": "red"}
    del document["checksum"]
    _swap(location, _dump(document | {"checksum": sha256_of(_dump(document))}))
    found = _checked(capsys, code=1)
    assert "a newer version keeps 'colour' in head" in found["head", "head"]["detail"]


def test_a_savepoint_and_a_history_that_cannot_be_read(location: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pipeline starts without either; but nobody should find it out when a savepoint is needed."""
    savepoint = location / "savepoints" / "savepoint-before"
    savepoint.mkdir(parents=True)
    shutil.copy(_NEIGHBOURS / "savepoint.refused", savepoint / NAME)
    (location / "history.sqlite").write_bytes(b"not a database" * 100)
    found = _checked(capsys, code=1)
    assert "has format 3, which is read from format 2 on" in found["savepoint", "savepoint-before"]["detail"]
    assert not found["location", "history"]["ok"]
    assert not found["location", "history"]["fatal"]


def test_a_sink_whose_tables_a_newer_version_has_changed(location: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(sqlite3.connect("sink.db")) as sink:
        sink.execute("DROP TABLE eos_claim")
        sink.execute("CREATE TABLE eos_claim (something TEXT)")
    finding = _checked(capsys, code=1)["sink warehouse", "rows and transactions"]
    assert not finding["ok"]


def test_a_pipeline_that_never_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    (tmp_path / "pipeline.yaml").write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    assert run_command_line(["upgrade", "--check", "pipeline.yaml"]) == 0
    assert "eos-golden has never run: nothing is stored." in capsys.readouterr().out
    assert not (tmp_path / "checkpoints").exists()


def test_without_the_flag_it_names_the_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pipeline.yaml").write_text(SPEC)
    assert run_command_line(["upgrade", str(tmp_path / "pipeline.yaml")]) == 2
    assert "install the new version" in capsys.readouterr().err


def _swap(location: Path, content: bytes) -> None:
    head = LocalHead(location)
    assert head.swap(head.read(), content)

"""The file that Spark's processes have as stderr: it is bounded while they keep it open."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eos.errors import HeadError
from spark_jobs.session import stderr_log
from spark_jobs.session.stderr_log import StderrLog

_WRITER = """
import sys
for line in sys.stdin:
    sys.stderr.write(line)
    sys.stderr.flush()
    print("written", flush=True)
"""


def test_a_process_that_writes_on_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has opened the file before, and is not told."""
    monkeypatch.setattr(stderr_log, "_MAX_BYTES", 100)
    log = StderrLog(tmp_path / "location")
    with log.inherited():
        command = [sys.executable, "-c", _WRITER]
        writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    assert writer.stdin is not None
    assert writer.stdout is not None

    def write(line: str) -> None:
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdin.write(f"{line}\n")
        assert writer.stdout.readline() == "written\n"

    before = log.path.with_name("spark.stderr.log.1")
    write("a" * 99)
    log.on_state("running")
    assert not before.exists()
    write("b" * 99)
    log.on_state("running")
    assert (before.read_text(), log.path.read_text()) == ("b" * 99 + "\n", "")
    write("c" * 49)
    assert log.path.read_text() == "c" * 49 + "\n"
    write("d" * 199)
    log.on_state("stopping")
    assert (before.read_text(), log.path.stat().st_size) == ("d" * 99 + "\n", 0)
    writer.stdin.close()
    assert writer.wait(10) == 0
    writer.stdout.close()


def test_a_run_without_the_file_makes_none(tmp_path: Path) -> None:
    StderrLog(tmp_path).on_state("running")
    assert not list(tmp_path.iterdir())


def test_this_process_keeps_its_own(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = StderrLog(tmp_path)
    with log.inherited():
        os.write(2, b"inside")
    os.write(2, b"outside")
    assert (log.path.read_text(), capfd.readouterr().err) == ("inside", "outside")


def test_a_file_that_cannot_be_emptied_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stderr_log, "_MAX_BYTES", 1)
    log = StderrLog(tmp_path)
    log.path.write_text("words")
    log.path.with_name("spark.stderr.log.1").mkdir()
    log.on_state("running")
    assert "cannot be emptied: Is a directory" in caplog.text
    assert log.path.read_text() == "words"


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    log = StderrLog(tmp_path)
    log.path.mkdir()
    with pytest.raises(HeadError, match="log cannot be used: Is a directory"), log.inherited():
        pytest.fail("not entered")

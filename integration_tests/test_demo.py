"""The demo as a user starts it: what it prints last, what it leaves behind, and how it ends early."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from integration_tests.harness import session

pytestmark = pytest.mark.any_server

_PROJECT = Path(__file__).resolve().parents[1]
_KEYS = ["produced", "in_sink", "lost", "duplicated", "unexpected", "restarts"]
_END_S = 900.0


@dataclass
class _Demo:
    """The script in a process group of its own, as a terminal starts it."""

    process: subprocess.Popen[str]
    lines: list[str]

    def read_until(self, fragment: str) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if fragment in line:
                return
        raise AssertionError(f"never said {fragment!r}:\n" + "\n".join(self.lines))

    def end(self) -> int:
        assert self.process.stdout is not None
        self.lines += self.process.stdout.read().splitlines()
        return self.process.wait(_END_S)

    @property
    def folder(self) -> Path:
        """Its own, which it names in its first line."""
        found = re.search(r"logs and state in (\S+)", "\n".join(self.lines))
        assert found, self.lines
        return Path(found[1])

    def processes(self) -> list[psutil.Process]:
        """Those that still work in its folder."""
        return [each for each in psutil.process_iter() if _works_in(each, self.folder)]

    def assert_nothing_is_left(self) -> None:
        assert not self.folder.exists()
        assert self.processes() == []


def _works_in(process: psutil.Process, folder: Path) -> bool:
    try:
        return str(folder) in process.cwd() or any(str(folder) in each for each in process.cmdline())
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[_Demo]:
    """Started in another folder."""
    environment = {key: value for key, value in os.environ.items() if key != "SERVICES"}
    with subprocess.Popen(
        [_PROJECT / "scripts" / "demo"],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
    ) as process:
        started = _Demo(process, [])
        yield started
        if process.poll() is None:
            process.terminate()  # it ends what it started


@pytest.mark.in_turns  # test_wheel.py runs the same from the wheel
@pytest.mark.timeout(_END_S)
def test_every_record_once_and_the_last_line_says_so(demo: _Demo, tmp_path: Path) -> None:
    code = demo.end()
    assert code == 0, "\n".join(demo.lines)
    verdict = json.loads(demo.lines[-1])
    assert list(verdict) == _KEYS
    assert verdict["produced"] >= 10_000
    assert verdict["in_sink"] == verdict["produced"]
    assert (verdict["lost"], verdict["duplicated"], verdict["unexpected"]) == (0, 0, 0)
    assert verdict["restarts"] >= 2
    assert "Verdict: exactly once" in demo.lines[-3]
    assert sum("kill -9" in line for line in demo.lines[:-3]) == 2
    demo.assert_nothing_is_left()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.timeout(300)
def test_ctrl_c_ends_everything(demo: _Demo) -> None:
    demo.read_until("starting the job")
    deadline = time.monotonic() + 60
    while not any(session.is_java(each) for each in demo.processes()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    os.killpg(demo.process.pid, signal.SIGINT)
    assert demo.end() == 130
    assert "interrupted" in demo.lines[-1]
    demo.assert_nothing_is_left()


def _run_with_java(home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "eos", "demo"],
        cwd=_PROJECT,
        env={**os.environ, "JAVA_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_java_there_is_one_clear_error(tmp_path: Path) -> None:
    done = _run_with_java(tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: Java: " in done.stderr
    assert "remedy: install Java 17 or newer" in done.stderr


@pytest.mark.timeout(300)
def test_a_driver_that_cannot_run_is_one_clear_line(tmp_path: Path) -> None:
    """A Java that names its version and runs nothing."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\necho \'openjdk version "17.0.1"\' >&2\n[ "$1" = -version ]\n')
    java.chmod(0o755)
    done = _run_with_java(tmp_path)
    folder = Path(re.findall(r"logs and state in (\S+)", done.stdout)[0])
    assert done.returncode == 1
    assert re.fullmatch(r"demo: the driver ended with exit code 1: error: .*; see \S+driver-1\.log\n", done.stderr)
    assert (folder / "driver-1.log").read_text()  # kept after a failure
    shutil.rmtree(folder)


def test_an_unknown_kind_of_services() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "integration_tests.demo", "podman"],
        cwd=_PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == "demo: unknown kind of services 'podman': choose one of embedded, docker, native, auto\n"

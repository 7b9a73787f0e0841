"""What a run shows of itself: tests done, of how many, and the minutes left."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from integration_tests.harness import durations
from integration_tests.harness.durations import Durations, about, read, write_part, write_tests
from integration_tests.harness.progress import Printer, Progress
from integration_tests.harness.turns import Passed

_PROJECT = Path(durations.__file__).parents[2]
_TESTS = """
import pytest, time

@pytest.mark.parametrize("number", range(6))
def test_it(number): time.sleep(0.2)

def test_that_fails(): assert False

@pytest.fixture
def wrong(): raise ValueError

def test_that_begins_wrong(wrong): ...

@pytest.mark.skip(reason="not here")
def test_elsewhere(): ...
"""


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_time_left_follows_the_record_and_then_the_speed_of_the_run() -> None:
    clock = Clock()
    progress = Progress(clock)
    progress.start({f"t{number}": 60.0 for number in range(20)}, processes=2)
    assert progress.left_s() == 20 * 60 / 2
    assert progress.before() == "20 tests, 2 at a time: about 10 minutes"
    for number in range(10):
        clock.now += 60  # twice as slow as two at a time would be
        progress.end(f"t{number}")
    assert 10 * 60 / 2 * 1.5 < progress.left_s() < 10 * 60
    progress.end("t9")
    assert progress.now() == "10 of 20 tests, about 10 minutes left"
    progress.failed = 1
    for number in range(20):
        progress.end(f"t{number}")
    assert progress.now() == "20 of 20 tests, 1 failed, less than a minute left"


def test_a_line_is_replaced_on_a_terminal_only() -> None:
    terminal, file = io.StringIO(), io.StringIO()
    for stream in (terminal, file):
        printer = Printer(stream, terminal=stream is terminal)
        printer.replace("1 of 2")
        printer.stay("FAILED it")
        printer.replace("2 of 2")
        printer.clear()
    assert terminal.getvalue() == "\r\033[K1 of 2\r\033[KFAILED it\n\r\033[K2 of 2\r\033[K"
    assert file.getvalue() == "1 of 2\nFAILED it\n2 of 2\n"


def test_a_test_takes_as_long_as_the_record_says() -> None:
    record = Durations({"a.py": (4, 8.0)}, {}, {"a.py::test_long": Passed("revision", 70.0)})
    names = ["a.py::test_short", "a.py::test_long@group", "b.py::test_new"]
    assert record.of_tests(names) == dict(zip(names, [2.0, 70.0, 1.0], strict=True))


def test_the_record_keeps_what_this_run_has_not_run(tmp_path: Path) -> None:
    path = tmp_path / "durations.json"
    here, other = "tests/integration_tests/test_progress.py", "tests/integration_tests/test_turns.py"
    write_tests({f"{here}::test_a": 1.0, f"{here}::test_b": 2.04, "tests/test_gone.py::test_c": 1.0}, path)
    write_part("checks", 100.4, path)
    write_tests({f"{other}::test_a@group": 3.0}, path)
    found = read(path)
    assert found.files == {here: (2, 3.0), other: (1, 3.0)}
    assert found.parts_s == {"checks": 100}
    assert len(path.read_text().splitlines()) == 9, "a line for each entry"


def test_a_part_of_a_file_changes_nothing(tmp_path: Path) -> None:
    path, here = tmp_path / "durations.json", "tests/integration_tests/test_progress.py"
    write_tests({f"{here}::test_{number}": 1.0 for number in range(10)}, path)
    write_tests({f"{here}::test_alone": 200.0}, path)
    assert read(path).files == {here: (10, 10.0)}
    write_tests({f"{here}::test_{number}": 2.0 for number in range(5)}, path)
    assert read(path).files == {here: (5, 10.0)}


def test_a_long_test_does_not_count_in_its_file(tmp_path: Path) -> None:
    long = next(iter(read().long))
    file = long.partition("::")[0]
    write_tests({f"{long}@group": 90.0, f"{file}::test_short": 2.0}, tmp_path / "durations.json")
    assert read(tmp_path / "durations.json").files == {file: (1, 2.0)}


@pytest.mark.parametrize(
    ("seconds", "text"), [(59.0, "less than a minute"), (60.0, "about 1 minute"), (61.0, "about 2 minutes")]
)
def test_minutes_are_said_as_a_person_says_them(seconds: float, text: str) -> None:
    assert about(seconds) == text


def _pytest(folder: Path, *options: str) -> list[str]:
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_some.py").write_text(_TESTS)
    shown = ["-p", "integration_tests.harness.progress", "-o", "console_output_style=classic"]
    return [sys.executable, "-m", "pytest", "-q", *shown, *options]


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_run_names_its_tests_before_and_its_failures_at_once(processes: str, tmp_path: Path) -> None:
    command = _pytest(tmp_path, "-n", processes)
    environment = {**os.environ, "PYTHONPATH": str(_PROJECT)}
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    lines = ended.stdout.splitlines()
    assert f"9 tests, {max(int(processes), 1)} at a time: less than a minute" in lines
    before = lines[: lines.index(next(line for line in lines if line.startswith("====")))]
    failed = " FAILED test_some.py::test_that_fails (call)", " FAILED test_some.py::test_that_begins_wrong (setup)"
    assert set(failed) <= set(before), "before the report of the end"
    assert not any(set(line) <= {*".FEs"} for line in before if line)
    assert "FAILED test_some.py::test_that_fails - assert False" in lines, "in the report of the end"
    assert lines[-1].startswith("1 failed, 6 passed, 1 skipped, 1 error in ")


def test_a_terminal_sees_the_tests_that_are_done(tmp_path: Path) -> None:
    leader, follower = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(_PROJECT), "TERM": "xterm"}
    with subprocess.Popen(_pytest(tmp_path), cwd=tmp_path, env=environment, stdout=follower, stderr=follower) as run:
        os.close(follower)
        seen = b""
        while True:
            try:
                piece = os.read(leader, 4096)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            seen += piece
    os.close(leader)
    assert run.returncode == 1
    assert b"\r\033[K" in seen
    assert b" of 9 tests" in seen


def test_a_run_with_the_option_writes_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the module, beside which the record is."""
    harness = tmp_path / "integration_tests" / "harness"
    harness.mkdir(parents=True)
    for name in ("__init__", "durations", "progress", "turns"):
        (harness / f"{name}.py").write_text((Path(durations.__file__).with_name(f"{name}.py")).read_text())
    (tmp_path / "integration_tests" / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    ended = subprocess.run(
        _pytest(tmp_path, "--record-durations"), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    record = json.loads((tmp_path / "integration_tests" / "durations.json").read_text())
    tests, seconds = record["files"]["test_some.py"]
    assert tests == 7, ended.stdout + ended.stderr
    assert 1.1 < seconds < 60

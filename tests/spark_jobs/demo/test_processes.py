"""The end of all processes of a session."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spark_jobs.demo.processes import kill_session

_TREE = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], process_group=0)
print(child.pid, flush=True)
if len(sys.argv) > 1:
    os._exit(0)
time.sleep(600)
"""


def _start(*arguments: str) -> tuple[subprocess.Popen[str], int]:
    """Start a session with a child that has a process group of its own. Return the child's id too."""
    process = subprocess.Popen(
        [sys.executable, "-c", _TREE, *arguments], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def _has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("arguments", [(), ("orphan",)], ids=["parent lives", "parent has ended"])
def test_a_child_in_another_group_is_killed_too(arguments: tuple[str, ...]) -> None:
    process, child = _start(*arguments)
    if arguments:
        process.wait(30)
    kill_session(process.pid)
    deadline = time.monotonic() + 10
    while not _has_ended(child):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.communicate(timeout=30)
    assert process.returncode in {0, -9}


def test_other_sessions_are_left_alone() -> None:
    process, _ = _start()
    other, of_other = _start()
    kill_session(process.pid)
    process.communicate(timeout=30)
    assert other.poll() is None
    assert not _has_ended(of_other)
    assert not _has_ended(os.getpid())
    kill_session(other.pid)
    other.communicate(timeout=30)


def test_a_session_that_has_ended() -> None:
    process, _ = _start("orphan")
    kill_session(process.pid)
    process.communicate(timeout=30)
    kill_session(process.pid)

"""The tutorials of docs/tutorial, with the embedded broker and SQLite, and the test of a step in docs/how-to."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from integration_tests.harness.pipeline_process import PROJECT, child_environment
from spark_jobs.demo import broker

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns, pytest.mark.timeout(600)]

_FILE = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_TYPED = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SHOWN = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LEFT_OUT = re.compile(r"^(?:scripts/setup|\. \.venv/bin/activate|docker .*)\n", re.MULTILINE)
"""This machine has an environment, and the broker is embedded."""
_COMMAND_S = 560


def follow(page: str, folder: Path, bootstrap_servers: str = "") -> str:
    """Create the files of a page, type its commands into one shell, and return the output.

    Each text that the page shows must be in the output, in the order of the page.
    """
    text = (PROJECT / "docs" / "tutorial" / page).read_text()
    for name, content in _FILE.findall(text):
        (folder / name).write_text(content)
    typed = _LEFT_OUT.sub("", "".join(_TYPED.findall(text)))
    script = typed.replace("localhost:9092", bootstrap_servers)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env={**child_environment({}), "PATH": path},
        capture_output=True,
        text=True,
        timeout=_COMMAND_S,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    position = 0
    for shown in _SHOWN.findall(text):
        found = done.stdout.find(shown, position)
        assert found >= 0, f"{shown!r} is not in the output after {position}:\n{done.stdout}"
        position = found + len(shown)
    return done.stdout


def test_the_first_pipeline(tmp_path: Path) -> None:
    with broker.running(tmp_path / "broker.log") as bootstrap_servers:
        assert bootstrap_servers
        output = follow("first_pipeline.md", tmp_path, bootstrap_servers)
    assert output.count("20000 20000\n") == 1


def test_a_job_of_ones_own(tmp_path: Path) -> None:
    assert follow("own_job.md", tmp_path).endswith("4 4\n")


def test_the_test_of_a_step(tmp_path: Path) -> None:
    page = (PROJECT / "docs" / "how-to" / "test_in_ci.md").read_text()
    ((name, content),) = _FILE.findall(page)
    (tmp_path / name).write_text(content)
    (tmp_path / "orders.yaml").write_text((PROJECT / "examples" / "orders" / "orders.yaml").read_text())
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", name]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=child_environment({}),
        capture_output=True,
        text=True,
        timeout=_COMMAND_S,
        check=False,
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr

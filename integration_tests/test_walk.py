"""docs/explanation/architecture.md names the functions of recovery and checkpoint in the order in which they run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from integration_tests.harness.pipeline_process import PROJECT

_STEP = re.compile(r"^\| `([a-z_.]+:\w[\w.]*)` \|", re.MULTILINE)


@pytest.mark.in_turns
def test_the_documented_steps_run_in_their_order(tmp_path: Path) -> None:
    page = (PROJECT / "docs" / "explanation" / "architecture.md").read_text()
    documented = _STEP.findall(page)
    assert len(documented) == 30
    command = [sys.executable, "-m", "integration_tests.jobs.walk", str(tmp_path)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    depths = {name: int(depth) for depth, name in map(str.split, done.stdout.splitlines())}
    ran = [name for name in depths if name in documented]
    assert ran == documented
    frames = depths["connectors.log.committer:LogCommitter.commit"] - depths["twophase.driver:Driver.checkpoint"]
    assert frames <= 15, "frames from the driver to a committer"  # one of them turns odd errors of plugins into ours

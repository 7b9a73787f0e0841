"""The soak's own command, as short as it goes: what it counts and says is true."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.soak.growth import LIMITS

pytestmark = [
    pytest.mark.any_server,
    pytest.mark.in_turns,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("services"),
]

_CHECKPOINTS = 40


def test_a_short_soak_counts_every_record_and_says_what_grows(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    kind = pytestconfig.getoption("--kind")
    log = tmp_path / "soak.jsonl"
    options = ["--checkpoints", str(_CHECKPOINTS), "--kind", kind, "--log", str(log)]
    command = [sys.executable, "-m", "benchmarks.soak", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    result = json.loads(done.stdout)
    assert (result["checkpoints"], result["records"]) == (_CHECKPOINTS, 200 * _CHECKPOINTS), result
    assert "rows and ids" not in result["verdict"], result
    *samples, last = (json.loads(line) for line in log.read_text().splitlines())
    assert last == result
    assert len(samples) == result["samples"]
    assert samples[-1] == result["end"]
    assert all(value > 0 for value in result["end"].values()), result
    assert result["growth"].keys() == LIMITS.keys()
    assert result["growth"]["ledger_rows"]["grew"] <= result["growth"]["ledger_rows"]["limit"], result
    # Spark deletes no files of its newest 100 checkpoints: it is growth that must be found.
    assert result["growth"]["files"]["grew"] > result["growth"]["files"]["limit"], result
    assert "files grew by" in result["verdict"]
    assert done.returncode == 1

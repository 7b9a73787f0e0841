"""What docs/how-to/watching.md says of the history is what there is."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from spark_jobs.cli import output, run_command_line
from spark_jobs.observe.history.model import PHASES
from spark_jobs.observe.history.writer import Retention
from tests.spark_jobs.cli.test_status_history import spec

__all__ = ["spec"]

WHOLE = (Path(__file__).parents[2] / "docs" / "how-to" / "watching.md").read_text()
PAGE = WHOLE.partition("## History and status")[2].partition("\n## ")[0]


def test_its_commands_run_and_its_keys_are_there(
    spec: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    block = re.search(r"```\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    shown, checkpoint, follow, as_json = (shlex.split(line, comments=True) for line in block[1].splitlines())
    assert follow == ["eos", "status", "orders.yaml", "--follow"], "which has a test of its own"
    for program, *arguments in (shown, checkpoint, as_json):
        assert program == "eos"
        capsys.readouterr()
        monkeypatch.setattr(output.out, "as_json", False)
        found = {"orders.yaml": str(spec), "812": "4"}
        assert run_command_line([found.get(each, each) for each in arguments]) == 0
    facts = json.loads(capsys.readouterr().out)
    table = PAGE.partition("### As JSON")[2]
    keys = re.findall(r"^\| (`.*?) \| (.*) \|$", table, re.MULTILINE)
    assert len(keys) == 10
    assert {name for cell, _ in keys for name in _names(cell)} <= facts.keys()
    (of_checkpoints,) = (text for cell, text in keys if cell == "`checkpoints`")
    assert set(_names(of_checkpoints)) <= facts["checkpoints"][0].keys()


def _names(text: str) -> list[str]:
    return re.findall(r"`(\w+)`", text)


def test_its_phases_and_numbers_are_those_of_the_code() -> None:
    table = PAGE.partition("### Where the time")[2].partition("###")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == PHASES
    assert (
        f"the newest {Retention().checkpoints:,} checkpoints of the last {Retention().age_s / 86400:.0f} days" in PAGE
    )

"""The docs' commands are those that there are, and what the README calls runs as it says."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from connectors.spec import load_spec
from spark_jobs.cli import command_line, run_command_line
from spark_jobs.operations.new_start import parse

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
COMMANDS = (ROOT / "docs" / "reference" / "commands.md").read_text()
TABLE = dict(re.findall(r"^\| `eos ([\w-]+)[^`]*` \| (.+) \|$", COMMANDS, re.MULTILINE))


def commands() -> dict[str, object]:
    return dict(command_line().commands)


def test_the_table_of_commands_has_each_once() -> None:
    assert sorted(TABLE) == sorted(commands())


_BENCH_CASES = {"four", "kafka", "postgresql", "sqlite", "warm"}  # as scripts/bench prints them


@pytest.mark.parametrize("command", list(TABLE))
def test_every_command_teaches_by_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line([command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"eos {command}" in shown.partition("Examples:")[2]
    assert "Exit code: 0" in shown


def test_every_command_in_the_docs_is_one() -> None:
    texts = [README, *(path.read_text() for path in (ROOT / "docs").rglob("*.md"))]
    blocks = [block for text in texts for block in re.findall(r"```(.*?)```", text, re.DOTALL)]
    spans = [
        span for text in texts for span in re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    ]
    named = {
        name
        for part in (*blocks, *spans)
        for name in re.findall(r"(?<!from )\beos ([a-z]+(?:-[a-z]+)*)\b(?! ?=)", part)
    }
    assert named - _BENCH_CASES <= set(commands()), named - set(commands())


def test_the_readme_is_short() -> None:
    assert len(README.split()) <= 900


def test_what_the_readme_says_to_type_first() -> None:
    """To the letter, but for the setup that this environment has behind it."""
    block = re.search(r"## Use it\n\n```\n(.*?)```", README, re.DOTALL)
    assert block is not None
    setup, *lines = block[1].splitlines()
    assert setup == "scripts/setup"
    folder = Path(sys.executable).parent
    script = "\n".join(["set -e", *lines]).replace(".venv/bin/eos", f"{folder}/eos")
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "guarantee" in done.stdout


def test_the_spec_that_the_readme_explains_is_the_example(tmp_path: Path) -> None:
    block = re.search(r"```yaml\n(.*?)```", README, re.DOTALL)
    assert block is not None
    path = tmp_path / "orders.yaml"
    path.write_text(block[1])
    variables = {"KAFKA": "k:1", "WAREHOUSE": "mysql+pymysql://u:p@h/d"}
    here, there = load_spec(path, variables), load_spec(ROOT / "examples" / "orders" / "orders.yaml", variables)
    assert (here.sources, here.transforms, here.sinks) == (there.sources, there.transforms, there.sinks)


_NUMBERS = ROOT / "examples" / "plugin_numbers" / "numbers.yaml"
"""Needs plugins that are not installed here: tests/connectors/stores/test_docs_plugins.py runs it."""


@pytest.mark.parametrize(
    "path", sorted({*(ROOT / "examples").rglob("*.yaml")} - {_NUMBERS}), ids=lambda path: path.name
)
def test_every_example_is_a_valid_spec(path: Path) -> None:
    url = "mysql+pymysql://u:p@h/d"
    file = "/tmp/eos.db" if "sqlite" in path.stem else url
    load_spec(path, {"KAFKA": "k:1", "WAREHOUSE": url, "SINK_URL": url, "DATABASE": file})


def _fragments() -> list[tuple[str, str]]:
    pages = sorted((ROOT / "docs").rglob("*.md"))
    found = [
        (page.name, textwrap.dedent(block))
        for page in pages
        for block in re.findall(r"^ *```yaml\n(.*?)^ *```", page.read_text(), re.DOTALL | re.MULTILINE)
    ]
    return [each for each in found if each[1] != _NUMBERS.read_text()]


@pytest.mark.parametrize(("page", "fragment"), _fragments())
def test_every_part_of_a_spec_in_the_docs_fits_into_the_example(page: str, fragment: str, tmp_path: Path) -> None:
    del page
    spec = (ROOT / "examples" / "orders" / "orders.yaml").read_text()
    for section in re.findall(r"^(\w+):", fragment, re.MULTILINE):
        spec = re.sub(rf"^{section}:.*?(?=^\w|\Z)", "", spec, flags=re.MULTILINE | re.DOTALL)
    if "sources:" in fragment and "sinks:" in fragment:
        spec = re.sub(r"^transforms:.*?(?=^\w|\Z)", "", spec, flags=re.MULTILINE | re.DOTALL)
    elif "sources:" in fragment:  # with another schema than the example's
        spec = re.sub(r'sql: "SELECT [^"]*"', 'sql: "SELECT * FROM orders"', spec)
    path = tmp_path / "spec.yaml"
    path.write_text(spec + fragment)
    url = "postgresql+psycopg://u:p@h/d"
    variables = {"KAFKA": "k:1", "WAREHOUSE": "mysql+pymysql://u:p@h/d", "SINK_URL": url, "KEY": "k", "SECRET": "s"}
    load_spec(path, {**variables, "SLACK_WEBHOOK": "https://h/x", "MAIL_TOKEN": "t"})


def test_the_positions_that_the_page_of_the_spec_names() -> None:
    page = (ROOT / "docs" / "reference" / "spec.md").read_text()
    (line,) = re.findall(r"`eos reset SPEC --to (\w+)` \(or `(\w+)`, or `([^`]+)`\)", page)
    assert [parse(each) for each in line] == ["earliest", "latest", {"orders/0": 17, "orders/1": 4}]

"""docs/tutorial/plugins.md shows the examples to the letter, and explains each method of a committer."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from twophase.participants import Committer

_PROJECT = next(each for each in Path(__file__).parents if (each / "setup.cfg").exists())
_TEXT = (_PROJECT / "docs" / "tutorial" / "plugins.md").read_text()
_SHELF: Final = _PROJECT / "examples" / "plugin_shelf"
_NUMBERS: Final = _PROJECT / "examples" / "plugin_numbers"
_FILES: Final = dict(re.findall(r"^`([\w./-]+)`:\n\n```\w+\n(.*?)```$", _TEXT, re.DOTALL | re.MULTILINE))
"""Files of the page by the paths above their blocks."""


def test_each_method_of_a_committer_says_why_it_stays() -> None:
    section = _TEXT.partition("### Why a committer has 14 methods\n")[2].partition("\n## ")[0]
    named = re.findall(r"^\| `(\w+)` \| .+ \|$", section, re.MULTILINE)
    methods = [name for name, each in vars(Committer).items() if callable(each) and not name.startswith("_")]
    assert named == methods
    assert len(named) == 14


def test_the_store_that_prepares_is_the_example() -> None:
    """tests/connectors/stores/test_examples.py runs the suites on the stores."""
    code = (_PROJECT / "examples" / "stores" / "preparing_store.py").read_text()
    assert f"```python\n{code}```\n" in _TEXT


def test_the_files_of_the_page_are_the_examples() -> None:
    """Each file of the two distributions is on the page, and the page has no other file."""
    expected = {"numbers.yaml": (_NUMBERS / "numbers.yaml").read_text()}
    for name, folder in (("eos-shelf", _SHELF), ("eos-numbers", _NUMBERS)):
        for path in (folder / "pyproject.toml", *folder.rglob("*.py")):
            expected[f"{name}/{path.relative_to(folder)}"] = path.read_text()
    assert expected == _FILES


def test_the_page_is_narrow() -> None:
    """A row of a table may be longer."""
    assert [line for line in _TEXT.splitlines() if len(line) > 100 and not line.startswith("|")] == []


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the page."""
    folder = tmp_path_factory.mktemp("newcomer")
    for name, text in _FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_the_commands_of_the_page_run_to_the_end(newcomer: Path) -> None:
    """To the letter, except that pip installs into a folder and downloads nothing."""
    (commands,) = [each for each in re.findall(r"```sh\n(.*?)```", _TEXT, re.DOTALL) if "eos run" in each]
    offline = "python -m pip install --quiet --no-deps --no-build-isolation --no-index --target installed"
    script = commands.replace("pip install", offline)
    shown = _run(newcomer, "bash", "-e", "-o", "pipefail", "-c", script)
    for each in ("eos-shelf", "eos-numbers", "exactly-once", "1,000 records in", "1,000 rows committed"):
        assert each in shown
    with closing(sqlite3.connect(newcomer / "shelf.db")) as database:
        assert database.execute("SELECT count(*), count(DISTINCT n), sum(n) FROM numbers").fetchall() == [
            (1_000, 1_000, sum(range(1_000)))
        ]


@pytest.mark.parametrize("name", ["eos-shelf", "eos-numbers"])
def test_the_suites_of_the_page_run(newcomer: Path, name: str) -> None:
    code = newcomer / name
    options = ["-q", "-p", "no:cacheprovider", "-k", "token or values_of or order or noticed"]
    path = os.pathsep.join([str(code), str(_PROJECT)])
    shown = _run(newcomer, sys.executable, "-m", "pytest", str(code), *options, path=path)
    assert " passed" in shown


def _run(folder: Path, *command: str, path: str | None = None) -> str:
    """Run a command in a folder that finds this project as an installation would be found; return its output."""
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": path or os.pathsep.join([str(folder / "installed"), str(_PROJECT)]),
        "COLUMNS": "200",
    }
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    return done.stdout + done.stderr


def test_pytest_is_named_where_it_is_missing() -> None:
    script = "import sys; sys.modules['pytest'] = None\nimport eos.testing"
    done = subprocess.run([sys.executable, "-c", script], cwd=_PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "eos.testing needs pytest, which is not installed: pip install 'eos-spark[testing]'" in done.stderr

"""docs/plugins.md shows the examples to the letter, and explains each method of a committer."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from twophase.participants import Committer

_PROJECT = next(each for each in Path(__file__).parents if (each / "setup.cfg").exists())
_TEXT = (_PROJECT / "docs" / "plugins.md").read_text()


def test_each_method_of_a_committer_says_why_it_stays() -> None:
    section = _TEXT.partition("### Why a committer has 14 methods\n")[2].partition("\n## ")[0]
    named = re.findall(r"^\| `(\w+)` \| .+ \|$", section, re.MULTILINE)
    methods = [name for name, each in vars(Committer).items() if callable(each) and not name.startswith("_")]
    assert named == methods
    assert len(named) == 14


@pytest.mark.parametrize("name", ["token_store", "preparing_store"])
def test_the_stores_are_the_examples(name: str) -> None:
    """tests/connectors/stores/test_examples.py runs the suites on them."""
    code = (_PROJECT / "examples" / "stores" / f"{name}.py").read_text()
    assert f"```python\n{code}```\n" in _TEXT


def test_the_suite_in_the_docs_runs(tmp_path: Path) -> None:
    (block,) = [each for each in re.findall(r"```python\n(.*?)```", _TEXT, re.DOTALL) if "TestMyStore" in each]
    path = tmp_path / "test_mine.py"
    path.write_text(block)
    options = ["-q", "-p", "no:cacheprovider", "-c", str(_PROJECT / "setup.cfg"), "-k", "token or values_of"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", str(path), *options],
        cwd=_PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout


def test_pytest_is_named_where_it_is_missing() -> None:
    script = "import sys; sys.modules['pytest'] = None\nimport eos.testing"
    done = subprocess.run([sys.executable, "-c", script], cwd=_PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "eos.testing needs pytest, which is not installed: pip install 'eos-spark[testing]'" in done.stderr

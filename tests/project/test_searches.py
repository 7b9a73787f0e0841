"""The searches that a run takes, and the examples that Hypothesis tries."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from integration_tests.harness.rotation import SEED
from integration_tests.left_out import SEARCH, Run, listing
from tests import searches
from tests.searches import PART, examples, of_run

_SECONDS = {f"test_{number}": 1.0 + number % 7 for number in range(60)}


def test_a_run_takes_a_part_of_the_time() -> None:
    whole = sum(_SECONDS.values())
    for seed in range(20):
        taken = sum(_SECONDS[name] for name in of_run(_SECONDS, seed))
        assert whole * PART * 0.9 < taken <= whole * PART


def test_each_search_has_its_turn() -> None:
    long = {**_SECONDS, "test_of_an_hour": 3600.0}
    assert set().union(*(of_run(long, seed) for seed in range(300))) == long.keys()
    assert of_run(long, 7) == of_run(long, 7)


def test_a_search_is_taken_where_there_is_one_alone() -> None:
    assert of_run({"test_of_an_hour": 3600.0}, 1) == {"test_of_an_hour"}


def test_hypothesis_tries_all_examples_on_request_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SEED, "all")
    assert examples(100) == 100
    monkeypatch.setenv(SEED, "5")
    assert examples(100) == 34


@pytest.mark.parametrize(
    ("seed", "option", "long", "others"),
    [("1", "none", 0, 1), ("1", "some", 4, 0), ("1", "all", 20, 1), ("all", "none", 20, 1)],
)
def test_a_run_takes_the_searches_of_its_option(seed: str, option: str, long: int, others: int, tmp_path: Path) -> None:
    hooks = "pytest_addoption, pytest_collection_modifyitems, pytest_configure"
    (tmp_path / "conftest.py").write_text(f"from tests.conftest import {hooks}\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    content = "@pytest.mark.search(5)\n@pytest.mark.parametrize('at', range(20))\ndef test_it(at): ...\n"
    mutant = "@pytest.mark.mutant\ndef test_mutant(): ...\n"
    (tmp_path / "test_some.py").write_text(f"import pytest\n{content}{mutant}def test_short(): ...\n")
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--searches", option]
    environment = {**os.environ, SEED: seed, "PYTHONPATH": str(Path(searches.__file__).parents[1])}
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    found = [line for line in ended.stdout.splitlines() if "::" in line]
    assert sum("test_it" in name for name in found) == long, ended.stdout + ended.stderr
    assert ("test_some.py::test_mutant" in found) == (long > 0)
    assert found.count("test_some.py::test_short") == others


def test_what_is_left_out_is_listed_with_its_command() -> None:
    (head, *_) = listing([Run("", 1, [], {"a.py::test_it[two]": SEARCH}, {})], [])
    assert head == f"{SEARCH}: 1 left out. To run them: scripts/test --all --no-lint --unit"

"""The table of histories in docs/explanation/protocol.md names tests, mutants and tamperings: all of them exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.model import at_least_once, lives, repair, rescale, set_back, take_over
from tests.model.variants import BEHIND, NOT_OF_THE_COORDINATOR, VARIANTS
from tests.simulation.mutants import MUTANTS
from tests.simulation.tampering import TAMPERINGS

_PROJECT = Path(__file__).resolve().parents[2]


def _rows() -> dict[str, list[str]]:
    text = (_PROJECT / "docs" / "explanation" / "protocol.md").read_text()
    lines = (line.strip("| ").split(" | ") for line in text.splitlines() if re.match(r"\| H\d", line))
    return {cells[0]: cells for cells in lines}


@cache
def _tests() -> set[str]:
    found: set[str] = set()
    for folder in ("tests", "integration_tests", "connectors/testing"):
        for path in (_PROJECT / folder).rglob("*.py"):
            found |= {each.name for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.FunctionDef)}
    return found


def test_every_history_has_a_row() -> None:
    rows = _rows()
    assert list(rows) == [f"H{number}" for number in range(1, 43)]
    assert {len(cells) for cells in rows.values()} == {4}


@pytest.mark.parametrize("history", _rows())
def test_what_its_row_names_exists(history: str) -> None:
    named = re.findall(r"`([^`]*)`", _rows()[history][3])
    assert named
    for name in named:
        kind, _, rest = name.rpartition(": ")
        known = {"": _tests(), "mutant": set(MUTANTS), "tampering": set(TAMPERINGS)}[kind]
        assert rest in known, f"{history}: there is no {name}"


def test_each_loss_with_an_object_store_is_shown_by_a_test() -> None:
    page = (_PROJECT / "docs" / "how-to" / "object_stores.md").read_text()
    section = page.partition("## Losses\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][2:]
    assert [len(cells) for cells in rows] == [4] * 12
    assert {name for cells in rows for name in cells[3].replace("`", "").split(", ")} <= _tests()


def test_other_ways_back_are_answered_by_tests_that_exist() -> None:
    page = (_PROJECT / "docs" / "explanation" / "protocol.md").read_text()
    section = page.partition("## Other ways back\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][2:]
    assert len(rows) >= 15
    assert {len(cells) for cells in rows} == {3}
    named = [name for _, _, tests in rows for name in re.findall(r"`([^`]*)`", tests)]
    assert [name for name in named if name not in _tests()] == []
    assert sum("`" not in tests for _, _, tests in rows) == 1


def test_what_keeps_a_rule_outside_of_the_coordinator_exists() -> None:
    assert set(NOT_OF_THE_COORDINATOR.values()) <= _tests()


def test_a_mutant_that_cites_a_history_stands_in_its_row() -> None:
    rows = _rows()
    of_models = {
        *at_least_once.VARIANTS,
        *lives.VARIANTS,
        *repair.VARIANTS,
        *rescale.VARIANTS,
        *set_back.VARIANTS,
        *take_over.VARIANTS,
    }
    for name in {*MUTANTS, *VARIANTS, *BEHIND, *of_models}:
        for history in re.findall(r"\((H\d+)\)", name):
            assert f"`mutant: {name}`" in rows[history][3], f"{name} is missing in the row of {history}"

"""The catalogue is what it says: each mutant breaks a promise at one place, compiles, and names tests that exist."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from types import CodeType
from typing import Final

import pytest

from tests.mutants.catalogue import ALL
from tests.mutants.mutant import PROJECT, Mutant
from tests.simulation.mutants import MUTANTS as OF_THE_COORDINATOR

_RULE: Final = re.compile(
    r"R(?:[1-9]|10)|H(?:[1-9]|[12][0-9]|3[0-9]|4[012])|(?P<page>[\w/-]+\.md)(?:, (?P<section>.+))?"
)
"""A rule or a history of docs/explanation/protocol.md; or a page of the docs, and perhaps its section."""


@cache
def _program(path: str) -> tuple[object, ...]:
    return _work((PROJECT / path).read_text(), path)


def _work(source: str, path: str) -> tuple[object, ...]:
    """Return what a module's code does, without the numbers of its lines."""

    def of(code: CodeType) -> tuple[object, ...]:
        constants = tuple(of(each) if isinstance(each, CodeType) else (type(each), each) for each in code.co_consts)
        own = (code.co_name, code.co_code, code.co_exceptiontable, code.co_flags, code.co_names, code.co_varnames)
        return *own, code.co_freevars, code.co_cellvars, constants

    return of(compile(source, path, "exec", dont_inherit=True))


def test_names_are_unique() -> None:
    assert [name for name, times in Counter(each.name for each in ALL).items() if times > 1] == []


def test_there_are_enough_to_show_something() -> None:
    assert len(ALL) + len(OF_THE_COORDINATOR) >= 200


@pytest.mark.parametrize("mutant", ALL, ids=lambda each: each.name)
def test_a_mutant_breaks_a_promise_and_names_tests_that_exist(mutant: Mutant) -> None:
    source = (PROJECT / mutant.path).read_text()
    wrong = mutant.applied(source)
    if mutant.path.endswith(".py"):  # else a script of the page
        assert _work(wrong, mutant.path) != _program(mutant.path), "it changes nothing but comments or spaces"
    rule = _RULE.fullmatch(mutant.rule)
    assert rule is not None, mutant.rule
    if rule["page"]:
        page, section = (PROJECT / rule["page"]).read_text(), rule["section"]
        assert section is None or f"# {section}\n" in page or f"**{section}" in page, section
    assert mutant.caught_by
    for test in mutant.caught_by:
        path, *names = test.partition("[")[0].split("::")
        assert _defined(path) >= {*names[:-1]}, test
        assert names[-1] in _defined(path) | _behaviours(), test


@cache
def _defined(path: str) -> set[str]:
    """Names of classes and functions. Not imported: modules of integration tests need what their conftest declares."""
    kinds = (ast.ClassDef, ast.FunctionDef)
    return {each.name for each in ast.walk(ast.parse((PROJECT / path).read_text())) if isinstance(each, kinds)}


@cache
def _behaviours() -> set[str]:
    """Tests that a class of its own sink inherits."""
    suites = [PROJECT / "tests" / f"{each}_suite.py" for each in ("head_store", "object_head", "object", "storage")]
    paths = [*(PROJECT / "connectors" / "testing").rglob("*.py"), *suites]
    return {name for path in paths for name in _defined(str(path.relative_to(PROJECT)))}

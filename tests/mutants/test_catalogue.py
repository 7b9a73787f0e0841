"""The catalogue is what it says: each mutant changes one place, compiles, and names tests that exist."""

from __future__ import annotations

import ast
from collections import Counter
from functools import reduce
from importlib import import_module

import pytest

from tests.mutants.catalogue import ALL
from tests.mutants.mutant import PROJECT, Mutant


def test_names_are_unique() -> None:
    assert [name for name, times in Counter(each.name for each in ALL).items() if times > 1] == []


@pytest.mark.parametrize("mutant", ALL, ids=lambda each: each.name)
def test_a_mutant_is_another_program_and_names_tests_that_exist(mutant: Mutant) -> None:
    source = (PROJECT / mutant.path).read_text()
    wrong = mutant.applied(source)
    compile(wrong, mutant.path, "exec")
    assert ast.dump(ast.parse(wrong)) != ast.dump(ast.parse(source)), "it changes nothing but comments or spaces"
    assert mutant.caught_by
    for test in mutant.caught_by:
        path, *names = test.partition("[")[0].split("::")
        module = import_module(path.removesuffix(".py").replace("/", "."))
        assert callable(reduce(getattr, names, module))

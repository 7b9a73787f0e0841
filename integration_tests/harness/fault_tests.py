"""Which tests are fault tests: they kill, stop or cut off a process, a server or a connection, or set a store back.

A test is one if its function names such an act, or a function or class of its module that it uses does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ACTS: Final = frozenset(
    {
        "SIGKILL",
        "SIGSTOP",
        "arm",
        "await_point",
        "interrupt",
        "kill",
        "kill_at",
        "kill_at_each",
        "kill_java",
        "killable",
        "Link",
        "put_back",
        "terminate",
        "terminate_all",
    }
)
"""Names in this project's harness, and signals of the operating system."""


@cache
def fault_tests(path: Path) -> frozenset[str]:
    """Return the names of the fault tests in this module of tests, by its source text."""
    own = {
        each.name: frozenset(_named(each))
        for each in ast.parse(path.read_text()).body
        if isinstance(each, ast.FunctionDef | ast.ClassDef)
    }
    return frozenset(name for name in own if name.startswith("test_") and not ACTS.isdisjoint(_reached(name, own)))


def _reached(name: str, own: dict[str, frozenset[str]]) -> set[str]:
    """Return all names that a definition of the module uses, itself or through others of the module."""
    found: set[str] = set()
    entered: set[str] = set()
    left = {name}
    while left:
        entered |= left
        found |= {each for definition in left for each in own[definition]}
        left = (found & own.keys()) - entered
    return found


def _named(definition: ast.AST) -> Iterator[str]:
    for each in ast.walk(definition):
        match each:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                yield name
            case _:
                pass

"""Public names that are imported when they are first used (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def importer(package: str, names: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """Return the `__getattr__` of a public module. `names`: its names by the module that defines them."""
    modules = {name: module for module, found in names.items() for name in found}

    def find(name: str) -> object:
        if name not in modules:
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message)
        value: object = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)  # the next use does not call this function
        return value

    return find

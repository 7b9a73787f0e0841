"""The page of the Python API: a directive for mkdocstrings for each public name."""

from __future__ import annotations

from types import ModuleType
from typing import Final

import eos
import eos.errors
import eos.plugin
import eos.testing

MODULES: Final = (eos, eos.errors, eos.plugin, eos.testing)

_HEAD: Final = """\
# Python API

Generated from the docstrings. [The package `eos`](api.md) lists the names by their use.
"""


def page() -> str:
    """Return the page."""
    return _HEAD + "".join(_module(module) for module in MODULES)


def names(module: ModuleType) -> list[str]:
    """Return the public names of a module."""
    public: list[str] = getattr(module, "__all__", None) or [
        name for name, value in vars(module).items() if isinstance(value, type) and value.__module__ == module.__name__
    ]
    return [name for name in public if not name.startswith("_")]


def _module(module: ModuleType) -> str:
    directives = "".join(f"\n::: {module.__name__}.{name}\n" for name in names(module))
    return f"\n## `{module.__name__}`\n{directives}"

"""The modules of the coordinator, as they are or with one rule broken by a patch of their text."""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

_ORDER = (
    "transitions",
    "ownership",
    "verify",
    "set_back",
    "commits",
    "acknowledged",
    "startup",
    "joining",
    "checkpoint",
    "repair",
    "rescale",
    "ending",
    "reset",
    "restore",
)
_numbers = itertools.count()


class Patch(NamedTuple):
    """One change of one module. The old text must be there exactly once, so that no mutant rots in silence."""

    module: str
    old: str
    new: str


class Coordinator(NamedTuple):
    """What a simulated driver runs."""

    transitions: ModuleType
    ownership: ModuleType
    startup: ModuleType
    joining: ModuleType
    checkpoint: ModuleType
    repair: ModuleType
    rescale: ModuleType
    reset: ModuleType
    restore: ModuleType


REAL = Coordinator(*(importlib.import_module(f"twophase.{name}") for name in Coordinator._fields))


def patched(patches: Sequence[Patch]) -> Coordinator:
    """The coordinator with these patches: its modules compiled again under another package name, and only those."""
    package = f"mutant{next(_numbers)}"
    sys.modules[package] = ModuleType(package)
    for name in _ORDER:
        text = _patch(name, patches)
        for other in _ORDER:
            text = text.replace(f"from twophase.{other} import", f"from {package}.{other} import")
        module = ModuleType(f"{package}.{name}")
        sys.modules[module.__name__] = module
        exec(compile(text, f"{package}/{name}.py", "exec"), module.__dict__)
    return Coordinator(*(sys.modules[f"{package}.{name}"] for name in Coordinator._fields))


def _patch(name: str, patches: Sequence[Patch]) -> str:
    original = sys.modules.get(f"twophase.{name}") or importlib.import_module(f"twophase.{name}")
    assert original.__file__ is not None
    text = Path(original.__file__).read_text()
    for patch in patches:
        if patch.module == name:
            assert text.count(patch.old) == 1, f"the mutant no longer applies to {name}: {patch.old!r}"
            text = text.replace(patch.old, patch.new)
    return text

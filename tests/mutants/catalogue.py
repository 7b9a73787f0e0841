"""All mutants: those of each module of this package that has `MUTANTS`."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from tests import mutants
from tests.mutants.mutant import Mutant

_FRAME: Final = {"__main__", "catalogue", "mutant", "run", "trial", "warm"}


def _collected() -> tuple[Mutant, ...]:
    areas = sorted(each.name for each in iter_modules(mutants.__path__) if not each.name.startswith("test_"))
    return tuple(
        mutant for area in areas if area not in _FRAME for mutant in import_module(f"tests.mutants.{area}").MUTANTS
    )


ALL: Final = _collected()

"""How the public modules import: each name when it is first used (PEP 562), and only the packages installed with `eos`.

The names of the packages are common. If a job has a folder `connectors/` beside it, Python finds that folder before the
installed package. An import deep in the framework would then fail, with a message that names neither folder.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from eos._interrupts import is_command

PACKAGES: Final = ("connectors", "spark_jobs", "twophase", "wal")


def refuse_shadows() -> None:
    """Raise ImportError if Python would import another package or module of one of these names. Imports none of them.

    In the command `eos`, and in `python -m eos`, print the sentence and exit with code 2.
    """
    for name in PACKAGES:
        found = _found(name)
        if found is not None and found.parent.resolve() != Path(__file__).parents[1].resolve():
            what = "file" if found.suffix else "folder"
            message = f"Python finds your {what} {found} instead of the package {name!r} of eos: rename it"
            if is_command():
                print(f"error: {message}", file=sys.stderr)
                sys.exit(2)
            raise ImportError(message, name="eos", path=str(found))


def _found(name: str) -> Path | None:
    """Return the folder of the package, or the file of the module, that an import of this name would load."""
    try:
        spec = find_spec(name)
    except ValueError:  # a module that some program has put together, without a file
        return None
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent if spec.submodule_search_locations else Path(spec.origin)


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

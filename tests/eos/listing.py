"""Signatures of the public names, as signatures.md lists them; `python -m tests.eos.listing` writes them there.

The page has a block of text for each public module, below a heading with the module's name.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated, Final, Protocol, get_args, get_origin

import eos
import eos.plugin
import eos.testing
from connectors.api.model import Strict

PAGE: Final = Path(__file__).with_name("signatures.md")
MODULES: Final = (eos, eos.plugin, eos.testing)


def listing(module: ModuleType) -> str:
    """Return a line for each public name, and one for each public member of a class."""
    return "".join(f"{line}\n" for name in module.__all__ for line in _lines(name, getattr(module, name)))


def listed(page: str, module: ModuleType) -> str:
    """Return the listing that the page has."""
    return _block(page, module)[2]


def written(page: str, module: ModuleType) -> str:
    """Return the page with the listing of a module as it is now."""
    block = _block(page, module)
    return page[: block.start(2)] + listing(module) + page[block.end(2) :]


def _block(page: str, module: ModuleType) -> re.Match[str]:
    heading = rf"^## `{re.escape(module.__name__)}`$"
    found = re.search(rf"({heading}[^#]*?^```text\n)(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert found is not None, f"signatures.md has no block of signatures of {module.__name__}"
    return found


def _lines(name: str, value: object) -> Iterator[str]:
    if inspect.isfunction(value):
        yield f"def {name}{_signature(value)}"
        return
    if not isinstance(value, type) or get_origin(value) is not None:
        yield f"{name} = {_text(value)}"
        return
    hidden = _hidden(value)
    bases = [base.__name__ for base in value.__bases__ if base is not object and base not in hidden]
    yield f"class {name}({', '.join(bases)})" if bases else f"class {name}"
    if value is eos.Spec:  # its fields are the sections of a spec
        return
    found: dict[str, str] = {}
    for owner in (value, *hidden):
        for member, line in _members(owner):
            found.setdefault(member, line)
    yield from (f"    {line}" for line in found.values())


def _hidden(value: type) -> Sequence[type]:
    """Return the bases that are no public names: their members are listed with those of the class."""
    values = [getattr(module, name) for module in MODULES for name in module.__all__]
    named = [each for each in values if isinstance(each, type)]
    ours = [base for base in value.__mro__[1:] if base.__module__.startswith("connectors.") and base is not Strict]
    public = {base for each in ours if each in named for base in each.__mro__}
    return [base for base in ours if base not in public]


def _text(value: object) -> str:
    """Return the text of a constant or of an alias of a type."""
    text = str(get_args(value)[0] if get_origin(value) is Annotated else value).replace("\n", ", ")
    return re.sub(r"<class '([\w.]+)'>|\b(?:\w+\.)+(?=\w)", lambda found: (found[1] or "").rpartition(".")[2], text)


def _members(value: type) -> Iterator[tuple[str, str]]:
    own = ("__init__", "__call__") if not is_dataclass(value) and Protocol not in value.__bases__ else ()
    is_suite = value.__module__.startswith("connectors.testing.") and Protocol not in value.__bases__
    annotations = inspect.get_annotations(value)
    for name, kind in annotations.items():
        if not name.startswith("_"):
            yield name, f"{name}: {kind}"
    for name, found in vars(value).items():
        if (name.startswith("_") and name not in own) or name in annotations or name == "model_post_init":
            continue
        if is_suite and "raise NotImplementedError" not in _source(found):
            continue
        if isinstance(found, property):
            yield name, f"{name}: {inspect.signature(found.fget).return_annotation}" if found.fget else name
        elif inspect.isfunction(found) or isinstance(found, (classmethod, staticmethod)):
            yield name, f"def {name}{_signature(getattr(value, name))}"
        elif isinstance(found, value):  # of an enumeration
            yield name, name


def _source(function: object) -> str:
    """Return the source of a method. A suite lists those that a subclass has to provide."""
    return inspect.getsource(function) if inspect.isfunction(function) else ""


def _signature(function: object) -> str:
    assert callable(function)
    return re.sub(r"(?<=: |> )'([^']+)'", r"\1", str(inspect.signature(function)))


if __name__ == "__main__":
    text = PAGE.read_text()
    for each in MODULES:
        text = written(text, each)
    PAGE.write_text(text)

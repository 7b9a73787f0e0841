"""Signatures of the public names, as docs/api.md lists them; `python -m tests.eos.listing` writes them there."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Final

from pydantic import BaseModel

import eos

PAGE: Final = Path(__file__).parents[2] / "docs" / "api.md"
_BLOCK: Final = re.compile(r"(?<=```text\n).*?(?=```\n)", re.DOTALL)


def listing() -> str:
    """Return a line for each public name, and one for each public member of a class."""
    return "".join(f"{line}\n" for name in eos.__all__ for line in _lines(name, getattr(eos, name)))


def listed(page: str) -> str:
    """Return the listing that the page has."""
    found = _BLOCK.search(page)
    assert found is not None, "docs/api.md has no block of signatures"
    return found[0]


def _lines(name: str, value: object) -> Iterator[str]:
    if not isinstance(value, type):
        yield f"def {name}{_signature(value)}"
        return
    bases = [base.__name__ for base in value.__bases__ if base is not object]
    yield f"class {name}({', '.join(bases)})" if bases else f"class {name}"
    if issubclass(value, BaseModel):  # its fields are the sections of a spec
        return
    own = ("__init__", "__call__") if not is_dataclass(value) and "Protocol" not in bases else ()
    for member, kind in inspect.get_annotations(value).items():
        if not member.startswith("_"):
            yield f"    {member}: {kind}"
    for member, found in vars(value).items():
        if (member.startswith("_") and member not in own) or member in inspect.get_annotations(value):
            continue
        if isinstance(found, property):
            yield f"    {member}: {inspect.signature(found.fget).return_annotation}" if found.fget else f"    {member}"
        elif inspect.isfunction(found) or isinstance(found, (classmethod, staticmethod)):
            yield f"    def {member}{_signature(getattr(value, member))}"
        elif isinstance(found, value):  # of an enumeration
            yield f"    {member}"


def _signature(function: object) -> str:
    assert callable(function)
    return re.sub(r"(?<=: |> )'([^']+)'", r"\1", str(inspect.signature(function)))


if __name__ == "__main__":
    PAGE.write_text(_BLOCK.sub(lambda _: listing(), PAGE.read_text()))

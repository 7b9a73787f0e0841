"""`eos init --set KEY=VALUE`: keys of the source's entry, such as its login and TLS, in the new spec."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from connectors.api.masking import is_secret_name
from connectors.api.template import Template
from eos.errors import SpecError

_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)*")
_REFERENCE: Final = re.compile(r"\$\{[^{}]+\}")
_PLAIN: Final = re.compile(r"true|false|0|[1-9][0-9]{0,17}")
"""Values that stay a number, or true or false. All others are texts."""
_REMEDY: Final = "give KEY=VALUE, such as --set security.sasl.username=orders"


def with_keys(source: Template, given: Sequence[str]) -> Template:
    """Return the template with further keys of the entry. Raises SpecError.

    A secret must be a reference, such as `${env:NAME}`: the spec and the history of a shell keep what is written.
    """
    keys: dict[str, Any] = {}
    for each in given:
        _add(keys, each)
    written = re.findall(r"^    ([A-Za-z_]+):", source.entry, re.MULTILINE)
    if taken := keys.keys() & set(written):
        raise SpecError(f"--set: the new spec has the key {min(taken)} already", remedy="change it in the spec")
    lines = "\n".join(_lines(keys, "    "))
    return replace(source, entry=f"{source.entry.rstrip()}\n{lines}\n") if keys else source


def _add(keys: dict[str, Any], given: str) -> None:
    path, separator, value = given.partition("=")
    if not separator or not value or not _KEY.fullmatch(path):
        raise SpecError(f"--set: {path!r} is not a key with a value", remedy=_REMEDY)
    if not value.isprintable():
        raise SpecError(f"--set: the value of {path} has a character that cannot be printed", remedy=_REMEDY)
    *parents, last = path.split(".")
    if is_secret_name(last) and not _REFERENCE.fullmatch(value):
        raise SpecError(f"--set: {path} is a secret", remedy=f"give a reference: --set '{path}=${{env:NAME}}'")
    inner = keys
    for parent in parents:
        inner = inner.setdefault(parent, {})
        if not isinstance(inner, dict):
            raise SpecError(f"--set: {parent} has a value, and keys below it", remedy=_REMEDY)
    if last in inner:
        raise SpecError(f"--set: {path} is given twice", remedy="give it once")
    inner[last] = value


def _lines(keys: dict[str, Any], indent: str) -> Sequence[str]:
    found: list[str] = []
    for key, value in keys.items():
        if isinstance(value, dict):
            found += [f"{indent}{key}:", *_lines(value, indent + "  ")]
        else:
            found.append(f"{indent}{key}: {value if _PLAIN.fullmatch(value) else json.dumps(value)}")
    return found

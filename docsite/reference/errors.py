"""The page of all errors, from the catalogue and the classes. `python -m docsite.reference.errors` writes it.

The page is committed, because messages name its address.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Final

import eos.errors
import wal.errors
from docsite.pages import ROOT
from eos.errors import EosError
from spark_jobs.cli.catalogue import CATALOGUE, Section

PAGE: Final = ROOT / "docs" / "reference" / "errors.md"

_HEAD: Final = """\
# Errors

The last line of an error has its code and the address of its section here. `eos explain CODE`
prints the section in a terminal. A code keeps its meaning in all later versions, so alerts and
scripts may match it: `--json` prints it as `error.code`, and Python has it as `error.code` of each
[class](api.md). The message of an error names the exact cause.

Generated from the code. `python -m docsite.reference.errors` writes this page.
"""


def page() -> str:
    """Return the page."""
    return _HEAD + "".join(_section(code, section) for code, section in CATALOGUE.items())


def classes(code: str) -> list[type[EosError]]:
    """Return the public classes that have this code."""
    return [each for each in _public() if each.code == code]


def _public() -> Iterator[type[EosError]]:
    for module in (eos.errors, wal.errors):
        yield from (getattr(module, name) for name in module.__all__)


def _section(code: str, section: Section) -> str:
    found = [each for each in classes(code) if "code" in vars(each)]
    lines = [f"\n## {code}\n", *_wrapped(section.meaning)]
    if found:
        names = ", ".join(f"`{each.__module__}.{each.__name__}`" for each in found)
        retried = "A running pipeline restarts according to `restart`." if found[0].retriable else ""
        lines += ["", *_wrapped(f"Class: {names}. {retried}".rstrip())]
    lines += ["\n| cause | remedy |", "| --- | --- |"]
    lines += [f"| {cause} | {remedy} |" for cause, remedy in section.causes]
    return "\n".join(lines) + "\n"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 100, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    PAGE.write_text(page())

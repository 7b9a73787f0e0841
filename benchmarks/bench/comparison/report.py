"""Puts a comparison into the docs: tables between two marks of a page, and a picture beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.bench.comparison import chart, tables
from benchmarks.bench.comparison.results import COLD, read
from benchmarks.bench.comparison.work import System

BEGIN: Final = "<!-- comparison: made by scripts/bench report -->"
END: Final = "<!-- end of the comparison -->"


@dataclass(frozen=True, slots=True)
class Docs:
    """Where to."""

    page: Path
    picture: Path


def replaced(page: str, text: str, begin: str = BEGIN, end: str = END) -> str:
    """The page with another text between the marks. Raises ValueError where they are not there, each once."""
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise ValueError(f"the page has no place for the comparison: {begin} and {end}, each once, in this order")
    before, rest = page.split(begin)
    return f"{before}{begin}\n\n{text}\n\n{end}{rest.split(end)[1]}"


def report(systems: Mapping[str, System], files: Sequence[Path], docs: Docs) -> None:
    """Write both. Raises ValueError if the files are none of ours, or have no cold run."""
    machines, results = read(files)
    sizes = [result.rows for result in results if result.kind == COLD and result.values]
    if not sizes:
        raise ValueError(f"{', '.join(map(str, files))}: there is no cold run that went well")
    picture = f"![Rates, latency and CPU of the systems]({os.path.relpath(docs.picture, docs.page.parent)})"
    text = f"{picture}\n\n{tables.page(systems, machines, results)}"
    docs.page.write_text(replaced(docs.page.read_text(), text))
    docs.picture.write_text(chart.svg(systems, results, min(sizes)))

"""Records of the example job, and the rows it must write: computed without Spark, a broker or a database."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

WORDS: Final = (
    *("anchor", "bridge", "candle", "desert", "engine", "forest", "garden", "harbor", "island", "jungle"),
    *("kettle", "lantern", "marble", "needle", "orchard", "pepper", "quarry", "river", "saddle", "thunder"),
    *("umbrella", "valley", "window", "yellow", "zebra", "box", "fox", "mixer", "taxi", "xylophone"),
)
"""Keys of the records. Five contain an "x": about one record in six."""

_ROW: Final = re.compile(r"pre:(?P<previous>.*);current:(?P<current>.*):::map")


def records(count: int, seed: int = 0) -> Iterator[tuple[str, str]]:
    """Generate keys and values in the order of production: `<word>-<n>`, with `n` from 0 for each word."""
    numbers: Counter[str] = Counter()
    for word in random.Random(seed).choices(WORDS, k=count):
        yield word, f"{word}-{numbers[word]}"
        numbers[word] += 1


def expected_rows(produced: Iterable[tuple[str, str]]) -> Counter[str]:
    """Return the rows of a run without failures, as a multiset: a checkpoint writes its rows in any order."""
    previous: dict[str, str] = {}
    rows: Counter[str] = Counter()
    for word, value in produced:
        rows[f"pre:{previous.get(word, 'null')};current:{value.upper()}:::map"] += 1
        previous[word] = value
    return rows


def broken_chains(rows: Iterable[str]) -> list[str]:
    """Return the faults of the chains of all words, one line each.

    Reads only the rows. The values of a word must be numbered from 0 without a gap. The predecessor of each value must
    be the value one below it, and of the first value `null`.
    """
    faults: list[str] = []
    links: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for row in rows:
        match = _ROW.fullmatch(row)
        word, dash, number = match["current"].lower().rpartition("-") if match else ("", "", "")
        if match and dash and number.isdecimal():
            links[word].append((int(number), match["previous"]))
        else:
            faults.append(f"not a row of this job: {row!r}")
    return faults + [fault for word, chain in sorted(links.items()) for fault in _faults(word, sorted(chain))]


def _faults(word: str, chain: list[tuple[int, str]]) -> Iterator[str]:
    """Generate the faults of one chain: numbers and predecessors, in the order of the numbers."""
    if chain[0] != (0, "null"):
        yield f"{word}: begins with {chain[0][0]} after {chain[0][1]!r}"
    for (before, _), (number, previous) in pairwise(chain):
        if number != before + 1 or previous != f"{word}-{before}":
            yield f"{word}: {before} is followed by {number} after {previous!r}"

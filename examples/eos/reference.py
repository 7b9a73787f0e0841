"""What the example job must write, computed without Spark, Kafka or a database; and records to feed it with."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

WORDS = (
    *("anchor", "bridge", "candle", "desert", "engine", "forest", "garden", "harbor", "island", "jungle"),
    *("kettle", "lantern", "marble", "needle", "orchard", "pepper", "quarry", "river", "saddle", "thunder"),
    *("umbrella", "valley", "window", "yellow", "zebra", "box", "fox", "mixer", "taxi", "xylophone"),
)
"""Keys. Five contain an "x": about one record in six."""

_ROW = re.compile(r"pre:(?P<previous>.*);current:(?P<current>.*):::map")


def records(count: int, seed: int = 0) -> Iterator[tuple[str, str]]:
    """Keys and values in the order in which they are to be produced: `<word>-<n>`, n growing from 0 for each word."""
    numbers: Counter[str] = Counter()
    for word in random.Random(seed).choices(WORDS, k=count):
        yield word, f"{word}-{numbers[word]}"
        numbers[word] += 1


def expected_rows(produced: Iterable[tuple[str, str]]) -> Counter[str]:
    """The rows of a run without failures, as a multiset: a checkpoint's rows may be written in any order."""
    previous: dict[str, str] = {}
    rows: Counter[str] = Counter()
    for word, value in produced:
        rows[f"pre:{previous.get(word, 'null')};current:{value.upper()}:::map"] += 1
        previous[word] = value
    return rows


def one_chain(values: Iterable[str]) -> list[str]:
    """Return the rows of `pipeline-flink.yaml` for these values of one partition, in their order."""
    linked = ["", *values]
    return [f"pre:{previous};current:{value.upper()}:::map" for previous, value in pairwise(linked)]


def broken_links(rows: Sequence[str]) -> list[str]:
    """Return the faults of one chain, one line each: a row whose `pre` is not the `current` of the row before it.

    Reads only the rows. A lost row, a repeated row and two exchanged rows are faults.
    """
    faults: list[str] = []
    expected = ""
    for number, row in enumerate(rows, 1):
        match = _ROW.fullmatch(row)
        if match is None:
            faults.append(f"row {number} is not a row of this job: {row!r}")
            continue
        if match["previous"].upper() != expected:
            faults.append(f"row {number} follows {expected!r}, but has the predecessor {match['previous']!r}")
        expected = match["current"]
    return faults


def broken_chains(rows: Iterable[str]) -> list[str]:
    """What is wrong with the chain of a word, one line each; empty if every row follows the one before it.

    Looks at the rows alone, not at what was produced: the values of a word must be numbered from 0 without a gap, and
    the predecessor of each must be the value one below it, of the first `null`.
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
    """`chain`: numbers and predecessors, in order of the numbers."""
    if chain[0] != (0, "null"):
        yield f"{word}: begins with {chain[0][0]} after {chain[0][1]!r}"
    for (before, _), (number, previous) in pairwise(chain):
        if number != before + 1 or previous != f"{word}-{before}":
            yield f"{word}: {before} is followed by {number} after {previous!r}"

"""The rows that `pipeline-flink.yaml` must write: computed without Spark, Kafka or a database."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

_ROW = re.compile(r"pre:(?P<previous>.*);current:(?P<current>.*):::map")


def one_chain(values: Iterable[str]) -> list[str]:
    """Return the rows for these values of one partition, in their order."""
    linked = ["", *values]
    return [f"pre:{previous};current:{value.upper()}:::map" for previous, value in pairwise(linked)]


def broken_links(rows: Sequence[str]) -> list[str]:
    """Return the faults of the chain, one line each: a row whose `pre` is not the `current` of the row before it.

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

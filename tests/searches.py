"""Explorations that take long, and which part of them a run takes.

A test that is marked `search(seconds)` explores many worlds, or the memory that many rows or large ones need. All of
them together take more than a quarter of an hour. With `--searches none` (`scripts/test`) a run takes those tests alone
that are not marked, and with `--searches some` (`scripts/test --more`) marked ones of a fifth of that time, which its
seed chooses, and the mutants of `tests/mutants/test_sample.py`. Who changes the protocol, its model or its simulation
runs all of them, and who changes how a format reads its records runs those of the format.

Hypothesis tries a third of its examples, new ones in each run, and all of them with `EOS_MATRIX_SEED=all`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pytest

from integration_tests.harness.rotation import seed_of_run

PART: Final = 1 / 5
OF_SUITES_S: Final = {"test_a_million_rows": 5.0, "test_a_million_values": 9.0}
"""Tests of `eos.testing` that are searches in this project, by name. In other projects they run each time."""
MARKERS: Final = (
    "search(seconds): the test explores worlds or memory, so long on an idle core; see tests/searches.py",
    "mutant: the test breaks the product, and takes seconds for it; see tests/searches.py",
)


def marked(names: Iterable[str], long_s: Mapping[str, float]) -> Iterator[Any]:
    """Yield the parameters of a test, with a mark for each of these that take long."""
    for name in names:
        marks = [pytest.mark.search(long_s[name])] if name in long_s else []
        yield pytest.param(name, marks=marks, id=name)


def of_run(seconds: Mapping[str, float], seed: int) -> set[str]:
    """Return the searches that a run takes: those that fit, in the order of the seed. The first always does."""
    order = sorted(seconds)
    random.Random(seed).shuffle(order)
    left_s = sum(seconds.values()) * PART
    taken: set[str] = set()
    for name in order:
        if not taken or seconds[name] <= left_s:
            taken.add(name)
            left_s -= seconds[name]
    return taken


def examples(number: int) -> int:
    """Return how many of so many examples Hypothesis tries in this run."""
    return number if seed_of_run() is None else math.ceil(number / 3)

"""Which pairs of sink and point a run tries, and which cases of a test: all, or a part that a seed chooses."""

from __future__ import annotations

import math
import os
import random
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Final

SEED: Final = "EOS_MATRIX_SEED"
"""Environment variable: a number repeats the choice of another run, `all` takes every pair."""

_MANY: Final = 6
"""Cases of one test, of which a run takes a third. Of fewer it takes all."""


def left_out_cases(tests: Mapping[str, Collection[str]], seed: str) -> set[str]:
    """Return the cases that a run leaves out, of these tests and their cases: two thirds where there are many."""
    left: set[str] = set()
    for test, cases in tests.items():
        if len(cases) >= _MANY:
            left.update(random.Random(f"{seed} {test}").sample(sorted(cases), len(cases) - math.ceil(len(cases) / 3)))
    return left


def rotated(points: Mapping[str, Sequence[str]], each: int, seed: int) -> dict[str, list[str]]:
    """For each sink so many of its points, in their own order; every point is somebody's.

    Raises ValueError if that cannot be.
    """
    chance = random.Random(seed)
    chosen: dict[str, list[str]] = {sink: [] for sink in points}
    everyone = sorted({point for some in points.values() for point in some})
    chance.shuffle(everyone)
    for point in sorted(everyone, key=lambda point: sum(point in own for own in points.values())):
        free = [sink for sink, own in points.items() if point in own and len(chosen[sink]) < each]
        if not free:
            message = f"no room for {point}"
            raise ValueError(message)
        chosen[chance.choice(free)].append(point)
    for sink, own in points.items():
        others = [point for point in own if point not in chosen[sink]]
        chosen[sink] += chance.sample(others, each - len(chosen[sink]))
        chosen[sink].sort(key=own.index)
    return chosen


def seed_of_run() -> int | None:
    """Of all processes of this run; None: all pairs. Chosen here, unless the environment says it."""
    found = os.environ.setdefault(SEED, str(secrets.randbelow(10_000)))
    return None if found == "all" else int(found)

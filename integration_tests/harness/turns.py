"""Which of the long tests a run of CI takes, and the record of when each of them passed last.

A long test starts Spark several times. All of them together take more than an hour, so that a run of CI takes a part:

1. Of each file the test that has waited longest. A file is about one subject, so every subject is met by the very run
   that lands a change. Choosing by imports would not help: nearly every long test runs a whole pipeline, and so reaches
   nearly every module of the product.
2. Then those that have waited longest, over all files, until the time is used up.

A test waits since the revision on which it last passed, counted in commits. `long_tests.json` holds these revisions and
the tests' durations. A run of all long tests outside CI writes it (`EOS_MATRIX_SEED=all`), and whoever made that run
commits it. CI cannot commit; so tests that have waited equally long are taken in an order that the seed gives.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Final

RECORD: Final = Path(__file__).parents[1] / "long_tests.json"
BUDGET_S: Final = 3_000.0
"""Durations of the tests that CI takes, added up. They were measured with three tests at a time on two cores, and so
take about a third of this."""

_UNKNOWN_S: Final = 60.0  # for a test that the record does not have
_NEVER: Final = 1_000_000  # commits that a test has waited which has never passed, or on an unknown revision


@dataclass(frozen=True, slots=True)
class Passed:
    """The last time that a long test passed."""

    revision: str
    duration_s: float


def turn(names: Collection[str], passed: Mapping[str, Passed], waited: Mapping[str, int], seed: int) -> set[str]:
    """Return the tests that a run takes of these node ids: one of each file, and more as long as there is time.

    `waited`: commits since the test last passed, by node id; one that is missing has never passed.
    """
    order = sorted(names)
    random.Random(seed).shuffle(order)
    order.sort(key=lambda name: -waited.get(name, _NEVER))
    first_of_files = {name.partition("::")[0]: name for name in reversed(order)}
    taken = set(first_of_files.values())
    left_s = BUDGET_S - sum(_duration_s(name, passed) for name in taken)
    for name in order:
        if name not in taken and _duration_s(name, passed) <= left_s:
            taken.add(name)
            left_s -= _duration_s(name, passed)
    return taken


def _duration_s(name: str, passed: Mapping[str, Passed]) -> float:
    return passed[name].duration_s if name in passed else _UNKNOWN_S


def read_passed(path: Path = RECORD) -> dict[str, Passed]:
    """Return when each long test passed last, by node id; nothing without a record."""
    if not path.exists():
        return {}
    return {name: Passed(**each) for name, each in json.loads(path.read_text()).items()}


def write_passed(durations_s: Mapping[str, float], revision: str, path: Path = RECORD) -> None:
    """Note that these tests passed on this revision. Tests of files that are gone are forgotten."""
    now = {name: Passed(revision, round(duration_s, 1)) for name, duration_s in durations_s.items()}
    project = RECORD.parents[1]
    found = {n: each for n, each in {**read_passed(path), **now}.items() if (project / n.partition("::")[0]).exists()}
    path.write_text(json.dumps({name: asdict(found[name]) for name in sorted(found)}, indent=1) + "\n")


def clean_revision() -> str:
    """Return the commit that the work tree is of; nothing where it has changes, or is no work tree of git's."""
    return "" if _git("status", "--porcelain", "--untracked-files=no") else _git("rev-parse", "HEAD")


def commits_since(passed: Mapping[str, Passed]) -> dict[str, int]:
    """Return how many commits each test has waited. A revision that this checkout does not have is a long wait."""
    return {name: _commits_since(each.revision) for name, each in passed.items()}


@cache
def _commits_since(revision: str) -> int:
    counted = _git("rev-list", "--count", f"{revision}..HEAD")
    return int(counted) if counted else _NEVER


def _git(*arguments: str) -> str:
    """Return what git prints, without the last line's end; nothing where it fails (no git, no checkout, no commit)."""
    command: Sequence[str] = ["git", "-C", str(RECORD.parent), *arguments]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return ended.stdout.strip() if ended.returncode == 0 else ""

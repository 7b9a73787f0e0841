"""Which of the long tests a run takes, and the record of when each of them passed last.

A long test starts Spark several times. All of them together take hours, so that a run takes a part (`--in-turns`, which
`scripts/test` sets unless it is told `--all`):

1. Fault tests (fault_tests.py) until the run takes a quarter of all fault tests, whatever time that needs. Those that
   are not long always run, and count. Short ones are preferred: of two tests of which one takes twice as long, the
   shorter one comes first eight times in nine.
2. Of each further file the test that has waited longest, until the time is used up. A file is about one subject.
3. Then the tests that have waited longest, over all files, until the time is used up.
4. A tenth of the time goes to other tests in the order of the seed, whatever they have waited. At least one is taken,
   even if the rules before have used up the time.

The time is what the tests that always run leave of the run's time (`--run-s`), by the record of `durations.json`.

A test waits since the revision on which it last passed, counted in commits. Waits within a factor of two count as
equal. `long_tests.json` holds these revisions and the tests' durations. A run of all long tests writes it
(`scripts/test --all`), and whoever made that run commits it. CI cannot commit, so rules 2 and 3 prefer the same tests
until then: first those without a record, then those with the oldest revision. Tests that have waited equally long are
taken in the order of the seed. Rule 4 gives every test a chance in every run, so that none is left out for ever.

The choice is among the tests that `-m` and `-k` leave.

A second run with the same seed takes further fault tests, until both have taken half of them (`--more`). CI makes both.
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
RUN_S: Final = 1_900.0
"""Durations of the tests of a run, added up. They are measured with three tests at a time on two cores, and so take
about a third of this."""

FIRST: Final = 1 / 4
BOTH: Final = 1 / 2
"""The parts of all fault tests that a run takes, and that it takes together with the second one."""

_SHORT_S: Final = 10.0  # a shorter test is preferred no further
_FOR_SHORT: Final = 3
"""The power of its duration with which a fault test is less likely to come first."""
_UNKNOWN_S: Final = 120.0  # for a test that the record does not have; the mean of the others is 80 s
_NEVER: Final = 1_000_000  # commits that a test has waited which has never passed, or on an unknown revision


@dataclass(frozen=True, slots=True)
class Passed:
    """The last time that a long test passed."""

    revision: str
    duration_s: float


def turn(
    names: Collection[str],
    passed: Mapping[str, Passed],
    waited: Mapping[str, int],
    seed: int,
    faults: Collection[str] = (),
    faults_wanted: int = 0,
    budget_s: float = RUN_S,
) -> set[str]:
    """Return the tests that a run takes of these node ids, by the four rules above.

    `waited`: commits since the test last passed, by node id; one that is missing has never passed.
    `faults`: those of the names that are fault tests, of which at least `faults_wanted` are taken.
    """
    by_seed, cheap = _orders(names, passed, seed)
    by_wait = sorted(by_seed, key=lambda name: -waited.get(name, _NEVER).bit_length())
    taken = set([name for name in cheap if name in faults][:faults_wanted])
    by_seed_s = budget_s / 10
    left_s = budget_s - by_seed_s - sum(_duration_s(name, passed) for name in taken)
    firsts: dict[str, str] = {}
    for name in by_wait:
        firsts.setdefault(_file(name), name)
    met = {_file(name) for name in taken}
    left_s -= _take(taken, [name for file, name in firsts.items() if file not in met], left_s, passed)
    left_s -= _take(taken, by_wait, left_s, passed)
    _take(taken, by_seed, max(left_s, 0.0) + by_seed_s, passed, at_least=1)
    return taken


def more_faults(
    names: Collection[str],
    passed: Mapping[str, Passed],
    taken: Collection[str],
    seed: int,
    faults: Collection[str],
    faults_wanted: int,
) -> set[str]:
    """Return the fault tests that the second run takes, with which `faults_wanted` of these are taken.

    `names`, `passed`, `seed`, `faults`: as `turn` had them, which returned `taken`.
    """
    _, cheap = _orders(names, passed, seed)
    left = [name for name in cheap if name in faults and name not in taken]
    return set(left[: max(0, faults_wanted - len(set(faults).intersection(taken)))])


def _orders(names: Collection[str], passed: Mapping[str, Passed], seed: int) -> tuple[list[str], list[str]]:
    """Return the names in the order of the seed, and in one that prefers short tests."""
    chance = random.Random(seed)
    by_seed = sorted(names)
    chance.shuffle(by_seed)
    drawn = {name: chance.expovariate(max(_duration_s(name, passed), _SHORT_S) ** -_FOR_SHORT) for name in by_seed}
    return by_seed, sorted(drawn, key=drawn.__getitem__)


def _file(name: str) -> str:
    return name.partition("::")[0]


def _take(
    taken: set[str], order: Sequence[str], limit_s: float, passed: Mapping[str, Passed], at_least: int = 0
) -> float:
    """Add tests that fit within `limit_s`, and return their duration. So many are added even if they do not fit."""
    added_s = 0.0
    for place, name in enumerate([each for each in order if each not in taken]):
        if place < at_least or added_s + _duration_s(name, passed) <= limit_s:
            taken.add(name)
            added_s += _duration_s(name, passed)
    return added_s


def _duration_s(name: str, passed: Mapping[str, Passed]) -> float:
    return passed[name].duration_s if name in passed else _UNKNOWN_S


def read_passed(path: Path = RECORD) -> dict[str, Passed]:
    """Return when each long test passed last, by node id; nothing without a record."""
    if not path.exists():
        return {}
    return {name: Passed(**each) for name, each in json.loads(path.read_text()).items()}


def write_passed(durations_s: Mapping[str, float], revision: str, path: Path = RECORD) -> None:
    """Note that these tests passed on this revision. Tests of files that are gone are forgotten."""
    now = {plain_name(name): Passed(revision, round(duration_s, 1)) for name, duration_s in durations_s.items()}
    project = RECORD.parents[1]
    found = {n: each for n, each in {**read_passed(path), **now}.items() if (project / n.partition("::")[0]).exists()}
    path.write_text(json.dumps({name: asdict(found[name]) for name in sorted(found)}, indent=1) + "\n")


def plain_name(name: str) -> str:
    """Return the node id without `@group`, which pytest-xdist adds to keep the tests of a group in one process."""
    parameters = name.rfind("]") + 1
    return name[:parameters] + name[parameters:].partition("@")[0]


def clean_revision() -> str:
    """Return the commit of the work tree; nothing if it has changes, or if git fails.

    A change of the records does not count: one run may write them, and the next one adds to them.
    """
    others = [f":(exclude){name}" for name in (RECORD.name, "durations.json")]
    changes = _git("status", "--porcelain", "--untracked-files=no", "--", ":/", *others)
    return (_git("rev-parse", "HEAD") or "") if changes == "" else ""


def commits_since(passed: Mapping[str, Passed]) -> dict[str, int]:
    """Return how many commits each test has waited. A revision that this checkout does not have is a long wait."""
    return {name: _commits_since(each.revision) for name, each in passed.items()}


@cache
def _commits_since(revision: str) -> int:
    counted = _git("rev-list", "--count", f"{revision}..HEAD") if revision else None
    return int(counted) if counted else _NEVER


def _git(*arguments: str) -> str | None:
    """Return what git prints, without the last line's end; None if it fails (no git, no checkout, no commit)."""
    command: Sequence[str] = ["git", "-C", str(RECORD.parent), *arguments]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return ended.stdout.strip() if ended.returncode == 0 else None

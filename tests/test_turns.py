"""Which long tests a run of CI takes: one of each file, then those that have waited longest while there is time."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Literal, cast

import pytest

from integration_tests import report
from integration_tests.harness import turns
from integration_tests.harness.rotation import SEED
from integration_tests.harness.turns import BUDGET_S, Passed, commits_since, read_passed, turn, write_passed

NAMES = [f"integration_tests/test_{file}.py::test_{number}" for file in "abcd" for number in range(10)]
EQUAL = dict.fromkeys(NAMES, 5)


def lasting(duration_s: float) -> dict[str, Passed]:
    return {name: Passed("revision", duration_s) for name in NAMES}


def test_one_of_each_file_even_where_there_is_no_time() -> None:
    taken = turn(NAMES, lasting(BUDGET_S), EQUAL, seed=1)
    assert sorted(name[:24] for name in taken) == [f"integration_tests/test_{file}" for file in "abcd"]


def test_as_many_as_there_is_time_for() -> None:
    assert len(turn(NAMES, lasting(BUDGET_S / 20), EQUAL, seed=1)) == 20
    assert turn(NAMES, lasting(1.0), EQUAL, seed=1) == set(NAMES)


def test_those_that_have_waited_longest_come_first() -> None:
    waited = {name: int(name[-1]) for name in NAMES}  # the tests 9 longest
    assert {name[-1] for name in turn(NAMES, lasting(BUDGET_S / 8), waited, seed=1)} == {"9", "8"}
    del waited[NAMES[0]]  # it has never passed
    assert NAMES[0] in turn(NAMES, lasting(BUDGET_S), waited, seed=1)


def test_those_that_have_waited_equally_long_take_turns_by_the_seed() -> None:
    few = lasting(BUDGET_S / 10)
    taken = [turn(NAMES, few, EQUAL, seed) for seed in range(50)]
    assert set().union(*taken) == set(NAMES)
    assert turn(NAMES[::-1], few, EQUAL, 7) == taken[7]


def test_the_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "long_tests.json"
    assert read_passed(path) == {}
    here = "integration_tests/test_golden.py::test_it"
    write_passed({here: 12.34, "integration_tests/test_that_is_gone.py::test_it": 1.0}, "abc", path)
    assert read_passed(path) == {here: Passed("abc", 12.3)}
    write_passed({here: 2.0}, "def", path)
    assert read_passed(path) == {here: Passed("def", 2.0)}


def test_an_unknown_revision_is_a_long_wait() -> None:
    head = turns._git("rev-parse", "HEAD")
    waited = commits_since({"new": Passed(head, 1.0), "unknown": Passed("0" * 40, 1.0)})
    assert (waited["new"], waited["unknown"]) == (0, 1_000_000)


@pytest.mark.parametrize("reported", [["setup"], ["setup", "teardown"], ["setup", "call", "teardown"]])
def test_a_test_that_was_cut_off_or_only_set_up_has_not_passed(
    reported: list[Literal["setup", "call", "teardown"]], monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: dict[str, float] = {}
    monkeypatch.setenv(SEED, "all")
    monkeypatch.setattr(report, "clean_revision", lambda: "abc")
    monkeypatch.setattr(report, "write_passed", lambda passed, _revision: noted.update(passed))
    plugin = report.Report(require_all=False)
    for when in reported:
        properties = [(report._RAN_ON, "no services")]
        plugin.pytest_runtest_logreport(
            pytest.TestReport(
                "t", ("t", 0, "t"), {"in_turns": 1}, "passed", None, when, duration=2, user_properties=properties
            )
        )
    plugin.pytest_sessionfinish(cast("pytest.Session", SimpleNamespace(config=object())))
    assert noted == ({"t": 6.0} if "call" in reported else {})

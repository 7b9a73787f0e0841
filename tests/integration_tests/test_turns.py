"""Which long tests a run takes: a quarter of the fault tests, one of each file, and others, while there is time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Literal, cast

import pytest

from integration_tests import report
from integration_tests.harness import turns
from integration_tests.harness.rotation import SEED
from integration_tests.harness.turns import (
    RUN_S,
    Passed,
    clean_revision,
    commits_since,
    more_faults,
    read_passed,
    turn,
    write_passed,
)

NAMES = [f"integration_tests/test_{file}.py::test_{number}" for file in "abcd" for number in range(10)]
EQUAL = dict.fromkeys(NAMES, 5)


def lasting(duration_s: float) -> dict[str, Passed]:
    return {name: Passed("revision", duration_s) for name in NAMES}


def test_one_even_where_there_is_no_time() -> None:
    assert len(turn(NAMES, lasting(RUN_S), EQUAL, seed=1)) == 1


def test_one_of_each_file_before_a_second_one_of_any() -> None:
    taken = turn(NAMES, lasting(RUN_S / 6), EQUAL, seed=1)
    assert {name[:24] for name in taken} == {f"integration_tests/test_{file}" for file in "abcd"}
    few = turn(NAMES, lasting(RUN_S / 6), EQUAL, 1, [name for name in NAMES if "test_a" in name], 2)
    assert sorted(name[23] for name in few if "test_a" in name)[:2] == ["a", "a"]
    assert {name[23] for name in few} == set("abcd"), "a file with fault tests has had its turn"


def test_short_fault_tests_come_more_often() -> None:
    passed = {name: Passed("revision", 100.0 if int(name[-1]) < 5 else 50.0) for name in NAMES}
    first = [turn(NAMES, passed, EQUAL, seed, set(NAMES), 1, budget_s=0.0) for seed in range(400)]
    taken = [name for each in first for name in each]
    long, short = (sum(int(name[-1]) in group for name in taken) for group in (range(5), range(5, 10)))
    assert short > 1.2 * long > 0, "one by cost, and three whatever they cost"


def test_waits_within_a_factor_of_two_are_equal() -> None:
    """A record that was written in two runs puts no test last for ever."""
    waited = {name: 280 if "test_a" in name else 300 for name in NAMES}
    few = lasting(RUN_S / 10)
    assert set().union(*(turn(NAMES, few, waited, seed) for seed in range(50))) == set(NAMES)


def test_the_one_that_has_waited_longest_is_taken_after_one_of_each_file() -> None:
    waited = {name: {"0": 16, "1": 8}.get(name[-1], 1) if "test_a" in name else 1 for name in NAMES}
    for seed in range(20):
        taken = turn(NAMES, lasting(RUN_S / 6), waited, seed)
        assert {f"integration_tests/test_a.py::test_{number}" for number in "01"} <= taken


@pytest.mark.parametrize("duration_s", [1.0, RUN_S / 8, 2 * RUN_S])
def test_no_test_is_left_out_for_ever(duration_s: float) -> None:
    """CI records nothing: some tests stay without a record, and others stay those that have waited longest."""
    passed = {name: each for name, each in lasting(duration_s).items() if int(name[-1]) > 1}
    waited = {name: 2 ** int(name[-1]) for name in passed}
    taken = [turn(NAMES, passed, waited, seed) for seed in range(300)]
    assert set().union(*taken) == set(NAMES)


def test_as_many_as_there_is_time_for() -> None:
    assert len(turn(NAMES, lasting(RUN_S / 20), EQUAL, seed=1)) == 20
    assert turn(NAMES, lasting(1.0), EQUAL, seed=1) == set(NAMES)


def test_those_that_have_waited_longest_come_first() -> None:
    waited = {name: 2 ** int(name[-1]) for name in NAMES}  # the tests 9 longest
    taken = [name[-1] for name in turn(NAMES, lasting(RUN_S / 8), waited, seed=1)]
    assert (len(taken), taken.count("9"), taken.count("8")) == (8, 4, 3)  # one by the seed alone
    del waited[NAMES[0]]  # it has never passed
    assert NAMES[0] in turn(NAMES, lasting(RUN_S / 8), waited, seed=1)


def test_fault_tests_are_taken_whatever_time_they_need() -> None:
    faults = {name for name in NAMES if name[-1] in "01234"}
    for seed in range(20):
        assert len(faults & turn(NAMES, lasting(RUN_S), EQUAL, seed, faults, 10)) >= 10
    assert turn(NAMES, lasting(RUN_S), EQUAL, 1, faults, 0) == turn(NAMES, lasting(RUN_S), EQUAL, 1)


def test_a_second_run_takes_what_is_missing_of_the_fault_tests() -> None:
    faults = {name for name in NAMES if name[-1] in "01234"}
    for seed in range(20):
        first = turn(NAMES, lasting(RUN_S), EQUAL, seed, faults, 5)
        second = more_faults(NAMES, lasting(RUN_S), first, seed, faults, 10)
        assert second <= faults - first
        assert len(faults & first) + len(second) == 10
    assert more_faults(NAMES, lasting(RUN_S), NAMES, 1, faults, 10) == set()


def test_those_that_have_waited_equally_long_take_turns_by_the_seed() -> None:
    few = lasting(RUN_S / 10)
    taken = [turn(NAMES, few, EQUAL, seed) for seed in range(50)]
    assert set().union(*taken) == set(NAMES)
    assert turn(NAMES[::-1], few, EQUAL, 7) == taken[7]


def test_the_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "long_tests.json"
    assert read_passed(path) == {}
    here = "integration_tests/test_golden.py::test_it"
    write_passed({here: 12.34, "integration_tests/test_that_is_gone.py::test_it": 1.0}, "abc", path)
    assert read_passed(path) == {here: Passed("abc", 12.3)}
    write_passed({f"{here}@copied-kafka": 2.0}, "def", path)  # as pytest-xdist names it
    assert read_passed(path) == {here: Passed("def", 2.0)}
    write_passed({f"{here}[a@b]@copied-kafka": 2.0}, "def", path)
    assert read_passed(path) == {here: Passed("def", 2.0), f"{here}[a@b]": Passed("def", 2.0)}


def test_an_unknown_revision_is_a_long_wait() -> None:
    head = turns._git("rev-parse", "HEAD")
    assert head
    waited = commits_since({"new": Passed(head, 1.0), "unknown": Passed("0" * 40, 1.0), "none": Passed("", 1.0)})
    assert waited == {"new": 0, "unknown": 1_000_000, "none": 1_000_000}


def test_a_revision_is_clean_if_git_says_so_and_only_the_record_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "integration_tests"
    folder.mkdir()
    monkeypatch.setattr(turns, "RECORD", folder / "long_tests.json")
    assert clean_revision() == ""  # no work tree
    turns._git("init", "-q", str(tmp_path))
    code, record = tmp_path / "code.py", folder / "long_tests.json"
    code.touch()
    record.touch()
    turns._git("add", str(tmp_path))
    turns._git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "code")
    head = turns._git("rev-parse", "HEAD")
    assert head
    assert clean_revision() == head
    record.write_text("{}")
    assert clean_revision() == head
    code.write_text("changed")
    assert clean_revision() == ""
    code.write_text("")
    (tmp_path / ".git" / "index").write_text("damaged")
    assert clean_revision() == ""


def _collected(folder: Path, content: str, *arguments: str) -> list[str]:
    """Return the node ids that a run takes of one module with this content, by this project's hooks."""
    hooks = "pytest_addoption, pytest_collection_modifyitems, pytest_configure"
    (folder / "conftest.py").write_text(f"from integration_tests.conftest import {hooks}\n")
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_long.py").write_text(content)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--in-turns", *arguments]
    environment = {**os.environ, SEED: "1", "PYTHONPATH": str(Path(turns.__file__).parents[2]), "CI": ""}
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return [line for line in ended.stdout.splitlines() if line.startswith("test_long.py::")]


def test_only_tests_that_m_leaves_take_time(tmp_path: Path) -> None:
    content = (
        "import pytest\npytestmark = pytest.mark.in_turns\n"
        "@pytest.mark.any_server\n@pytest.mark.parametrize('number', range(200))\ndef test_a(number): ...\n"
        "@pytest.mark.parametrize('number', range(10))\ndef test_b(number): ...\n"
        "@pytest.mark.parametrize('kind', ['postgresql'])\ndef test_c(kind): ...\n"
    )
    # A test without a record counts for 120 s.
    assert len(_collected(tmp_path, content)) == RUN_S // 120
    found = _collected(tmp_path, content, "-m", "not any_server")
    assert found == [f"test_long.py::test_b[{number}]" for number in range(10)]


def test_a_run_takes_a_quarter_of_the_fault_tests_and_a_second_one_as_many(tmp_path: Path) -> None:
    """200 are long and take 200 minutes; of the other 4 nobody is left out."""
    long = "@pytest.mark.in_turns\n@pytest.mark.parametrize('number', range(100))\n"
    content = (
        "import pytest\n"
        "def stop_it(process): process.kill()\n"
        "def look_at_it(process): process.wait()\n"
        f"{long}def test_long(number): stop_it(number)\n"
        f"{long}def test_look(number): look_at_it(number)\n"
        "@pytest.mark.parametrize('number', range(4))\ndef test_short(number): stop_it(number)\n"
    )
    first = Counter(name.split("::")[1].partition("[")[0] for name in _collected(tmp_path, content))
    assert first["test_short"] == 4
    assert 104 / 4 - 4 <= first["test_long"] < 104 / 2 - 4
    assert 1 <= first["test_look"] < 10
    second = Counter(name.split("::")[1].partition("[")[0] for name in _collected(tmp_path, content, "--more"))
    assert second == {"test_long": 104 / 2 - 4 - first["test_long"]}


def test_a_run_takes_a_third_of_the_cases_of_a_test_but_all_fault_tests_that_are_short(tmp_path: Path) -> None:
    taken = _collected(
        tmp_path,
        "import pytest\n"
        "class Each:\n"
        "    @pytest.mark.parametrize('number', range(2))\n"
        "    def test_it(self, number): ...\n"
        "class TestOne(Each): ...\nclass TestTwo(Each): ...\nclass TestThree(Each): ...\n"
        "@pytest.mark.parametrize('number', range(12))\ndef test_fault(process, number): process.kill()\n"
        "@pytest.mark.parametrize('number', range(5))\ndef test_few(number): ...\n",
    )
    assert Counter(name.split("::")[-1].partition("[")[0] for name in taken) == {
        "test_it": 2,
        "test_fault": 12,
        "test_few": 5,
    }


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


def test_the_tests_of_a_group_run_in_one_process(tmp_path: Path) -> None:
    """Tests that replace a server's data rely on it; a release of pytest once broke it without a word."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_grouped.py").write_text(
        "import os, pytest\n"
        "@pytest.fixture(params=[pytest.param(0, marks=pytest.mark.xdist_group('one server'))])\n"
        "def server(request): ...\n"
        "@pytest.mark.parametrize('number', range(12))\n"
        "def test_it(server, number): open(f'worker-{os.environ[\"PYTEST_XDIST_WORKER\"]}', 'a').write('.')\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup"]
    subprocess.run(command, cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    assert [path.read_text() for path in tmp_path.glob("worker-*")] == ["." * 12]

"""The list of what a run of CI leaves out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from integration_tests import left_out
from integration_tests.harness import turns
from integration_tests.harness.rotation import SEED
from integration_tests.harness.targets import ALL, PLACES, TARGETS, case_id, points_of, points_of_run
from integration_tests.left_out import CASE, FAULT, FILE, FIRST, IMAGE, LONG, MORE, TIME, Check, Run, listing, read

_MATRIX = "integration_tests/test_matrix.py::test_killed"
_CONTENT = """
import pytest

def act(process): process.kill()

@pytest.mark.in_turns
@pytest.mark.parametrize("number", range(60))
def test_long(number): ...

@pytest.mark.in_turns
@pytest.mark.parametrize("number", range(60))
def test_killed(number): act

@pytest.mark.image
def test_image(): ...

def test_not_here(): pytest.skip("not applicable: no such server")

def test_it(): ...
"""


def _run(folder: Path, processes: str, *runs: tuple[str, ...]) -> Path:
    """Run the tests above, once with each of these options, and return the file that lists the others."""
    hooks = "pytest_addoption, pytest_collection_modifyitems, pytest_configure, pytest_runtest_protocol"
    (folder / "conftest.py").write_text(f"from integration_tests.conftest import {hooks}\n")
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_some.py").write_text(_CONTENT)
    file = folder / "left-out.jsonl"
    root = str(Path(turns.__file__).parents[2])
    environment = {**os.environ, SEED: "1", "PYTHONPATH": root, "CI": "", FILE: str(file)}
    command = [sys.executable, "-m", "pytest", "-q", "--in-turns", "--kind", "native", "-n", processes]
    for options in runs:
        ended = subprocess.run(
            [*command, *options], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stdout
    return file


@pytest.mark.parametrize("processes", ["0", "2"])
def test_two_runs_record_what_they_left_out(processes: str, tmp_path: Path) -> None:
    file = _run(tmp_path, processes, (), ("--more",))
    (run, more), checks = read(file)
    assert (run.services, run.seed, checks) == ("native", 1, [])
    assert run.skipped == {"test_some.py::test_not_here": "not applicable: no such server"}
    assert run.left_out["test_some.py::test_image"] == IMAGE
    groups = [
        run.left_out.get(f"test_some.py::test_{name}[{number}]") for name in ("killed", "long") for number in range(60)
    ]
    assert 1 <= groups.count(FAULT) <= 30, "half of the fault tests run"
    assert 1 <= groups.count(LONG) < 60
    assert sorted(more.ran) == sorted(name for name, group in run.left_out.items() if group == MORE)
    assert sorted([*run.ran, *run.skipped]) == sorted(name for name, group in more.left_out.items() if group == FIRST)
    assert len(more.ran) + len(more.left_out) == 123
    assert not any(MORE in line or FIRST in line for line in listing([run, more], []))
    (line,) = (line for line in listing([run], []) if line.startswith(MORE))
    command_of_more = "EOS_MATRIX_SEED=1 scripts/test --more --no-lint --integration --kind native"
    assert line == f"{MORE} on native services: {len(more.ran)} left out. To run them: {command_of_more}"
    assert len(run.ran) + len(run.left_out) + len(run.skipped) == 123
    assert "test_some.py::test_it" in run.ran
    assert {len(each.fault_tests) for each in (run, more)} == {60}
    assert "fault tests on native services: 30 ran of 60" in listing([run, more], [])


@pytest.mark.parametrize("processes", ["0", "2"])
def test_tests_for_which_the_time_is_over_are_left_out_and_named(processes: str, tmp_path: Path) -> None:
    file = _run(tmp_path, processes, ("--until", "1"), ("--until", str(time.time() + 3600)))
    (late, early), _ = read(file)
    assert late.ran == []
    assert {name for name, group in late.left_out.items() if group == TIME} == {*early.ran, *early.skipped}
    lines = list(listing([late], []))
    assert "fault tests on native services: 0 ran of 60, LESS THAN HALF" in lines
    (line,) = (line for line in lines if line.startswith(TIME))
    assert line.startswith(f"{TIME} on native services: {len(early.ran) + 1} left out. To run them: EOS_MATRIX_SEED=1")


def test_the_list_is_grouped() -> None:
    cases = {"c.py::TestOne::test_it[a::b]": CASE, "c.py::TestTwo::test_it[a::b]": CASE, "c.py::test_by": CASE}
    runs = [
        Run("native", 1, ["a.py::test_ran"], {"a.py::test_one": FAULT, "a.py::test_two[x]": FAULT}, {}),
        Run("native", 1, ["a.py::test_two[x]"], {"b.py::test_long": LONG, "b.py::test_image": IMAGE, **cases}, {}),
        Run("docker", 1, ["a.py::test_one"], {"a.py::test_two[x]": FAULT}, {"c.py::test_it": "no browser"}),
    ]
    native = "scripts/test --all --no-lint --integration --kind native"
    lines = [*listing(runs, [Check("audit", "no network", "scripts/audit")])]
    assert lines[:12] == [
        "fault tests on docker services: 1 left out. To run them: " + native.replace("native", "docker"),
        "  a.py: test_two[x]",
        "skipped on docker services: 1",
        "  c.py::test_it: no browser",
        f"fault tests on native services: 1 left out. To run them: {native}",
        "  a.py: test_one",
        "tests of the product's image on native services: 1 left out. To run them: make image",
        "  b.py: test_image",
        f"other long tests on native services: 1 left out. To run them: {native}",
        "  b.py: test_long",
        f"cases of other tests on native services: 3 left out. To run them: {native}",
        "  c.py: test_it (2), test_by (1)",
    ]
    assert lines[-1] == "audit: no network. To run it: scripts/audit"


def test_kills_of_one_sink_that_are_left_out_are_named() -> None:
    pairs = sum(len(points_of(name)) for name in TARGETS) * len(PLACES)
    (head, *rest) = listing([Run("native", 5, [f"{_MATRIX}[{ALL}]", f"{_MATRIX}[sqlite upsert]"], {}, {})], [])
    assert head.startswith(f"kills of a pipeline with one sink: {pairs - 1} left out. To run them: make matrix.")
    assert head.endswith("A pipeline with all sinks was killed at every point, with its location in a folder.")
    (in_a_bucket, *_) = listing([Run("native", 5, [f"{_MATRIX}[{ALL} in a bucket]"], {}, {})], [])
    assert in_a_bucket.endswith("A pipeline with all sinks was killed at every point, with its location in a bucket.")
    (in_containers, *_) = listing([Run("docker", 5, [f"{_MATRIX}[{ALL}]"], {}, {})], [])
    assert in_containers.endswith("A pipeline with all sinks WAS NOT killed at every point.")
    in_folder, in_bucket = (line for line in rest if "sqlite upsert" in line)
    (point,) = points_of_run(5)["sqlite upsert"]
    assert point not in in_folder
    assert in_folder.count(",") == len(points_of("upsert")) - 2
    assert in_bucket == f"  sqlite upsert in a bucket: {', '.join(points_of('upsert'))}"
    every = [f"{_MATRIX}[{case_id(name, place)}]" for name in (*TARGETS, ALL) for place in PLACES]
    assert list(listing([Run("native", None, every, {}, {})], [])) == []


def test_a_check_that_was_not_made_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FILE, str(tmp_path / "file"))
    left_out.note("audit", "no network", "scripts/audit --strict")
    assert json.loads((tmp_path / "file").read_text())["command"] == "scripts/audit --strict"
    assert read(tmp_path / "file") == ([], [Check("audit", "no network", "scripts/audit --strict")])
    assert read(tmp_path / "none") == ([], [])

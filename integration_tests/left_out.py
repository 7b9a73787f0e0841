"""Tests and checks that a run leaves out, with the commands that run them.

Each run of pytest appends a line of JSON to the file that `EOS_LEFT_OUT` names. `scripts/test` prints the list at its
end (`python -m integration_tests.left_out list`). `.ci/run` makes one list of several runs of `scripts/test`, with the
checks that it could not make (`python -m integration_tests.left_out note NAME REASON COMMAND`).
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Final

import pytest
import typer

from integration_tests.harness.rotation import seed_of_run
from integration_tests.harness.targets import ALL, PLACES, TARGETS, case_id, points_of, points_of_run
from integration_tests.harness.turns import plain_name

FILE: Final = "EOS_LEFT_OUT"
"""Environment variable: the file of a run. Without it, nothing is recorded."""

FAULT: Final = "fault tests"
LONG: Final = "other long tests"
CASE: Final = "cases of other tests"
IMAGE: Final = "tests of the product's image"
REGISTRY: Final = "tests of a schema registry"
MINIO: Final = "tests on MinIO"
CLOUDS: Final = "tests on servers of Google Cloud Storage's and Azure's protocols"
CHART: Final = "tests of the Helm chart"
NODE: Final = "tests on a node of Kubernetes"
SEARCH: Final = "long explorations of the protocol"
MUTANT: Final = "mutants of a run's sample"
FIRST: Final = "tests of a run without --more"
MORE: Final = "fault tests of a run with --more"
TIME: Final = "tests for which the time of the run was over"

_PLUGIN: Final = "left-out"
_LEFT_OUT: Final = "left out"
_FAULT_TESTS: Final = "fault tests"
"""Keys under which processes of pytest-xdist send the names to the process that records."""

_MATRIX: Final = "integration_tests/test_matrix.py::test_killed"
_OF_REGISTRY: Final = "EOS_PROVIDE_REGISTRY=… .venv/bin/python -m pytest integration_tests -m registry"
_OF_CLOUDS: Final = (
    ".venv/bin/python -m integration_tests.services build && "
    ".venv/bin/python -m pytest integration_tests -m 'google or azurite', with Go 1.26 and Node.js 20 on the PATH"
)
_OF_CHART: Final = (
    ".venv/bin/python -m integration_tests.services build && .venv/bin/python -m pytest integration_tests -m helm"
)
_ALL: Final = "scripts/test --all --no-lint --integration --kind {services}"
_OF_MORE: Final = "EOS_MATRIX_SEED={seed} scripts/test --more --no-lint --integration --kind {services}"
_COMMANDS: Final = {
    IMAGE: "make image",
    REGISTRY: _OF_REGISTRY,
    MINIO: ".venv/bin/python -m pytest integration_tests -m minio, with Go 1.24 or newer on the PATH",
    CLOUDS: _OF_CLOUDS,
    CHART: _OF_CHART,
    NODE: "make node, as root, with Go, and containerd and runc of a Docker engine on the PATH",
    SEARCH: "scripts/test --all --no-lint --unit",
    MUTANT: "scripts/test --more --no-lint --unit",
    FIRST: "EOS_MATRIX_SEED={seed} scripts/test --no-lint --integration --kind {services}",
    MORE: _OF_MORE,
    TIME: _OF_MORE,
}


@dataclass(frozen=True, slots=True)
class Check:
    """A check that could not be made."""

    name: str
    reason: str
    command: str


@dataclass(frozen=True, slots=True)
class Run:
    """One run of pytest."""

    services: str  # kind of the services; empty for the unit tests
    seed: int | None
    ran: list[str]
    left_out: dict[str, str]  # group, by node id
    skipped: dict[str, str]  # reason, by node id
    fault_tests: list[str] = field(default_factory=list)  # those that this run leaves out included


@dataclass(slots=True, eq=False)
class Recorder:
    """Pytest plugin that appends this run to the file. Hashable, because pytest keeps plugins in sets."""

    services: str
    path: Path | None
    _ran: set[str] = field(default_factory=set)
    _left_out: dict[str, str] = field(default_factory=dict)
    _skipped: dict[str, str] = field(default_factory=dict)
    _fault_tests: set[str] = field(default_factory=set)

    def leave_out(self, config: pytest.Config, groups: Mapping[str, str], fault_tests: Collection[str] = ()) -> None:
        """Note the tests that are left out, with their groups, by node id, and all fault tests.

        Called once the tests are collected, and for each test that is left out later.
        """
        self._left_out.update(groups)
        self._fault_tests.update(fault_tests)
        if (output := getattr(config, "workeroutput", None)) is not None:
            output.update({_LEFT_OUT: dict(self._left_out), _FAULT_TESTS: sorted(self._fault_tests)})

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """Take over what a process of pytest-xdist left out."""
        output = getattr(node, "workeroutput", {})
        self._left_out.update(output.get(_LEFT_OUT, {}))
        self._fault_tests.update(output.get(_FAULT_TESTS, ()))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that ran or was skipped."""
        name = plain_name(report.nodeid)
        if report.skipped and not hasattr(report, "wasxfail"):
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self._skipped[name] = reason.removeprefix("Skipped: ")
        elif report.when == "call":
            self._ran.add(name)

    def pytest_terminal_summary(self, config: pytest.Config) -> None:
        """Append this run to the file. Only the process that reports has a terminal."""
        if self.path is not None and not hasattr(config, "workerinput"):
            ran = sorted(self._ran - self._skipped.keys())
            faults = sorted(map(plain_name, self._fault_tests))
            _append(self.path, asdict(Run(self.services, seed_of_run(), ran, self._left_out, self._skipped, faults)))


def register(config: pytest.Config, services: str = "") -> None:
    """Add the plugin, or name the services of the one that the settings of other tests have added.

    The variable is removed, so that a run of pytest that a test starts records nothing.
    """
    if isinstance(found := config.pluginmanager.get_plugin(_PLUGIN), Recorder):
        found.services = found.services or services
    else:
        path = os.environ.pop(FILE, "")
        config.pluginmanager.register(Recorder(services, Path(path) if path else None), _PLUGIN)


def recorder(config: pytest.Config) -> Recorder:
    """Return the plugin."""
    found = config.pluginmanager.get_plugin(_PLUGIN)
    assert isinstance(found, Recorder)
    return found


def _append(path: Path, line: Mapping[str, object]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")


def read(path: Path) -> tuple[list[Run], list[Check]]:
    """Return the runs and the checks that a file has."""
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [Run(**each) for each in lines if "ran" in each], [Check(**each) for each in lines if "command" in each]


def listing(runs: Sequence[Run], checks: Sequence[Check]) -> Iterator[str]:
    """Return the lines that name what was left out, in groups. A test that ran in one run on its services ran."""
    for services in sorted({run.services for run in runs}):
        own = [run for run in runs if run.services == services]
        on = f" on {services} services" if services else ""
        ran = {name for run in own for name in run.ran}
        skipped = {name: reason for run in own for name, reason in run.skipped.items() if name not in ran}
        groups: defaultdict[str, list[str]] = defaultdict(list)
        for name, group in sorted({name: group for run in own for name, group in run.left_out.items()}.items()):
            if name not in ran and name not in skipped:
                groups[group].append(name)
        for group, names in groups.items():
            command = _COMMANDS.get(group, _ALL).format(services=services, seed=own[0].seed)
            yield f"{group}{on}: {len(names)} left out. To run them: {command}"
            yield from _by_file(names if group != CASE else _counted(names))
        if skipped:
            yield f"skipped{on or ' without services'}: {len(skipped)}"
            yield from (f"  {name}: {reason}" for name, reason in sorted(skipped.items()))
        if faults := {name for run in own for name in run.fault_tests}:
            few = ", LESS THAN HALF" if TIME in groups and 2 * len(faults & ran) < len(faults) else ""
            yield f"fault tests{on}: {len(faults & ran)} ran of {len(faults)}{few}"
    yield from _matrix(runs)
    for check in checks:
        yield f"{check.name}: {check.reason}. To run it: {check.command}"


def _matrix(runs: Sequence[Run]) -> Iterator[str]:
    """Return the points of the kill matrix at which no pipeline of one sink was killed."""
    killed = {
        (name, place, point)
        for run in runs
        for name, points in points_of_run(run.seed).items()
        for place in _places(run, name)
        for point in points
    }
    left = {
        case_id(name, place): [point for point in points_of(name) if (name, place, point) not in killed]
        for name in TARGETS
        for place in PLACES
    }
    if number := sum(map(len, left.values())):
        whole = [place for run in runs if _is_whole(run) for place in _places(run, ALL)]
        together = (
            f"was killed at every point, with its location {whole[0]}" if whole else "WAS NOT killed at every point"
        )
        yield (
            f"kills of a pipeline with one sink: {number} left out. To run them: make matrix. "
            f"A pipeline with all sinks {together}."
        )
        yield from (f"  {case}: {', '.join(points)}" for case, points in left.items() if points)


def _places(run: Run, name: str) -> list[str]:
    """Return the places of the location with which the run had this case."""
    return [place for place in PLACES if f"{_MATRIX}[{case_id(name, place)}]" in run.ran]


def _is_whole(run: Run) -> bool:
    """Return whether the points of the run's case with all sinks are every point."""
    return points_of_run(run.seed, run.services)[ALL] == points_of_run(None)[ALL]


def _counted(names: Iterable[str]) -> Iterator[str]:
    """Return the tests of these cases, each with the number of its cases."""
    counts = Counter(re.sub(r"::.*?(\w+)(\[.*)?$", r"::\1", plain_name(name), flags=re.DOTALL) for name in names)
    return (f"{test} ({count})" for test, count in counts.items())


def _by_file(names: Iterable[str]) -> Iterator[str]:
    files: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        file, _, test = name.partition("::")
        files[file].append(test)
    return (f"  {file}: {', '.join(tests)}" for file, tests in files.items())


app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@app.command()
def note(
    name: Annotated[str, typer.Argument(help="the check")],
    reason: Annotated[str, typer.Argument(help="why it was not made")],
    command: Annotated[str, typer.Argument(help="what makes it")],
) -> None:
    """Add a check that was not made."""
    _append(Path(os.environ[FILE]), asdict(Check(name, reason, command)))


@app.command("list")
def print_list() -> None:
    """Print what was left out."""
    print("\n".join(listing(*read(Path(os.environ[FILE])))) or "nothing")


if __name__ == "__main__":
    app()

"""The closing report: what each group of tests ran on, and what did not run and why."""

from __future__ import annotations

import platform
from collections import Counter, defaultdict
from collections.abc import Collection, Generator
from importlib.metadata import version
from typing import Final

import pytest

from integration_tests.harness.rotation import SEED, seed_of_run
from integration_tests.harness.turns import clean_revision, write_passed
from integration_tests.services import NoControlError, Services
from integration_tests.services.values import Server

_NOT_RUN: Final = "NOT RUN"
_RAN_ON: Final = "ran on"
"""Property of a test's report, which also crosses from a process of pytest-xdist to the one that tells it."""

_IN_ALL: Final = "fault tests in all"
"""What processes of pytest-xdist tell the one that reports, beside the reports of tests."""


class Report:
    """Pytest plugin; the fixtures `services` and `postgres` tell it what was found."""

    NOT_APPLICABLE = "not applicable"

    def __init__(self, *, require_all: bool) -> None:
        self.services: Services | None = None
        self.postgres: Server | None = None
        self._require_all = require_all
        self._ran: Counter[tuple[str, str]] = Counter()  # by file, and what it ran on
        self._not_run: list[tuple[str, str]] = []
        self._not_applicable: list[tuple[str, str]] = []
        self._fault_tests_ran: set[str] = set()
        self._fault_tests_in_all = 0
        self._long_passed_s: defaultdict[str, float] = defaultdict(
            float
        )  # by node id: seconds of set-up, call, tear-down
        self._long_called: set[str] = set()  # a run that is cut off, or only sets tests up, reports no call
        self._long_failed: set[str] = set()
        self._revision = clean_revision() if seed_of_run() is None else ""  # what HEAD is when the tests begin

    def count_fault_tests(self, config: pytest.Config, in_all: int) -> None:
        """Note how many there are, those that this run leaves out included. Called once the tests are collected."""
        self._fault_tests_in_all = in_all
        if (output := getattr(config, "workeroutput", None)) is not None:
            output[_IN_ALL] = in_all

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """Take over what a process of pytest-xdist has counted; all count the same."""
        self._fault_tests_in_all = getattr(node, "workeroutput", {}).get(_IN_ALL, self._fault_tests_in_all)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note what ran; turn NoControlError into NOT RUN, and NOT RUN into a failure where all is required."""
        report = yield
        if call.excinfo is not None and isinstance(call.excinfo.value, NoControlError):
            report.outcome = "skipped"
            report.longrepr = (str(item.path), 0, f"Skipped: {call.excinfo.value}")
        if self._require_all and (reason := _not_run(report)):
            report.outcome = "failed"
            report.longrepr = f"{_NOT_RUN}: {reason}"
        report.user_properties.append((_RAN_ON, self._servers(getattr(item, "fixturenames", ()))))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what ran and what did not, whichever process it ran in."""
        if "in_turns" in report.keywords:
            self._long_passed_s[report.nodeid] += report.duration
            if report.when == "call":
                self._long_called.add(report.nodeid)
            if not report.passed:
                self._long_failed.add(report.nodeid)
        if reason := _not_run(report):
            self._not_run.append((report.nodeid, reason))
        elif reason := _skipped(report):
            self._not_applicable.append((report.nodeid, reason.removeprefix(f"{self.NOT_APPLICABLE}: ")))
        elif report.when == "call":
            if "fault" in report.keywords:
                self._fault_tests_ran.add(report.nodeid)
            self._ran[report.nodeid.split("::")[0], str(dict(report.user_properties)[_RAN_ON])] += 1

    def pytest_report_header(self) -> str:
        """Name what every group runs on."""
        seed = seed_of_run()
        pairs = "every pair" if seed is None else f"pairs, and in turns a part of the long tests, by {SEED}={seed}"
        return f"Python {platform.python_version()}, Spark {version('pyspark')}; kill matrix: {pairs}"

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Record the long tests that passed, of a run that takes all of them, on a work tree without changes."""
        ended = self._long_called - self._long_failed
        passed = {name: each for name, each in self._long_passed_s.items() if name in ended}
        is_worker = hasattr(session.config, "workerinput")
        if passed and self._revision and not is_worker and clean_revision() == self._revision:
            write_passed(passed, self._revision)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print what ran, how many of the fault tests did, and what did not run."""
        if not (self._ran or self._not_run or self._not_applicable):
            return
        write = terminalreporter.write_line
        terminalreporter.section("what the tests ran on")
        for (group, servers), count in sorted(self._ran.items()):
            write(f"{group}: {count} on {servers}")
        write(f"fault tests: {len(self._fault_tests_ran)} ran of {self._fault_tests_in_all}")
        for title, entries in ((_NOT_RUN, self._not_run), (self.NOT_APPLICABLE.upper(), self._not_applicable)):
            for name, reason in entries:
                write(f"{title} {name}: {reason}")

    def _servers(self, fixtures: Collection[str]) -> str:
        servers = []
        if "services" in fixtures:
            found = self.services
            servers.append(
                f"{found.kafka}, {found.database} ({found.kind})" if found else "services that were not found"
            )
        if "postgres" in fixtures:
            servers.append(f"{self.postgres} (native)" if self.postgres else "PostgreSQL that was not found")
        return ", ".join(servers) or "no services"


def _skipped(report: pytest.TestReport) -> str:
    """Why; nothing if it was not."""
    if not report.skipped or hasattr(report, "wasxfail"):  # an expected failure did run
        return ""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")


def _not_run(report: pytest.TestReport) -> str:
    """Why it should have run and did not; nothing if it did, or need not."""
    text = str(report.longrepr)
    if report.failed and text.startswith(f"{_NOT_RUN}: "):
        return text.removeprefix(f"{_NOT_RUN}: ")
    reason = _skipped(report)
    return "" if reason.startswith(Report.NOT_APPLICABLE) else reason

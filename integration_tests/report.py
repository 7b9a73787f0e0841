"""The closing report: what each group of tests ran on, and what did not run and why."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Generator
from importlib.metadata import version

import pytest

from integration_tests.services import NoControlError, Services


class Report:
    """Pytest plugin; the `services` fixture tells it what was found."""

    NOT_APPLICABLE = "not applicable"

    def __init__(self, *, require_all: bool) -> None:
        self.services: Services | None = None
        self._require_all = require_all
        self._ran: Counter[tuple[str, bool]] = Counter()  # by file, and whether it used the services
        self._not_run: list[tuple[str, str]] = []
        self._not_applicable: list[tuple[str, str]] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note what ran; turn NoControlError into NOT RUN, and NOT RUN into a failure where all is required."""
        report = yield
        if call.excinfo is not None and isinstance(call.excinfo.value, NoControlError):
            report.outcome = "skipped"
            report.longrepr = (str(item.path), 0, f"Skipped: {call.excinfo.value}")
        # `wasxfail`: an expected failure did run.
        if report.skipped and not hasattr(report, "wasxfail"):
            self._note_skip(item, report)
        elif report.when == "call":
            self._ran[_group(item), "services" in getattr(item, "fixturenames", ())] += 1
        return report

    def pytest_report_header(self) -> str:
        """Name what every group runs on."""
        return f"Python {platform.python_version()}, Spark {version('pyspark')}"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print both lists."""
        if not (self._ran or self._not_run or self._not_applicable):
            return
        write = terminalreporter.write_line
        terminalreporter.section("what the tests ran on")
        for (group, with_services), count in sorted(self._ran.items()):
            write(f"{group}: {count} on {self._servers() if with_services else 'no services'}")
        for title, entries in (("NOT RUN", self._not_run), (self.NOT_APPLICABLE.upper(), self._not_applicable)):
            for name, reason in entries:
                write(f"{title} {name}: {reason}")

    def _note_skip(self, item: pytest.Item, report: pytest.TestReport) -> None:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = reason.removeprefix("Skipped: ")
        if reason.startswith(self.NOT_APPLICABLE):
            self._not_applicable.append((item.nodeid, reason.removeprefix(f"{self.NOT_APPLICABLE}: ")))
            return
        self._not_run.append((item.nodeid, reason))
        if self._require_all:
            report.outcome = "failed"
            report.longrepr = f"NOT RUN: {reason}"

    def _servers(self) -> str:
        if self.services is None:
            return "services that were not found"
        return f"{self.services.kafka}, {self.services.database} ({self.services.kind})"


def _group(item: pytest.Item) -> str:
    return item.nodeid.split("::")[0]

"""A plugin of pytest that shows how far a run is: tests done, of how many, and the minutes left.

`-q -p integration_tests.harness.progress -o console_output_style=classic` adds it to a run, instead of pytest's dots.
On a terminal one line is replaced; elsewhere a line is printed each half minute. Tests that fail are named at once.
`--record-durations` notes how long the tests took (durations.py).
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TextIO

import pytest

from integration_tests.harness import durations

_TERMINAL_EVERY_S: Final = 0.5
_LOG_EVERY_S: Final = 30.0
_TRUSTED_S: Final = 120.0
"""Recorded seconds of tests that have to pass until the speed of this run counts as much as the record."""

_NAME: Final = "eos-progress"


@dataclass(slots=True)
class Progress:
    """The state of a run. It is changed by pytest's thread, and read by the one that prints."""

    clock: Callable[[], float] = time.monotonic
    failed: int = 0
    _expected_s: Mapping[str, float] = field(default_factory=dict)  # by node id
    _left_s: float = 0.0  # of the tests that have not ended, as recorded
    _processes: int = 1
    _done: set[str] = field(default_factory=set)
    _begin: float = 0.0

    def start(self, expected_s: Mapping[str, float], processes: int) -> None:
        """Begin with these tests, so many at a time."""
        self._expected_s, self._processes, self._begin = expected_s, max(processes, 1), self.clock()
        self._left_s = sum(expected_s.values())

    def end(self, name: str) -> None:
        """Note that a test has ended."""
        if name not in self._done:
            self._done.add(name)
            self._left_s -= self._expected_s.get(name, 0.0)

    def left_s(self) -> float:
        """Return how many seconds the run still needs, by the record and by the speed of this run so far."""
        done_s = sum(self._expected_s.values()) - self._left_s
        spent_s = self.clock() - self._begin if self._done else 0.0
        pace = (_TRUSTED_S / self._processes + spent_s) / (_TRUSTED_S + done_s)
        return self._left_s * pace

    def before(self) -> str:
        """Return the line that says what is to be done."""
        return f"{len(self._expected_s):,} tests, {self._processes} at a time: {durations.about(self.left_s())}"

    def now(self) -> str:
        """Return the line that says how far the run is."""
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{len(self._done):,} of {len(self._expected_s):,} tests{failed}, {durations.about(self.left_s())} left"


class Printer:
    """Writes to the stream: a line that stays, or one that is replaced by the next."""

    def __init__(self, stream: TextIO, *, terminal: bool) -> None:
        self.terminal = terminal
        self._stream = stream
        self._lock = threading.Lock()

    def stay(self, line: str) -> None:
        """Write a line that stays."""
        self._write(f"\r\033[K{line}\n" if self.terminal else f"{line}\n")

    def replace(self, line: str) -> None:
        """Write a line that the next one replaces, if this is a terminal."""
        self._write(f"\r\033[K{line}" if self.terminal else f"{line}\n")

    def clear(self) -> None:
        """Remove the line that would be replaced."""
        if self.terminal:
            self._write("\r\033[K")

    def _write(self, text: str) -> None:
        with self._lock:
            self._stream.write(text)
            self._stream.flush()


class Plugin:
    """Pytest plugin of the process that reports."""

    def __init__(self, config: pytest.Config, printer: Printer) -> None:
        self._config = config
        self._printer = printer
        self._progress = Progress()
        self._workers = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._print, name="progress", daemon=True)
        self._tests_s: defaultdict[str, float] = defaultdict(float)
        self._ran: set[str] = set()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Start once all processes of pytest-xdist have found the tests."""
        self._workers += 1
        if self._workers == len(self._config.getoption("tx") or ()):
            self._start(ids, self._workers)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Start, in a run of one process."""
        if session.items and not session.config.getoption("collectonly"):
            self._start([item.nodeid for item in session.items], 1)

    def _start(self, names: Sequence[str], processes: int) -> None:
        self._progress.start(durations.read().of_tests(names), processes)
        self._printer.stay(self._progress.before())
        self._thread.start()

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Print no letters. Categories and words are pytest's own."""
        if hasattr(report, "wasxfail"):
            return None
        if report.passed:
            return ("passed" if report.when == "call" else ""), "", ""
        outcome = "error" if report.failed and report.when != "call" else report.outcome
        return outcome, "", outcome.upper()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test that has ended, and name one that failed."""
        self._tests_s[report.nodeid] += report.duration
        if report.when == "call":
            self._ran.add(report.nodeid)
        if report.failed:
            self._progress.failed += 1
            self._printer.stay(f" FAILED {report.nodeid} ({report.when})")
        if report.when == "teardown":
            self._progress.end(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Print no more, and write the record."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
            self._printer.clear()
        if session.config.getoption("--record-durations"):
            durations.write_tests({name: self._tests_s[name] for name in self._ran})

    def _print(self) -> None:
        while not self._stop.wait(_TERMINAL_EVERY_S if self._printer.terminal else _LOG_EVERY_S):
            self._printer.replace(self._progress.now())


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes the record."""
    parser.addoption("--record-durations", action="store_true", help="note how long the tests took: durations.json")


def pytest_configure(config: pytest.Config) -> None:
    """Add the plugin to the process that reports. It writes to a copy of stdout, which pytest may capture in a test."""
    if not hasattr(config, "workerinput"):
        terminal = sys.stdout.isatty()
        stream = os.fdopen(os.dup(sys.stdout.fileno()), "w")
        config.pluginmanager.register(Plugin(config, Printer(stream, terminal=terminal)), _NAME)

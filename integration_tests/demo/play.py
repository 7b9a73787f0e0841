"""The course of events: produce, run, kill, start again, and count."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from examples.eos.verdict import Verdict, judge
from integration_tests.demo.errors import DemoError
from integration_tests.demo.feed import Feed
from integration_tests.demo.job import Job
from integration_tests.demo.place import Place
from integration_tests.harness.pipeline_process import PipelineProcess

RECORDS = 20_000
RECORDS_PER_S = 1_000
KILLS = (
    ("before-decide@2", "at checkpoint 2: its rows are written and prepared, but it is not decided"),
    ("after-decide@5", "at checkpoint 5: it is decided, but none of its rows is visible yet"),
)
"""Fault points, and what is so when the driver stands there. There are ten checkpoints at the least."""

_POLL_S = 0.1
_SHOW_S = 3.0
_STALL_S = 120.0  # without any new row: something hangs
_STOP_S = 60.0
_RESTART = re.compile(r"^.* WARNING eos\.runner: (?P<cause>.*); restarting in", re.MULTILINE)
_ERROR = re.compile(r"^error:.*(?:\n  .*)*", re.MULTILINE)


@dataclass(slots=True)
class Play:
    """One demo."""

    place: Place
    job: Job
    feed: Feed
    _began_s: float = field(default_factory=time.monotonic)
    _shown: tuple[int, int] = (-1, -1)  # delivered and rows, as last told
    _shown_s: float = 0.0
    _moved_s: float = 0.0

    def run(self) -> Verdict:
        """All of it. Raises DemoError where it cannot go on."""
        self.tell(f"producing {RECORDS:,} records to the topic {self.place.topic}, {RECORDS_PER_S:,} a second")
        self.feed.start()
        for fault, situation in KILLS:
            driver = self._start(fault)
            self._watch(driver, partial(_stands_at, driver, fault))
            self.tell(f"kill -9 of the driver and all its processes {situation}")
            driver.kill()
        driver = self._start(None)
        self._watch(driver, lambda: self.feed.done and self.place.table.count() >= RECORDS)
        self.tell("every record has its row; stopping the job with SIGTERM")
        driver.terminate()
        if (code := driver.wait(_STOP_S)) != 0:
            raise self._died(driver, code)
        return judge(self.feed.produced, self.place.table.rows(), self.job.starts - 1, self.job.prepared())

    def tell(self, line: str) -> None:
        """A line of progress."""
        print(f"[{time.monotonic() - self._began_s:4.0f} s] {line}", flush=True)

    def _start(self, fault: str | None) -> PipelineProcess:
        driver = self.job.start(fault)
        again = "again " if len(self.job.drivers) > 1 else ""
        self.tell(f"starting the job {again}({driver.log.name})")
        return driver

    def _watch(self, driver: PipelineProcess, reached: Callable[[], bool]) -> None:
        """Show progress until something is reached. Raises DemoError if the driver ends or nothing moves any more."""
        failures = 0
        self._moved_s = time.monotonic()
        while not reached():
            if (code := driver.exit_code) is not None:
                raise self._died(driver, code)
            if self.feed.failure:
                raise DemoError(f"the records could not be produced: {self.feed.failure}")
            causes = _RESTART.findall(driver.output())
            for cause in causes[failures:]:
                self.tell(f"{cause}: the job goes back to its last checkpoint")
            failures = len(causes)
            self._show(driver)
            time.sleep(_POLL_S)

    def _show(self, driver: PipelineProcess) -> None:
        now_s = time.monotonic()
        if now_s - self._shown_s < _SHOW_S:
            return
        seen = self.feed.delivered, self.place.table.count()
        if seen != self._shown:
            self.tell(f"produced {seen[0]:,}, in the table {seen[1]:,}")
            self._moved_s = now_s
        if now_s - self._moved_s > _STALL_S:
            raise DemoError(f"no new row for {_STALL_S:g} s, with {seen[1]:,} of {RECORDS:,}: see {driver.log}")
        self._shown, self._shown_s = seen, now_s

    def _died(self, driver: PipelineProcess, code: int) -> DemoError:
        errors = _ERROR.findall(driver.output())
        said = " ".join(errors[-1].split()) if errors else "it gave no reason"
        return DemoError(f"the driver ended with exit code {code}: {said}; see {driver.log}")


def _stands_at(driver: PipelineProcess, fault: str) -> bool:
    return driver.faults.stopped(fault) is not None


def play(place: Place, folder: Path) -> Verdict:
    """Perform the demo at a place. Ends every process that it starts, however it ends itself."""
    feed = Feed(place.bootstrap, place.topic, RECORDS, RECORDS_PER_S)
    with Job(folder, place) as job:
        try:
            return Play(place, job, feed).run()
        finally:
            if feed.is_alive():
                feed.stop()

"""The course of the demo: produce, run, kill, restart, and count."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from spark_jobs.demo.driver import EosRun
from spark_jobs.demo.feed import Feed
from spark_jobs.demo.job import Job, of_eos_run
from spark_jobs.demo.place import DemoError, Place
from spark_jobs.demo.verdict import Verdict, judge

RECORDS = 10_000
RECORDS_PER_S = 1_000
KILLS = (
    ("before-decide@2", "at checkpoint 2: its rows are written and prepared, but it is not decided"),
    ("after-decide@5", "at checkpoint 5: it is decided, but none of its rows is visible yet"),
)
"""Fault points, and the state of the checkpoint there. There are at least ten checkpoints."""

_QUICK = (
    ("interval: 2s", "interval: 1s"),
    ("max_records_per_checkpoint: 2000", "max_records_per_checkpoint: 1000"),
    ("failure_probability: 0.001", "failure_probability: 0.0004"),
)
"""Changes of the example's spec: as many checkpoints in half of the time, and about one failed task."""

_POLL_S = 0.1
_SHOW_S = 3.0
_STALL_S = 600.0  # without any new row: something hangs
_STOP_S = 60.0
_RESTART = re.compile(r"^.* WARNING eos\.runner: (?P<cause>.*); restarting in", re.MULTILINE)
_ERROR = re.compile(r"^error:.*(?:\n  .*)*", re.MULTILINE)


@dataclass(slots=True)
class Play:
    """One demo."""

    place: Place
    job: Job[EosRun]
    feed: Feed
    _began_s: float = field(default_factory=time.monotonic)
    _shown: tuple[int, int] = (-1, -1)  # delivered and rows, as last printed
    _shown_s: float = 0.0
    _moved_s: float = 0.0

    def run(self) -> Verdict:
        """Perform all of it. Raises DemoError if it cannot continue."""
        self.tell(f"producing {RECORDS:,} records to the topic {self.place.topic}, {RECORDS_PER_S:,} a second")
        self.feed.start()
        for fault, situation in KILLS:
            driver = self._start(fault)
            self._watch(driver, lambda fault=fault: self.job.is_stopped(fault))  # type: ignore[misc]
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
        """Print a line of progress."""
        print(f"[{time.monotonic() - self._began_s:4.0f} s] {line}", flush=True)

    def _start(self, fault: str | None) -> EosRun:
        driver = self.job.start(fault)
        again = "again " if len(self.job.drivers) > 1 else ""
        self.tell(f"starting the job {again}({driver.log.name})")
        return driver

    def _watch(self, driver: EosRun, reached: Callable[[], bool]) -> None:
        """Show progress until `reached`. Raises DemoError if the driver ends or the number of rows does not change."""
        failures = 0
        self._moved_s = time.monotonic()
        while not reached():
            if (code := driver.exit_code) is not None:
                raise self._died(driver, code)
            if self.feed.failure:
                raise DemoError(f"the records could not be produced: {self.feed.failure}")
            causes = _RESTART.findall(driver.output())
            for cause in causes[failures:]:
                self.tell(f"{cause}: the job continues from its last checkpoint")
            failures = len(causes)
            self._show(driver)
            time.sleep(_POLL_S)

    def _show(self, driver: EosRun) -> None:
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

    def _died(self, driver: EosRun, code: int) -> DemoError:
        errors = _ERROR.findall(driver.output())
        said = " ".join(errors[-1].split()) if errors else "it gave no reason"
        return DemoError(f"the driver ended with exit code {code}: {said}; see {driver.log}")


def play(place: Place, folder: Path) -> Verdict:
    """Perform the demo at a place. All of its processes have ended when it returns or raises."""
    feed = Feed(place.bootstrap, place.topic, RECORDS, RECORDS_PER_S)
    with of_eos_run(folder, place, _QUICK) as job:
        try:
            return Play(place, job, feed).run()
        finally:
            if feed.is_alive():
                feed.stop()

"""The driver's end: follows the checkpoints of one query, decides when the next one is due, and writes that down."""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from connectors.spec.settings import CheckpointSettings
from spark_jobs.observe.withheld import Poll
from spark_jobs.query.pacing.admission import AdaptiveAdmission, Admission, FixedAdmission
from spark_jobs.query.pacing.turns import Pace, PacedTurns, Turns, read_polls, read_rests
from spark_jobs.session.locked_dirs import temporary
from spark_jobs.session.versions import plans_within_limits
from twophase.local_blobs import naming

_log = logging.getLogger("eos.runner")

NAME: Final = "admission.json"

_TARGET_S: Final = 1.0
"""Of a checkpoint, where `interval: 0s` names none."""
_IDLE_S: Final = (0.1, 5.0)
"""Between two looks at sources that have nothing new: half of the interval, within these bounds."""


@dataclass(slots=True)
class Pacing:
    """Of one query. Used by Spark's thread, which runs checkpoints, and by those that steer the run.

    Every call but `stop` raises HeadError where the pace cannot be written, as head could not be either.
    """

    schedule: Schedule
    admission: Admission
    path: Path
    ends_query: bool = False  # once it has caught up, which Spark does itself from 4.2 on
    begun: int = 0
    _is_paused: bool = False
    _is_over: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """The first checkpoint is due."""
        self._write()

    def turns(self, sources: int) -> Turns:
        """For each of so many sources."""
        return PacedTurns(self.path, sources, self.ends_query)

    @contextmanager
    def checkpoint(self) -> Iterator[None]:
        """Around one checkpoint."""
        with self._lock:
            self.begun += 1
            self.schedule.began(time.monotonic())
            self._write()
        try:
            yield
        finally:
            with self._lock:
                self.schedule.ended(time.monotonic())
                self._write()

    def took(self, records: int, duration_s: float) -> None:
        """So much the checkpoint took that is about to end; the first one of a query also waits for Spark's start."""
        if self.begun > 1:
            self.admission.observe(records, duration_s)

    def polls(self) -> list[Poll]:
        """What the newest plan of each source has seen."""
        return read_polls(self.path)

    def has_caught_up(self, sources: int) -> bool:
        """Return whether each of so many sources found nothing new in its two newest plans.

        Between the two Spark would have begun a checkpoint that only a new watermark needs.
        """
        rests = read_rests(self.path) if self.ends_query else []
        return len(rests) == sources and all(each.begun == self.begun and each.plans > 1 for each in rests)

    def ask(self) -> None:
        """Begin a checkpoint now: as soon as none is under way, if there is anything to read. Does not block."""
        with self._lock:
            self.schedule.ask(time.monotonic())
            self._write()

    def pause(self, *, paused: bool) -> None:
        """Plan nothing while `paused`. A plan that has begun may still become a batch. Does not block."""
        with self._lock:
            self._is_paused = paused
            self._write()

    def stop(self) -> None:
        """Nothing more is to be planned: Spark waits for its planner before it ends a query."""
        with self._lock:
            self._is_over = True  # a checkpoint under way may end later
            self.path.unlink(missing_ok=True)  # which a full disk allows as well

    def _write(self) -> None:
        if self._is_over:
            return
        least, most = _IDLE_S
        idle_wait_s = min(max(self.schedule.interval_s / 2, least), most)
        due_s = math.inf if self._is_paused else self.schedule.due_s
        pace = Pace(self.begun, due_s, self.admission.max_records, idle_wait_s)
        with naming(self.path):
            pace.write(self.path)


@contextmanager
def paced(settings: CheckpointSettings, admission: Admission, *, until_caught_up: bool) -> Iterator[Pacing]:
    """The pace of one query. One that ends when it has caught up goes as fast as it can. Raises HeadError.

    It is at the checkpoint location, which is kept: where others tidy up, the pipeline would read nothing any more.
    """
    schedule = Schedule(0.0, 0.0) if until_caught_up else Schedule(settings.interval_s, settings.min_pause_s)
    runs = settings.folder / "run"
    with ExitStack() as held:
        with naming(runs):
            folder = held.enter_context(temporary(runs))
        yield Pacing(schedule, admission, folder / "pace.json", until_caught_up and not plans_within_limits())


@dataclass(slots=True)
class Schedule:
    """When the next checkpoint of a query is due: by `interval` and `min_pause`, or at once on request.

    Pure: the clock is given. All times are of one monotonic clock, in seconds.
    """

    interval_s: float  # from one begin to the next
    min_pause_s: float  # from an end to the next begin
    due_s: float = float("-inf")  # the first one begins at once
    _is_asked: bool = False  # for one that has not begun

    def began(self, now_s: float) -> None:
        """A checkpoint has begun.

        The beat is kept where the begin was a little late, as planning makes each one; where there was nothing to read
        for longer, or a checkpoint took longer, it begins anew.
        """
        self._is_asked = False
        is_on_beat = now_s - self.due_s < self.interval_s
        self.due_s = (self.due_s if is_on_beat else now_s) + self.interval_s

    def ended(self, now_s: float) -> None:
        """It has ended, well or not."""
        if not self._is_asked:
            self.due_s = max(self.due_s, now_s + self.min_pause_s)

    def ask(self, now_s: float) -> None:
        """The next one is due now, or as soon as the one under way has ended, whatever the settings say."""
        self._is_asked = True
        self.due_s = min(self.due_s, now_s)


@dataclass(slots=True)
class RememberedAdmission:
    """The adaptive number of records, kept at the checkpoint location: a start goes on with what the last run found.

    Not synced, and not missed: a start without it begins small and finds it again.
    """

    adaptive: AdaptiveAdmission
    path: Path

    def __post_init__(self) -> None:
        """Take up what was found last."""
        try:
            found = json.loads(self.path.read_text())["max_records"]
        except (OSError, ValueError, KeyError, TypeError):
            return
        if isinstance(found, int) and found > 0:
            self.adaptive.records = found

    @property
    def max_records(self) -> int | None:
        return self.adaptive.max_records

    @property
    def limit_s(self) -> float:
        return self.adaptive.limit_s

    def overrun(self) -> bool:
        is_smaller = self.adaptive.overrun()
        self._keep()
        return is_smaller

    def observe(self, records: int, duration_s: float) -> None:
        before = self.adaptive.records
        self.adaptive.observe(records, duration_s)
        if self.adaptive.records != before:
            self._keep()

    def _keep(self) -> None:
        partial = self.path.with_suffix(".partial")
        try:
            partial.write_text(json.dumps({"max_records": self.adaptive.records}))
            partial.replace(self.path)
        except OSError as error:
            _log.warning("%s is not kept: %s", self.path, error.strerror)


def admission_of(settings: CheckpointSettings, *, behind: bool) -> Admission:
    """As `max_records_per_checkpoint` says. `behind`: a sink may commit while the next checkpoint is written.

    Called once a run: what is learned outlives restarts of the query.
    """
    most = settings.max_records_per_checkpoint
    if most != "auto":
        return FixedAdmission(most)
    adaptive = AdaptiveAdmission(settings.interval_s or _TARGET_S, probes=not behind)
    return RememberedAdmission(adaptive, settings.folder / NAME)

"""Turns of a planner process: it waits until a checkpoint is due, and learns how many records it may take.

The driver tells planners by a small file, the pace, which one process writes and others on the same machine read.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import quote

from spark_jobs.observe.withheld import Poll

_LOOK_S: Final = 0.1
"""Between two looks at the pace: how late a request or a stop may be heard."""

_IDLE_SHARE: Final = 0.1
"""Who has found nothing for so long looks again after this part of it: a record is late by no more than that."""


_POLL: Final = "poll-"
_REST: Final = "rest-"


@dataclass(frozen=True, slots=True)
class Pace:
    """One state of a query's pace. When the query is being stopped there is none: nobody waits any more."""

    begun: int  # checkpoints that have begun since the query was started
    due_s: float  # none is planned before; CLOCK_MONOTONIC, which all processes of a machine share
    max_records: int | None  # that the next one takes, over all sources; None: all there are
    idle_wait_s: float  # most time between two looks at a source that has nothing new

    def write(self, path: Path) -> None:
        """Write the file. Raises OSError."""
        _write(path, asdict(self))

    @classmethod
    def read(cls, path: Path) -> Pace | None:
        """The newest; None once the query is being stopped, or its driver has ended."""
        try:
            return cls(**json.loads(path.read_text()))
        except FileNotFoundError:
            return None


def _write(path: Path, content: Mapping[str, object]) -> None:
    """Whole or not at all. Not synced: it means nothing to another life of the machine."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content))
    partial.replace(path)


def poll_path(pace: Path, source: str) -> Path:
    """The file of a source's newest poll, beside the pace."""
    return pace.with_name(f"{_POLL}{quote(source, safe='')}.json")


def read_polls(pace: Path) -> list[Poll]:
    """The newest poll of each source of a query."""
    found = map(Poll.read, sorted(pace.parent.glob(f"{_POLL}*.json")))
    return [each for each in found if each is not None]


@dataclass(frozen=True, slots=True)
class Rest:
    """Plans of one source that found nothing new, one after another, while no checkpoint began."""

    begun: int  # as in Pace
    plans: int

    def write(self, path: Path) -> None:
        """Write the file. Raises OSError."""
        _write(path, asdict(self))


def read_rests(pace: Path) -> list[Rest]:
    """The newest of each source of a query that has found nothing new."""
    return [Rest(**json.loads(path.read_text())) for path in sorted(pace.parent.glob(f"{_REST}*.json"))]


@dataclass(frozen=True, slots=True)
class Turn:
    """A checkpoint may be planned now."""

    max_records: int | None  # of this source


class Turns(Protocol):
    """Asked by a source before each plan. Picklable before its first use."""

    @property
    def are_bounded(self) -> bool:
        """Whether the query ends when it has caught up, which its sources do not hear from Spark before 4.2."""

    def next(self) -> Turn | None:
        """Blocks until a checkpoint is due. None: nothing is to be planned, the query is being stopped."""

    def tell(self, poll: Poll) -> None:
        """Report what a plan has seen. Never raises."""

    def nothing_new(self, source: str) -> None:
        """Report that a plan of this source found nothing new. Never raises."""


@dataclass(slots=True)
class AlwaysDue:
    """For a query that somebody else has started, whose trigger is its own."""

    max_records: int | None = None
    are_bounded: bool = False

    def next(self) -> Turn | None:
        return Turn(self.max_records)

    def tell(self, poll: Poll) -> None:
        """See Turns. Such a query has no driver of ours."""

    def nothing_new(self, source: str) -> None:
        """Record nothing: only `PacedTurns` ends a query."""


ALL_THERE: Final = AlwaysDue()
"""For a query whose batches are planned already, or one that never starts."""


@dataclass(slots=True)
class PacedTurns:
    """By what the driver writes at `path`.

    While nothing comes, each look is later than the one before it, up to the pace's `idle_wait_s`: asking the service,
    and a round of Spark's, cost more than this wait. A first look after a checkpoint is never late.
    """

    path: Path
    sources: int  # that share in the records of a checkpoint
    are_bounded: bool = False
    _begun: int = field(default=-1, init=False)  # as the last turn found it
    _since_s: float = field(default=0.0, init=False)  # nothing has begun since then
    _rest: Rest = field(default=Rest(-1, 0), init=False)

    def next(self) -> Turn | None:
        parent, seen = os.getppid(), None
        look_at_s = 0.0
        while (pace := self._pace(parent)) is not None:
            now = time.monotonic()
            if pace.begun != self._begun:
                self._begun, self._since_s = pace.begun, now
            elif seen is None:
                idle_s = now - max(self._since_s, pace.due_s)
                look_at_s = now + min(pace.idle_wait_s, _IDLE_SHARE * max(idle_s, 0))
            elif pace != seen:  # somebody has asked for a checkpoint
                look_at_s = now
            left_s = max(pace.due_s, look_at_s) - now
            if left_s <= 0:
                return Turn(pace.max_records and max(pace.max_records // self.sources, 1))
            seen = pace
            time.sleep(min(left_s, _LOOK_S))
        return None

    def tell(self, poll: Poll) -> None:
        """See Turns. A file beside `path`."""
        with suppress(OSError):  # as on a full disk, which ends the run where head is written
            poll.write(poll_path(self.path, poll.source))

    def nothing_new(self, source: str) -> None:
        """See Turns. A file beside `path`."""
        if self.are_bounded:
            plans = self._rest.plans + 1 if self._rest.begun == self._begun else 1
            self._rest = Rest(self._begun, plans)
            with suppress(OSError):
                self._rest.write(self.path.with_name(f"{_REST}{quote(source, safe='')}.json"))

    def _pace(self, parent: int) -> Pace | None:
        """None: nobody waits for the answer."""
        return Pace.read(self.path) if os.getppid() == parent else None  # else Spark's JVM was killed

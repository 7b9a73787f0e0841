"""Everything that can be said of a pipeline, running or not, for `eos status`, the page and the API alike. Reads only.

What head says is true. The history adds what head does not keep; where it has less, head's own records take its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, get_args

from connectors.spec import Spec
from eos.errors import HistoryError
from spark_jobs.observe.head_reader import read_pause
from spark_jobs.observe.history.model import (
    AbortedAttempt,
    Checkpoint,
    Detail,
    Event,
    EventKind,
    RuleCount,
    Run,
    StateSize,
    Totals,
    acknowledgements_of,
    of_record,
)
from spark_jobs.observe.history.store import History
from spark_jobs.observe.history.summary import Summary, summarize
from spark_jobs.observe.lag import Lag, read_lag
from spark_jobs.observe.run_lock import RunLock, running
from spark_jobs.observe.withheld import WithheldSplit, read_withheld
from twophase.head_value import HeadValue
from twophase.requests import Paused
from twophase.status import Status
from twophase.values import CheckpointRecord

INCIDENTS: Final[tuple[EventKind, ...]] = tuple(kind for kind in get_args(EventKind) if kind != "state")
"""Kinds of events that are worth a line to whoever asks how a pipeline does."""


NO_HISTORY: Final = (
    "no history is kept here: the pipeline ran on another machine, or it was moved away; "
    "`eos status` shows what head retains"
)


@dataclass(frozen=True, slots=True)
class Overview:
    """State of a pipeline at one moment."""

    presence: RunLock | None  # who runs it on this machine
    status: Status | None  # None: it never ran
    checkpoints: tuple[Checkpoint, ...]  # newest first
    summary: Summary
    totals: Totals
    lag: Lag
    incidents: tuple[Event, ...]  # newest first
    aborted: tuple[AbortedAttempt, ...]  # newest first
    runs: tuple[Run, ...]  # newest first
    withheld: tuple[WithheldSplit, ...]
    rules: tuple[RuleCount, ...]  # since the history began
    state: StateSize | None  # after the newest checkpoint whose state is known; None: the query has none
    paused: Paused | None  # whether it takes no checkpoint, now and at its next start
    unread: str  # why the history cannot be read; empty: it can, or there is none

    @property
    def head(self) -> HeadValue | None:
        """None: it never ran."""
        return self.status.head if self.status is not None else None

    def record(self, of: Checkpoint) -> CheckpointRecord | None:
        """Head's record of it, while it is retained."""
        return _records(self.status).get((of.incarnation, of.checkpoint_id))


def overview(spec: Spec, status: Status | None, limit: int, newest: int) -> Overview:
    """`status`: what head says; `limit`: of checkpoints and of everything else in a list; `newest`: so many checkpoints
    the summary is about. Blocks for milliseconds; a history that cannot be read is told, and not raised."""
    history = History.at(spec.checkpoint.folder)
    try:
        checkpoints = history.checkpoints(max(limit, newest))
        totals, rules, state = history.totals(), history.rules(), history.state()
        incidents, aborted, runs = history.events(limit, kinds=INCIDENTS), history.aborted(limit), history.runs(limit)
        unread = ""
    except HistoryError as error:
        checkpoints, totals, rules, state, incidents, aborted, runs = (), Totals(), (), None, (), (), ()
        unread = str(error)
    merged = with_head(checkpoints, status)
    figures = summarize(merged[:newest])
    shown = merged[:limit]
    head = status.head if status is not None else None
    lag = read_lag(spec.checkpoint.folder, [source.name for source in spec.sources], head)
    withheld = read_withheld(spec.checkpoint.folder)
    presence, paused = running(spec), read_pause(spec)
    lists = (lag, incidents, aborted, runs, withheld, rules, state)
    return Overview(presence, status, shown, figures, totals, *lists, paused, unread)


def detail(spec: Spec, status: Status | None, checkpoint_id: int) -> Detail | None:
    """One checkpoint, whole; None if neither the history nor head knows it. Raises HistoryError."""
    incarnation = status.head.incarnation if status is not None else None
    found = History.at(spec.checkpoint.folder).checkpoint(checkpoint_id, incarnation)
    if found is not None:
        (checkpoint, *_) = with_head((found.checkpoint,), replace(status, checkpoints=()) if status else None)
        return replace(found, checkpoint=checkpoint)
    for record in status.checkpoints if status is not None else ():
        if record.checkpoint_id == checkpoint_id:
            checkpoint = with_head((of_record(record),), status)[0]
            return Detail(checkpoint, record.ranges, acknowledgements_of(record), (), ())
    return None


def with_head(checkpoints: Sequence[Checkpoint], status: Status | None) -> tuple[Checkpoint, ...]:
    """Newest first, as they are given, with those that only head knows; committed is what head calls so. Pure."""
    if status is None:
        return tuple(checkpoints)
    head = status.head
    known = {(each.incarnation, each.checkpoint_id) for each in checkpoints}
    unknown = [of_record(record) for key, record in _records(status).items() if key not in known]
    mine = [each for each in (*unknown, *checkpoints) if each.incarnation == head.incarnation]
    mine.sort(key=lambda each: -each.checkpoint_id)
    told = [replace(each, is_committed=each.checkpoint_id <= head.committed) for each in mine]
    return (*told, *(each for each in checkpoints if each.incarnation != head.incarnation))


def _records(status: Status | None) -> Mapping[tuple[str, int], CheckpointRecord]:
    found = status.checkpoints if status is not None else ()
    return {(record.scope.incarnation, record.checkpoint_id): record for record in found}

"""The activity of a run at this moment: the checkpoint in progress, or what the next one waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from twophase.doing import ADMIT, Doing

Phase = Literal["idle", "start", "tasks", "decide", "wait", "commit"]

_PHASES: Final[dict[str, tuple[Phase, str]]] = {
    "Permit": ("start", "the permits of its sinks"),
    "RunWriters": ("tasks", "tasks, which read, write and prepare"),
    "Discard": ("tasks", "tasks, which restore the state"),
    "AwaitState": ("decide", "the store of its state"),
    "PutRecord": ("decide", "the store of head"),
    "Swap decide": ("decide", "head"),
    ADMIT: ("wait", "sinks that are too far behind"),
    "Commit": ("commit", "the commit of its sinks"),
    "Count": ("commit", "the commit of its sinks"),
    "Revoke": ("commit", "its sinks, which close the checkpoint"),
    "ListPrepared": ("commit", "its sinks, which list prepared transactions"),
    "AbortPrepared": ("commit", "the rollback in its sinks"),
    "Prune": ("commit", "the removal of old records"),
    "CommitBack": ("commit", "the source, which stores the committed offsets"),
    "Swap committed": ("commit", "head"),
    "Swap note": ("commit", "head"),
}
"""By the name of an action (`Driver.doing`): its phase, and the object of the wait."""


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """Tasks of the Spark jobs that run."""

    total: int
    done: int
    running: int
    failed: int  # attempts


@dataclass(frozen=True, slots=True)
class Activity:
    """The state of a run's checkpoints at one moment."""

    phase: Phase
    since: float  # of the phase's current action; seconds since 1970
    waits_for: str
    checkpoint_id: int | None = None  # in progress; None: none is
    started_at: float | None = None  # of this checkpoint
    due_at: float | None = None  # of the next checkpoint, if none is in progress
    tasks: TaskCounts | None = None


def checkpoint_activity(checkpoint_id: int, started_at: float, doing: Doing | None) -> Activity:
    """Describe a checkpoint in progress, without its tasks."""
    if doing is None or doing.name not in _PHASES:
        since = doing.since if doing is not None else started_at
        return Activity("start", since, "the plan of the checkpoint", checkpoint_id, started_at)
    phase, waits_for = _PHASES[doing.name]
    named = f": {', '.join(doing.sinks)}" if doing.sinks else ""
    return Activity(phase, doing.since, f"{waits_for}{named}", checkpoint_id, started_at)


def idle_activity(since: float, now: float, due_in_s: float, withheld: Sequence[str]) -> Activity:
    """Describe the time between two checkpoints. `withheld`: reasons why existing records cannot be read."""
    if due_in_s > 0:
        return Activity("idle", since, "its time, by checkpoint.interval", due_at=now + due_in_s)
    return Activity("idle", since, f"records: {withheld[0]} is in the way" if withheld else "new records")

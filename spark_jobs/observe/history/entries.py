"""What is added to a history, one fact at a time, in the order in which it became known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_jobs.observe.history.model import (
    AbortedAttempt,
    Acknowledgement,
    Checkpoint,
    Ending,
    Event,
    Phases,
    RuleCount,
    Run,
    SplitLag,
    StateOperator,
)
from twophase.values import OffsetRange


@dataclass(frozen=True, slots=True)
class RunEnded:
    """In order: a run that was killed has none."""

    run_id: str
    at: float
    ended: Ending


@dataclass(frozen=True, slots=True)
class Completed:
    """A checkpoint, once its decision stands. The same one again adds nothing."""

    checkpoint: Checkpoint
    ranges: Mapping[str, tuple[OffsetRange, ...]]
    acknowledgements: tuple[Acknowledgement, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """Where the time of a checkpoint went, how far it was behind, what was left out. What is None stays as it was."""

    incarnation: str
    checkpoint_id: int
    phases: Phases
    committed_at: float | None
    acknowledgements: tuple[Acknowledgement, ...]
    lag: tuple[SplitLag, ...] | None  # None: the sources do not say
    skipped: Mapping[str, int] = field(default_factory=dict)  # by source: bad records that it left out
    rules: tuple[RuleCount, ...] = ()  # rows by rule of each step with `expect`


@dataclass(frozen=True, slots=True)
class LagMeasured:
    """The lag over all sources at one time, also while no checkpoint completes."""

    at: float
    records: int


@dataclass(frozen=True, slots=True)
class Replayed:
    """Spark has run a completed checkpoint again."""

    incarnation: str
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class Planned:
    """What Spark's plan of a checkpoint took: known only after its end."""

    incarnation: str
    checkpoint_id: int
    plan_s: float


@dataclass(frozen=True, slots=True)
class StateMeasured:
    """The state after a checkpoint: known only after its end."""

    incarnation: str
    checkpoint_id: int
    by_operator: tuple[StateOperator, ...]


@dataclass(frozen=True, slots=True)
class SinkCommitted:
    """The rows of a checkpoint are visible in one sink."""

    incarnation: str
    checkpoint_id: int
    sink: str
    at: float
    commit_s: float


@dataclass(frozen=True, slots=True)
class Committed:
    """Every sink has committed this checkpoint and all before it, and head says so."""

    incarnation: str
    checkpoint_id: int
    at: float | None  # None: it was so when a driver came to look


Entry = (
    Run
    | RunEnded
    | Event
    | Completed
    | Measured
    | LagMeasured
    | Replayed
    | Planned
    | StateMeasured
    | SinkCommitted
    | Committed
    | AbortedAttempt
)

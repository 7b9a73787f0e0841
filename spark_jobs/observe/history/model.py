"""The nouns of the history. Plain, immutable data; times are seconds since 1970, durations seconds, sizes bytes.

What was not measured is None: of a checkpoint that a driver decided and did not live to write down, head still knows
what it covered and how much it wrote, and no more (`of_record`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final, Literal

from eos.bounded import shorten
from eos.errors import ConnectorError, FencedError
from twophase.news import SinkAway, SinkJoined
from twophase.positions import Position, distance
from twophase.requests import Answer, Request
from twophase.values import CheckpointRecord, OffsetRange

Ending = Literal["stopped", "caught up", "failed"]

EventKind = Literal[
    "state",
    "failure",
    "restart",
    "fenced",
    "savepoint",
    "request",
    "reset",
    "repair",
    "gap",
    "mended",
    "away",
    "joined",
    "schema",
]


@dataclass(frozen=True, slots=True)
class Run:
    """One process that ran the pipeline, from its start to its end. Its epochs are sessions `<run_id>.<number>`."""

    run_id: str
    host: str
    pid: int
    version: str  # of this package
    started_at: float
    ended_at: float | None = None  # None: it runs, or was killed
    ended: Ending | None = None


@dataclass(frozen=True, slots=True)
class KilledRun:
    """A run whose process ended without a report: it was killed, or its machine failed."""

    run: Run
    last_at: float  # of its newest checkpoint or event


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened once, as it is told to a person."""

    at: float
    kind: EventKind
    message: str
    error: str = ""  # class of the error, for `failure` and `fenced`
    remedy: str = ""
    checkpoint_id: int | None = None  # that was under way
    delay_s: float | None = None  # of a `restart`, until it follows
    facts: Mapping[str, object] = field(default_factory=dict)  # what only this kind has: the id of a request, a path
    run_id: str = ""  # given by who writes it down
    seq: int = 0  # place in the history, for paging; given by the store


@dataclass(frozen=True, slots=True)
class Phases:
    """Where the time of a checkpoint went, in this order. Together they are its duration."""

    plan_s: float | None = None  # Spark: newest offsets, the plan of the query, its own log
    start_s: float | None = None  # permits; Spark starts the job and its tasks
    read_s: float | None = None  # tasks wait for their rows: sources are read, steps computed
    write_s: float | None = None  # tasks write to the sinks
    prepare_s: float | None = None  # tasks prepare: after it nothing is needed of them any more
    decide_s: float | None = None  # record and head: after it the checkpoint is completed
    wait_s: float | None = None  # completed, and sinks are still busy with earlier ones
    commit_s: float | None = None  # sinks commit and close, and head says so

    def items(self) -> tuple[tuple[str, float | None], ...]:
        """Name and seconds, in their order."""
        return tuple((name, getattr(self, f"{name}_s")) for name in PHASES)


PHASES: Final[tuple[str, ...]] = tuple(each.name.removesuffix("_s") for each in fields(Phases))


@dataclass(frozen=True, slots=True)
class SinkCommit:
    """What one sink had of a checkpoint."""

    sink: str
    rows: int
    bytes: int
    writers: int
    variant: str = ""  # as a spec writes it after `commit:`
    committed_at: float | None = None  # when its rows had become visible; None: not yet, or not known
    commit_s: float | None = None  # how long that took, once it was this checkpoint's turn


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """One writer: a task's share for one sink."""

    sink: str
    task: int
    attempt: int
    rows: int
    bytes: int
    acknowledged_at: float | None = None  # by the clock of the machine that ran it
    read_s: float | None = None  # waiting for rows; the same for all sinks of a task
    write_s: float | None = None
    prepare_s: float | None = None


@dataclass(frozen=True, slots=True)
class RuleCount:
    """Rows of one checkpoint that a rule of a step has seen."""

    step: str
    rule: str
    action: str  # of the rule: warn, skip, dead-letter or fail
    rows: int  # of the step, before any of them was left out
    failed: int  # of these, the rows that do not meet the condition


@dataclass(frozen=True, slots=True)
class StateOperator:
    """State of one operator after a checkpoint, as Spark reports it."""

    number: int  # Spark's: its files are in `state/<number>`
    step: str  # of the spec; empty: not known
    operator: str  # as Spark's physical plan calls it
    rows: int
    updated: int  # rows, by this checkpoint, as the next two
    removed: int
    dropped: int  # input rows that the watermark excluded
    memory_bytes: int  # what Spark calls memory used: of RocksDB, with its caches
    commit_ms: int  # summed over its tasks


@dataclass(frozen=True, slots=True)
class StateSize:
    """State of a query after a checkpoint."""

    checkpoint_id: int
    by_operator: tuple[StateOperator, ...]
    at: float | None = None  # of Spark's report; None: as the history keeps it, as the next one
    watermark: float | None = None  # seconds since 1970; None: the query has none

    @property
    def operators(self) -> int:
        """Number of stateful operators."""
        return len(self.by_operator)

    @property
    def rows(self) -> int:
        """Rows over all operators."""
        return sum(each.rows for each in self.by_operator)

    @property
    def memory_bytes(self) -> int:
        """Memory over all operators."""
        return sum(each.memory_bytes for each in self.by_operator)


@dataclass(frozen=True, slots=True)
class AbortedAttempt:
    """A try of a checkpoint that ended before its decision. Nothing of it is visible (at-least-once: perhaps)."""

    incarnation: str
    checkpoint_id: int
    epoch: int
    attempt: int
    aborted_at: float
    error: str  # class
    reason: str


@dataclass(frozen=True, slots=True)
class SplitLag:
    """End and position of one split, as the lag monitor measured them.

    Invariant: position <= end. (In a history of version 0.2.0, the end of an older plan may be before the position.)
    """

    at: float  # time of the answer of the source, in seconds since 1970
    source: str
    split: str
    end: Position  # position behind the newest record that can be read
    position: Position  # next position that the pipeline reads, as head has decided it

    @property
    def records(self) -> int | None:
        """Offsets between the two; with gaps (markers, compaction) more than records. None: the source has no count."""
        return distance(self.position, self.end)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A completed checkpoint."""

    incarnation: str
    checkpoint_id: int
    epoch: int
    attempt: int  # the try that was decided; those before it were aborted
    started_at: float  # Spark handed the batch over: `plan_s` was before
    decided_at: float  # every task had acknowledged
    records: int | None  # offsets covered, over all splits; None: a source does not count
    mode: Literal["exactly-once", "at-least-once"]
    sinks: tuple[SinkCommit, ...]
    session: str = ""  # of the epoch that decided it; empty: told by head later
    is_committed: bool = False  # head says that every sink shows it
    committed_at: float | None = None  # when head said so; None: not yet, or nobody was there to see it
    lag: int | None = None  # records that were there and not in it, over all splits
    replayed: bool = False  # Spark has run it again after a restart, and it was not written again
    skipped: int = 0  # bad records that sources left out; 0, too, where the driver did not live to say
    phases: Phases = Phases()
    seq: int = 0  # place in the history, for paging; given by the store

    @property
    def rows(self) -> int:
        """Over all sinks."""
        return sum(each.rows for each in self.sinks)

    @property
    def bytes(self) -> int:
        """Over all sinks."""
        return sum(each.bytes for each in self.sinks)

    @property
    def writers(self) -> int:
        """Over all sinks."""
        return sum(each.writers for each in self.sinks)

    @property
    def duration_s(self) -> float | None:
        """From Spark's plan until it was committed everywhere; None: not yet, or not known."""
        if self.committed_at is None:
            return None
        return self.committed_at - self.started_at + (self.phases.plan_s or 0.0)


@dataclass(frozen=True, slots=True)
class Detail:
    """One checkpoint, whole. What is older than the newest thousand has neither ranges nor acknowledgements."""

    checkpoint: Checkpoint
    ranges: Mapping[str, tuple[OffsetRange, ...]]  # by source
    acknowledgements: tuple[Acknowledgement, ...]
    aborted: tuple[AbortedAttempt, ...]
    lag: tuple[SplitLag, ...]  # as it was sampled last before the decision
    rules: tuple[RuleCount, ...] = ()  # rows by rule of each step with `expect`
    state: tuple[StateOperator, ...] = ()  # after it


@dataclass(frozen=True, slots=True)
class Totals:
    """Since the history began, over resets. Each checkpoint counts once."""

    since: float | None = None
    checkpoints: int = 0
    records: int = 0
    rows: int = 0
    bytes: int = 0
    aborted: int = 0  # tries
    failures: int = 0
    restarts: int = 0
    runs: int = 0
    skipped: int = 0  # bad records that sources left out


@dataclass(frozen=True, slots=True)
class Bucket:
    """What was decided in one stretch of time, for charts."""

    at: float  # its beginning
    width_s: float
    checkpoints: int = 0
    records: int = 0
    rows: int = 0
    bytes: int = 0
    lag: int | None = None  # the largest
    duration_s: float | None = None  # mean; None: no checkpoint was committed
    max_duration_s: float | None = None
    phases: Phases = Phases()  # means


def sinks_of(record: CheckpointRecord) -> tuple[SinkCommit, ...]:
    """As the decision has them."""
    return tuple(
        SinkCommit(sink, sum(each.rows for each in group), sum(each.bytes for each in group), len(group))
        for sink, group in record.committables.items()
    )


def acknowledgements_of(record: CheckpointRecord) -> tuple[Acknowledgement, ...]:
    """As the decision has them: nothing was measured."""
    return tuple(
        Acknowledgement(sink, each.transaction.task, each.transaction.spark_attempt, each.rows, each.bytes)
        for sink, group in record.committables.items()
        for each in group
    )


def of_absence(news: SinkAway | SinkJoined, at: float) -> Event:
    """The event of a start that has gone on without a sink, or of the sink's return (H32)."""
    if isinstance(news, SinkJoined):
        return Event(at, "joined", f"sink {news.sink} is back: it is claimed, and commits what waited for it")
    count = len(news.waiting)
    message = (
        f"sink {news.sink} is away: the start has gone on without it, its rows wait in its log. {count} "
        f"checkpoint{'s wait' if count != 1 else ' waits'} there. {news.error.message}"
    )
    remedy = f"bring the sink back: it joins by itself, and gets what waits, until its max_backlog. {news.error.remedy}"
    return Event(at, "away", message, remedy=remedy.strip(), facts={"sink": news.sink, "waiting": count})


def failure(error: BaseException, at: float, checkpoint_id: int | None = None) -> Event:
    """What ended an epoch, or a run."""
    kind: EventKind = "fenced" if isinstance(error, FencedError) else "failure"
    message = error.message if isinstance(error, ConnectorError) else shorten(str(error))
    if isinstance(error, SystemExit):  # its text is a number
        message = f"the process was ended with exit code {error.code}"
    return Event(at, kind, message, type(error).__name__, getattr(error, "remedy", ""), checkpoint_id)


def answered(request: Request, answer: Answer) -> Event:
    """What somebody has asked of the run, and what became of it."""
    kind: EventKind = "savepoint" if request.kind == "savepoint" else "request"
    message = f"{request.kind}, asked by {request.asked_by}: {answer.message}"
    facts = {**answer.facts, "id": request.id, "request": request.kind, "ok": answer.ok}
    return Event(answer.at, kind, message, remedy=answer.remedy, facts=facts)


def of_record(record: CheckpointRecord) -> Checkpoint:
    """What head still knows of a checkpoint that a driver did not live to write into the history."""
    return Checkpoint(
        incarnation=record.scope.incarnation,
        checkpoint_id=record.checkpoint_id,
        epoch=record.scope.epoch,
        attempt=record.scope.attempt,
        started_at=record.started_at,
        decided_at=record.decided_at,
        records=record.records,
        mode="at-least-once" if record.direct else "exactly-once",
        sinks=sinks_of(record),
    )

"""Checkpoints: a list of them, and one whole; and what went wrong between them."""

from __future__ import annotations

from typing import Any, Literal

from spark_jobs.page.schemas.base import Answer

Metric = Literal["rate", "lag", "duration", "phases"]


class Phases(Answer):
    """Where the time of a checkpoint went, in this order; together they are its duration."""

    plan_s: float | None  # newest offsets, plan of the query
    start_s: float | None  # permits, start of the tasks
    read_s: float | None  # sources are read, steps computed
    write_s: float | None
    prepare_s: float | None
    decide_s: float | None
    wait_s: float | None  # for sinks that are busy with earlier checkpoints
    commit_s: float | None


class SinkCommit(Answer):
    """What one sink had of a checkpoint."""

    sink: str
    rows: int
    bytes: int
    writers: int
    variant: str
    committed_at: float | None
    commit_s: float | None


class Checkpoint(Answer):
    """A completed checkpoint."""

    seq: int  # for `before`
    incarnation: str
    checkpoint_id: int
    epoch: int
    attempt: int  # the try that was decided
    mode: Literal["exactly-once", "at-least-once"]
    started_at: float
    decided_at: float
    is_committed: bool  # every sink shows it
    committed_at: float | None  # null, too, where nobody was there to see it
    duration_s: float | None
    records: int | None  # offsets covered; None: a source does not count
    rows: int  # over all sinks, as the next two
    bytes: int
    writers: int
    skipped: int  # bad records that sources left out
    lag: int | None
    replayed: bool
    phases: Phases
    sinks: list[SinkCommit]


class Checkpoints(Answer):
    """Newest first."""

    checkpoints: list[Checkpoint]
    before: int | None  # of the next, older page; None: this was the last one


class SplitLag(Answer):
    """End and position of one split, as the lag monitor measured them."""

    at: float
    source: str
    split: str
    position: Any  # next one that the pipeline reads: an integer, a text, or a list of positions
    end: Any  # position behind the newest record that can be read
    records: int | None  # between the two; None: the source does not count


class WithheldSplit(Answer):
    """Records of one split that exist and cannot be read yet."""

    at: float  # of the newest sample
    since: float  # of the first sample with the same `begin`
    source: str
    split: str
    begin: Any  # first position that cannot be read
    end: Any  # next position after the last record that exists
    records: int | None  # between the two; None: the source does not count
    reason: str  # as in "waiting for an open transaction"


class Acknowledgement(Answer):
    """One writer: a task's share for one sink."""

    sink: str
    task: int
    attempt: int
    rows: int
    bytes: int
    acknowledged_at: float | None
    read_s: float | None
    write_s: float | None
    prepare_s: float | None


class AbortedAttempt(Answer):
    """A try that ended before its decision."""

    incarnation: str
    checkpoint_id: int
    epoch: int
    attempt: int
    aborted_at: float
    error: str
    reason: str


class Range(Answer):
    """Positions of a split, end excluded."""

    source: str
    split: str
    start: Any
    end: Any


class Expectation(Answer):
    """Rows that a rule of a step has seen."""

    step: str
    rule: str
    action: str  # warn, skip, dead-letter or fail
    rows: int  # of the step, before any of them was left out
    failed: int  # of these, the rows that do not meet the condition


class StateOperator(Answer):
    """State of one operator after a checkpoint."""

    number: int  # Spark's
    step: str  # of the spec; empty: not known
    operator: str  # as Spark calls it
    rows: int
    updated: int  # rows, by the checkpoint, as the next two
    removed: int
    dropped: int  # input rows that the watermark excluded
    memory_bytes: int
    commit_ms: int  # summed over its tasks


class Detail(Answer):
    """One checkpoint, whole; an old one has neither ranges nor acknowledgements any more."""

    checkpoint: Checkpoint
    ranges: list[Range]
    acknowledgements: list[Acknowledgement]
    aborted: list[AbortedAttempt]
    lag: list[SplitLag]
    expectations: list[Expectation]  # of the steps' rules, in this checkpoint
    state: list[StateOperator]  # after it


class Event(Answer):
    """Something that happened once."""

    seq: int
    at: float
    run_id: str
    kind: str
    message: str
    error: str
    remedy: str
    checkpoint_id: int | None
    delay_s: float | None


class KilledRun(Answer):
    """A process that ran the pipeline and ended without a report."""

    run_id: str
    host: str
    pid: int
    started_at: float
    last_at: float  # of its newest checkpoint or event


class Events(Answer):
    """Newest first."""

    events: list[Event]
    before: int | None  # of the next, older page; None: this was the last one
    aborted: list[AbortedAttempt]  # the newest, as many as `limit`, whatever `before` is
    killed: list[KilledRun]  # the newest, as many as `limit`, whatever `before` is


class Distribution(Answer):
    """Of one figure. Percentiles are values that occurred."""

    count: int
    mean: float
    p50: float
    p95: float
    p99: float
    max: float


class Summary(Answer):
    """Figures of the newest checkpoints."""

    checkpoints: int
    first_at: float | None
    last_at: float | None
    duration_s: Distribution | None
    records: Distribution | None
    rows: Distribution | None
    bytes: Distribution | None
    phases: dict[str, Distribution | None]
    skipped: int  # bad records that were left out of them
    skipped_share: float | None  # of the records that they cover


class Line(Answer):
    """One line of a chart: a value for each bucket."""

    name: str
    values: list[float | None]


class Chart(Answer):
    """One metric over time."""

    metric: Metric
    unit: Literal["1/s", "1", "s"]
    lines: list[Line]


class Series(Answer):
    """For charts: bucket n begins at `since + n * width_s`. The last one may be under way."""

    since: float
    width_s: float
    buckets: int
    checkpoints: int  # decided in all buckets
    charts: list[Chart]

"""What the API answers, as its OpenAPI document describes it.

Times are seconds since 1970, UTC; durations are seconds, sizes bytes. What was not measured is null. Names of a
pipeline's parts stand in values and never in keys: they are anybody's.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

State = Literal["new", "starting", "running", "restarting", "stopping", "stopped", "caught up", "failed", "killed"]

Metric = Literal["rate", "lag", "duration", "phases"]


class Answer(BaseModel):
    """Immutable; made of the nouns of the history by their attributes."""

    model_config = ConfigDict(frozen=True, from_attributes=True)


class Problem(Answer):
    """Why something was not done."""

    message: str
    remedy: str = ""


class Refused(Answer):
    """Every answer that is not one of success."""

    error: Problem


class PipelineName(Answer):
    """One pipeline that is served."""

    key: str  # in paths
    name: str
    state: State


class Pipelines(Answer):
    """All of this server."""

    pipelines: list[PipelineName]
    version: str  # of this package


class Run(Answer):
    """One process that ran the pipeline."""

    run_id: str
    host: str
    pid: int
    version: str
    started_at: float
    ended_at: float | None
    ended: str | None  # None: it runs, or was killed


class Runs(Answer):
    """Newest first."""

    runs: list[Run]


class SplitLag(Answer):
    """One split when the newest checkpoint was planned."""

    at: float
    source: str
    split: str
    position: int  # next offset that the pipeline reads
    end: int  # next offset that the source would have given
    records: int  # between the two


class Throughput(Answer):
    """Of the checkpoints that were decided lately."""

    window_s: float
    records_per_s: float
    rows_per_s: float
    bytes_per_s: float


class Totals(Answer):
    """Since the history began."""

    since: float | None
    checkpoints: int
    records: int
    rows: int
    bytes: int
    aborted: int  # tries
    failures: int
    restarts: int
    runs: int


class Head(Answer):
    """What is decided."""

    epoch: int
    incarnation: str
    completed: int  # newest completed checkpoint; -1: none
    committed: int  # every sink has committed up to here
    waiting: int  # completed and not committed everywhere


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
    records: int  # offsets covered
    rows: int  # over all sinks, as the next two
    bytes: int
    writers: int
    lag: int | None
    replayed: bool
    phases: Phases
    sinks: list[SinkCommit]


class Checkpoints(Answer):
    """Newest first."""

    checkpoints: list[Checkpoint]
    before: int | None  # of the next, older page; None: this was the last one


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


class AbortedTry(Answer):
    """A try that ended before its decision."""

    incarnation: str
    checkpoint_id: int
    epoch: int
    attempt: int
    aborted_at: float
    error: str
    reason: str


class Range(Answer):
    """Offsets of a split, end excluded."""

    source: str
    split: str
    start: int
    end: int


class Detail(Answer):
    """One checkpoint, whole; an old one has neither ranges nor acknowledgements any more."""

    checkpoint: Checkpoint
    ranges: list[Range]
    acknowledgements: list[Acknowledgement]
    aborted: list[AbortedTry]
    lag: list[SplitLag]


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
    """For charts: bucket n begins at `since + n * width_s`."""

    since: float
    width_s: float
    buckets: int
    charts: list[Chart]


class Overview(Answer):
    """How a pipeline stands."""

    key: str
    name: str
    guarantee: str
    mode: Literal["exactly-once", "at-least-once"]
    state: State
    detail: str  # of the state, for people; may be empty
    is_running: bool
    can_steer: bool  # somebody runs it who will answer
    now: float  # by the server's clock
    interval_s: float
    head: Head | None  # None: never started, or not to be read (see `problems`)
    run: Run | None  # the newest
    totals: Totals
    throughput: Throughput
    lag_records: int | None
    lag: list[SplitLag]
    last: Checkpoint | None
    last_duration_s: float | None  # of the newest that is committed everywhere
    problems: list[Problem]  # what could not be read


class Sink(Answer):
    """One sink as the spec has it, and how it stands."""

    name: str
    connector: str
    where: str
    variant: str
    is_dead_letter: bool
    promise: str
    visible: str  # when its rows are
    backlog_checkpoints: int  # decided, and not yet visible there
    backlog_rows: int
    backlog_bytes: int
    rows: int  # over the checkpoints that the history keeps, as the next two
    bytes: int
    checkpoints: int
    committed_at: float | None  # the newest that is known


class Sinks(Answer):
    """In the order of the spec, dead letters last."""

    sinks: list[Sink]


class Transaction(Answer):
    """What a sink holds prepared."""

    sink: str
    id: str
    checkpoint_id: int | None
    epoch: int | None
    rows: int | None
    decided_at: float | None
    then: str  # what becomes of it
    why: str


class Transactions(Answer):
    """As the sinks told when they were asked."""

    asked_at: float
    transactions: list[Transaction]


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


class Events(Answer):
    """Newest first."""

    events: list[Event]
    before: int | None  # of the next, older page; None: this was the last one
    aborted: list[AbortedTry]  # the newest, as many as `limit`, whatever `before` is


class SpecText(Answer):
    """The spec with every default filled in, as YAML; secrets are masked."""

    text: str


class StopWish(BaseModel):
    """How to stop."""

    model_config = ConfigDict(extra="forbid")

    now: Annotated[bool, Field(description="abort the running checkpoint instead of finishing it")] = False


class RequestState(Answer):
    """Something that was asked of whoever runs the pipeline."""

    id: str
    kind: str
    asked_at: float
    asked_by: str
    expires_at: float
    state: Literal["waiting", "done", "refused", "expired"]
    message: str
    facts: dict[str, Any]

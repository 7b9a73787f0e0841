"""A pipeline as it stands: its state, head, lag, throughput, sinks, and the processes that ran it.

Also what is asked of whoever runs it, and what became of that.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from spark_jobs.page.schemas.base import Answer, Problem
from spark_jobs.page.schemas.checkpoints import Checkpoint, Expectation, SplitLag, StateOperator, WithheldSplit

State = Literal[
    "new",
    "starting",
    "standby",
    "running",
    "paused",
    "restarting",
    "stopping",
    "stopped",
    "caught up",
    "failed",
    "killed",
]


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


class Head(Answer):
    """What is decided."""

    epoch: int
    incarnation: str
    completed: int  # newest completed checkpoint; -1: none
    committed: int  # every sink has committed up to here
    waiting: int  # completed and not committed everywhere


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
    skipped: int  # bad records that sources left out


class TaskCounts(Answer):
    """Tasks of the Spark jobs of the checkpoint in progress."""

    total: int
    done: int
    running: int
    failed: int  # attempts


class InProgress(Answer):
    """The checkpoint in progress, or what the next one waits for."""

    phase: Literal["idle", "start", "tasks", "decide", "wait", "commit"]
    since: float  # of the current action
    waits_for: str
    checkpoint_id: int | None  # None: no checkpoint is in progress
    started_at: float | None
    due_at: float | None  # of the next checkpoint
    tasks: TaskCounts | None  # None: no job runs


class StateSize(Answer):
    """State and watermark of the query after its newest checkpoint."""

    checkpoint_id: int
    at: float | None  # of Spark's report; None: from the history
    watermark: float | None  # None: none, or not known to this process
    operators: int
    rows: int  # over all operators, as the next one
    memory_bytes: int
    by_operator: list[StateOperator]


class Overview(Answer):
    """How a pipeline stands."""

    key: str
    name: str
    guarantee: str
    mode: Literal["exactly-once", "at-least-once"]
    state: State
    detail: str  # of the state, for people; may be empty
    is_running: bool
    is_here: bool  # this process runs it
    can_steer: bool  # somebody runs it who will answer
    actions: list[str]  # requests that the pipeline takes now: POST to the path of this name
    now: float  # by the server's clock
    interval_s: float
    head: Head | None  # None: never started, or not to be read (see `problems`)
    run: Run | None  # the newest
    totals: Totals
    throughput: Throughput
    lag_records: int | None  # None: unknown now, or no source of a spec
    lag_unknown: str  # why it is unknown; empty: it is known
    lag_at: float | None  # time of the newest measurement that succeeded in every source
    lag_age_s: float | None
    lag_measured: int | None  # its number, also where it is too old to be the lag of now
    lag: list[SplitLag]  # of that measurement
    withheld_records: int | None
    withheld: list[WithheldSplit]
    in_progress: InProgress | None  # None: no query runs, or another process runs the pipeline
    state_size: StateSize | None  # None: no state; and no watermark, or not known to this process
    spark_ui: str | None  # URL, if Spark's UI is on and this process runs the pipeline
    run_page: str | None  # URL of the page of the run, if another process serves one
    expectations: list[Expectation]  # of the steps' rules, since the history began
    last: Checkpoint | None
    last_duration_s: float | None  # of the newest that is committed everywhere
    problems: list[Problem]  # what could not be read


class SpecText(Answer):
    """The spec with every default filled in, as YAML; secrets are masked."""

    text: str


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

"""A pipeline as it stands: its state, head, lag, throughput, and the processes that ran it."""

from __future__ import annotations

from typing import Literal

from spark_jobs.page.schemas.base import Answer, Problem
from spark_jobs.page.schemas.checkpoints import Checkpoint, SplitLag, WithheldSplit

State = Literal["new", "starting", "running", "restarting", "stopping", "stopped", "caught up", "failed", "killed"]


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
    withheld_records: int | None
    withheld: list[WithheldSplit]
    last: Checkpoint | None
    last_duration_s: float | None  # of the newest that is committed everywhere
    problems: list[Problem]  # what could not be read


class SpecText(Answer):
    """The spec with every default filled in, as YAML; secrets are masked."""

    text: str

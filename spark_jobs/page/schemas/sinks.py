"""Sinks, and what they hold prepared."""

from __future__ import annotations

from spark_jobs.page.schemas.base import Answer


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

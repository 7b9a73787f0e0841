"""Events of a driver, for logs and metrics. No decision depends on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from eos.errors import ConnectorError
from twophase.ids import Scope
from twophase.values import CheckpointRecord


@dataclass(frozen=True, slots=True)
class Decided:
    """A checkpoint is completed: head has it, and it will be committed (R6)."""

    record: CheckpointRecord


@dataclass(frozen=True, slots=True)
class Aborted:
    """An attempt has ended before its decision, and its prepared transactions are rolled back (R8)."""

    scope: Scope
    error: ConnectorError


@dataclass(frozen=True, slots=True)
class SinkCommitted:
    """A sink has committed all rows of a checkpoint (R7)."""

    incarnation: str
    checkpoint_id: int
    sink: str
    commit_s: float  # since the commit of this checkpoint began at the sink


@dataclass(frozen=True, slots=True)
class CommittedUpTo:
    """Every sink has committed all checkpoints up to this one, and head has it (R9)."""

    incarnation: str
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class SinkAway:
    """A start has gone on without a sink: its rows wait in its log (H32)."""

    sink: str
    waiting: tuple[int, ...]  # checkpoints that are decided and not committed at the sink
    error: ConnectorError  # the outage


@dataclass(frozen=True, slots=True)
class SinkJoined:
    """A sink that was away at the start is claimed, and commits the checkpoints that wait in its log."""

    sink: str


DriverEvent = Decided | Aborted | SinkCommitted | CommittedUpTo | SinkAway | SinkJoined

EventHandler = Callable[[DriverEvent], None]
"""A function that gets each event, in the thread where it happens. Must not block or raise."""


def ignore_event(_news: DriverEvent) -> None:
    """Discard an event."""

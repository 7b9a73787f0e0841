"""What a driver tells while it works, for logs and figures. Nothing is decided by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from eos.errors import ConnectorError
from twophase.ids import Scope
from twophase.values import CheckpointRecord


@dataclass(frozen=True, slots=True)
class Decided:
    """Head has this checkpoint: it is completed, and will be committed (R6)."""

    record: CheckpointRecord


@dataclass(frozen=True, slots=True)
class Aborted:
    """This try has ended before a decision, and what it had prepared is rolled back (R8)."""

    scope: Scope
    error: ConnectorError


@dataclass(frozen=True, slots=True)
class SinkCommitted:
    """A sink shows all that it had of a checkpoint (R7)."""

    incarnation: str
    checkpoint_id: int
    sink: str
    commit_s: float  # since this checkpoint's commit began there


@dataclass(frozen=True, slots=True)
class CommittedUpTo:
    """Head says that every sink has committed all checkpoints up to this one (R9)."""

    incarnation: str
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class SinkAway:
    """A start has gone on without a sink: its rows wait in its log (H32)."""

    sink: str
    waiting: tuple[int, ...]  # checkpoints that are decided and not committed there
    error: ConnectorError  # the outage


@dataclass(frozen=True, slots=True)
class SinkJoined:
    """A sink that was away at the start has been claimed, and commits what waits for it."""

    sink: str


DriverEvent = Decided | Aborted | SinkCommitted | CommittedUpTo | SinkAway | SinkJoined

EventHandler = Callable[[DriverEvent], None]
"""Told from the thread in which it happens, some of them the driver's own. Must not block, and never raises."""


def ignore_event(_news: DriverEvent) -> None:
    """A watcher that does not listen."""

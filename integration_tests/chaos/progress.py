"""Whether the pipeline goes on: the one thing that is asked of it after every fault."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from integration_tests.chaos.arena import Arena
from twophase.head_value import HeadValue

PATIENCE_S: Final = 300.0
"""For what must come, on a machine that is busy."""

_POLL_S: Final = 0.05
_MOST_EXITS: Final = 15  # of drivers that a fault keeps from starting, or that a cure comes too late for


class ChaosError(Exception):
    """The pipeline did what it must never do; the message says what, and where its logs are."""


def await_progress(arena: Arena, after: str) -> None:
    """Blocks until a checkpoint is committed everywhere that was not completed before. Raises ChaosError if none is."""
    _await(arena, after, lambda before, now: now.committed > before.completed)


def await_completed(arena: Arena, after: str) -> None:
    """Blocks until one more checkpoint is completed, which a sink may lack. Raises ChaosError if none is."""
    _await(arena, after, lambda before, now: now.completed > before.completed)


def _await(arena: Arena, after: str, is_reached: Callable[[HeadValue, HeadValue], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    before, exits = arena.head(), arena.supervised.exits.total()
    while True:
        now = arena.head()
        before = before or now
        if now is not None and before is not None and is_reached(before, now):
            return
        if arena.supervised.exits.total() - exits > _MOST_EXITS:
            message = (
                f"it cannot go on after {after}, and ended {_MOST_EXITS} times: see {arena.supervised.current.log}"
            )
            raise ChaosError(message)
        if not arena.load.is_alive():
            raise ChaosError("the load has ended by itself")
        if time.monotonic() > deadline:
            message = f"it did not go on for {PATIENCE_S:g} s after {after}: see {arena.folder}"
            raise ChaosError(message)
        time.sleep(_POLL_S)

"""What a fault is seen to do. One that did nothing, because what it was done to was away just then, does not count."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from integration_tests.chaos.arena import Arena
from integration_tests.chaos.plan import Fault

_SOON_S: Final = 20.0
_POLL_S: Final = 0.05


@dataclass(slots=True)
class Effect:
    """Of one fault; final when the fault has ended."""

    is_seen: bool = False


Action = Callable[[Arena, Fault], AbstractContextManager[Effect]]
"""The fault begins with the block and ends with it."""


def soon(condition: Callable[[], bool], within_s: float = _SOON_S) -> bool:
    """Blocks until this holds; False if it does not within this time."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True

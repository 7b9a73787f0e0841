"""Waits for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(holds: Callable[[], bool], timeout_s: float = 20, look_s: float = 0.01) -> None:
    """Block until the condition holds. Fail after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, f"it did not happen within {timeout_s:g} s"
        time.sleep(look_s)

"""Queries of one process start a few at a time, because each starts a Python process that must connect soon."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

_AT_ONCE: Final = 4
"""On two cores 200 started at once, and 70 of them failed: "Python worker failed to connect back"."""
_LONGEST_S: Final = 10.0
"""As long as Spark waits for the process that plans a query."""
_POLL_S: Final = 0.2

_starts: Final = set["QueryStart"]()
_lock: Final = threading.Lock()


@dataclass(slots=True, eq=False)
class QueryStart:
    """One of the queries that start now. Another takes its place after ten seconds, even if a call into Spark hangs."""

    until_s: float

    def look(self, has_started: Callable[[], bool]) -> None:
        """Let another query start, if this one has started. Does not block."""
        if self in _starts and has_started():
            self.end()

    def end(self) -> None:
        """Let another query start."""
        with _lock:
            _starts.discard(self)


@contextmanager
def started(is_stopping: Callable[[], bool]) -> Iterator[QueryStart | None]:
    """Around a query: begins once fewer than four others start. None if it is to stop instead. Blocks until then."""
    while (start := _begin(time.monotonic())) is None:
        if is_stopping():
            yield None
            return
        time.sleep(_POLL_S)
    try:
        yield start
    finally:
        start.end()


def _begin(now_s: float) -> QueryStart | None:
    with _lock:
        _starts.difference_update([each for each in _starts if each.until_s < now_s])
        if len(_starts) >= _AT_ONCE:
            return None
        start = QueryStart(now_s + _LONGEST_S)
        _starts.add(start)
        return start

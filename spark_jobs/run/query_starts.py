"""Queries of one process start a few at a time, because each starts a Python process that must connect soon."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

_AT_ONCE: Final = 4
"""Of 200 that started at once on two cores, Spark ended 70: "Python worker failed to connect back"."""
_LONGEST_S: Final = 10.0
"""As long as Spark waits for the process that plans a query."""
_POLL_S: Final = 0.2

_places: Final = threading.BoundedSemaphore(_AT_ONCE)


@dataclass(slots=True)
class QueryStart:
    """One of the queries that start now. Belongs to the thread of its query."""

    _until_s: float = field(default_factory=lambda: time.monotonic() + _LONGEST_S)
    _is_over: bool = False

    def look(self, has_started: Callable[[], bool]) -> None:
        """Let another query start, if this one has started, or has not within ten seconds. Does not block."""
        if not self._is_over and (has_started() or time.monotonic() > self._until_s):
            self.end()

    def end(self) -> None:
        """Let another query start, if none was let so far."""
        if not self._is_over:
            self._is_over = True
            _places.release()


@contextmanager
def started(is_stopping: Callable[[], bool]) -> Iterator[QueryStart | None]:
    """Around a query: begins once fewer than four others start. None if it is to stop instead. Blocks until then."""
    while not _places.acquire(timeout=_POLL_S):
        if is_stopping():
            yield None
            return
    start = QueryStart()
    try:
        yield start
    finally:
        start.end()

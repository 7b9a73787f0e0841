"""How a running pipeline is told to stop, and how it sees to it that nothing stays prepared."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

_POLL_S: Final = 0.2


def pause(delay_s: float, is_stopping: Callable[[], bool]) -> bool:
    """Block for so long, or until somebody asks to stop. False: somebody has."""
    until_s = time.monotonic() + delay_s
    while not is_stopping() and (left_s := until_s - time.monotonic()) > 0:
        time.sleep(min(left_s, _POLL_S))
    return not is_stopping()


class StopRequestedError(Exception):
    """Raised inside `foreachBatch` to end the query before the next checkpoint begins. Never seen outside."""


class Cancellable(Protocol):
    """The checkpoint under way."""

    def cancel(self, reason: str) -> None:
        """End its job, so that it is aborted."""


@dataclass(slots=True)
class StopControl:
    """Shared by the thread that waits for the query, Spark's thread that runs checkpoints, and the signal handler.

    The handler only assigns plain attributes: it may interrupt the waiting thread anywhere, also inside a lock or a
    call to the JVM. So it must not take a lock or call the JVM itself.
    """

    requested: str = ""  # why; empty while nobody asked
    abort_running: bool = False  # do not wait for the running checkpoint: abort it
    restart_requested: bool = False  # end the query after its checkpoint, and start a new one
    caught_up: bool = False  # end the query after its checkpoint: it has nothing to read, and Spark would not end it
    _resumed: threading.Event = field(default_factory=threading.Event, init=False)
    _idle: threading.Event = field(default_factory=threading.Event, init=False)
    _running: Cancellable | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._idle.set()
        self._resumed.set()

    def pause(self) -> None:
        """Let no checkpoint begin. The running one ends as usual: `is_idle` says when."""
        self._resumed.clear()

    def resume(self) -> None:
        """Let checkpoints begin."""
        self._resumed.set()

    def is_paused(self) -> bool:
        """Whether no checkpoint may begin."""
        return not self._resumed.is_set()

    def is_idle(self) -> bool:
        """Whether no checkpoint runs. Invariant: once it is true after `pause`, none runs before `resume`."""
        return self._idle.is_set()

    def is_stopping(self) -> bool:
        """Whether somebody asked to stop."""
        return bool(self.requested)

    def ends_query(self) -> bool:
        """Return whether the query must not begin another checkpoint: for a stop, a restart, or as it has caught up."""
        return self.is_stopping() or self.restart_requested or self.caught_up

    def ending(self) -> Literal["stopped", "caught up"]:
        """How a run has ended that did not fail."""
        return "stopped" if self.is_stopping() else "caught up"

    @contextmanager
    def checkpoint(self, batch: Cancellable) -> Iterator[None]:
        """Around one checkpoint, in Spark's thread. Blocks before it while the run is paused.

        Raises StopRequestedError instead of beginning a new one.
        """
        self._begin()
        try:
            if self.ends_query():
                raise StopRequestedError
            self._running = batch
            yield
        finally:
            self._running = None
            self._idle.set()

    def _begin(self) -> None:
        """Clear `_idle` before the last check for a pause: the request loop checks in the opposite order."""
        while True:
            while self.is_paused() and not self.ends_query():
                self._resumed.wait(_POLL_S)
            self._idle.clear()
            if not self.is_paused() or self.ends_query():
                return
            self._idle.set()

    def wait_until_idle(self, poll_s: float = 0.1) -> None:
        """Block until no checkpoint is under way. A second request to stop cancels the running one."""
        while not self._idle.wait(poll_s):
            running = self._running
            if self.abort_running and running is not None:
                running.cancel(self.requested)  # again and again: its job may not have begun the last time

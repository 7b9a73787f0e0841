"""A pause: the run takes no checkpoint, and keeps its claim, until it is resumed.

The wish is stored beside the requests, so the next start is paused too. Two gates hold a paused run: nothing is
planned, and a batch that is planned already waits before its checkpoint begins.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from spark_jobs.observe.report import Listener
from spark_jobs.run.control import StopControl
from twophase.head_value import HeadValue
from twophase.requests import Answer, Channel, Request

_log = logging.getLogger("eos.runner")

_POLL_S: Final = 0.1


class Pace(Protocol):
    """The pacing of one query."""

    def pause(self, *, paused: bool) -> None:
        """Plan nothing while `paused`."""


class Pausing:
    """The pause of one run, over all its queries. Used by the request loop, and by the thread that runs queries."""

    def __init__(
        self, control: StopControl, channel: Channel, listener: Listener, reply: Callable[[Request, Answer], None]
    ) -> None:
        """`reply`: answers a request; never blocks."""
        self._control = control
        self._channel = channel
        self._listener = listener
        self._reply = reply
        self._pace: Pace | None = None
        self._head: Callable[[], HeadValue] | None = None
        self._over = threading.Event()
        self._lock = threading.Lock()  # around a change of the pause and of the query that it holds
        self._waiting: list[threading.Thread] = []

    def begin(self) -> None:
        """Take up the stored wish, before the first query. Raises HeadError."""
        found = self._channel.paused()
        if found is not None:
            since = datetime.fromtimestamp(found.at, UTC).isoformat(timespec="seconds")
            _log.warning(
                "the pipeline is paused since %s by %s; `eos resume` lets it take checkpoints", since, found.by
            )
            self._control.pause()

    def follow(self, head: Callable[[], HeadValue] | None, pace: Pace | None = None) -> None:
        """Attach a query that has started, paused if the run is. None: detach. Raises HeadError."""
        with self._lock:
            self._head, self._pace = head, pace
            if pace is not None and self._control.is_paused():
                pace.pause(paused=True)

    def pause(self, request: Request) -> Answer | None:
        """Handle a request to pause. It is answered once no checkpoint runs. Raises HeadError."""
        self._channel.pause(request.asked_by)
        self._set(paused=True)
        run = copy_context().run
        thread = threading.Thread(target=run, args=(self._await_idle, request), name="eos-pausing", daemon=True)
        self._waiting = [each for each in self._waiting if each.is_alive()] + [thread]
        thread.start()
        return None

    def resume(self, request: Request) -> Answer:
        """Handle a request to resume. Raises HeadError."""
        del request
        self._channel.resume()
        was_paused = self._control.is_paused()
        self._set(paused=False)
        message = "resumed" if was_paused else "the pipeline was not paused"
        return Answer(ok=True, message=message, facts=self._facts())

    def close(self) -> None:
        """Answer open requests: the run has ended. Blocks for an instant."""
        self._over.set()
        for thread in self._waiting:
            thread.join()

    def _set(self, *, paused: bool) -> None:
        with self._lock:
            if paused:
                self._control.pause()
            if self._pace is not None:
                self._pace.pause(paused=paused)
            if not paused and self._control.is_paused():
                self._control.resume()
                if self._pace is not None:
                    self._listener.on_state("running")

    def _await_idle(self, request: Request) -> None:
        while not self._over.wait(_POLL_S):
            with self._lock:  # a resume before or after it, and not between
                if not self._control.is_paused():
                    message = "the pipeline was resumed before its checkpoint had ended"
                    self._reply(request, Answer(ok=False, message=message))
                    return
                if self._control.is_idle():
                    if self._pace is not None:
                        self._listener.on_state("paused")
                    self._reply(request, Answer(ok=True, message="paused", facts=self._facts()))
                    return
        self._reply(request, Answer(ok=False, message="the run has ended; its next start is paused"))

    def _facts(self) -> dict[str, Any]:
        head_of = self._head  # another thread resets it when the query ends
        if head_of is None:
            return {}
        head = head_of()
        return {"completed": head.completed, "committed": head.committed, "at": time.time()}

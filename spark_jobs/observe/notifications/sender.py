"""The thread that sends notices to one endpoint. Its queue is bounded, so an endpoint that is away costs notices."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import replace
from typing import Final

from connectors.spec.notifications import Notification
from spark_jobs.observe.notifications.notice import Notice, body
from spark_jobs.observe.notifications.webhook import RejectedError, UnavailableError, post
from twophase.retry import retrying

_log = logging.getLogger("eos.notifications")

MOST: Final = 100
"""Notices that wait. A further one displaces the oldest."""
_DEADLINE_S: Final = 120.0  # of one notice, with its attempts
_WAITS_S: Final = (1.0, 30.0)  # the first pause between two attempts, and the longest


class Sender:
    """The queue and thread of one endpoint. `send` may be called from any thread, and returns at once."""

    def __init__(self, entry: Notification, request: Callable[..., None] = post) -> None:
        self.entry = entry
        self._request = request
        self._waiting: deque[Notice] = deque()
        self._more = threading.Condition()
        self._is_over = False
        self._hurry = threading.Event()  # no attempt waits any more
        self._lost = 0
        run = copy_context().run
        name = f"eos-notify {entry.name}"
        self._thread = threading.Thread(target=run, args=(self._work,), name=name, daemon=True)
        self._thread.start()

    def send(self, notice: Notice) -> None:
        """Queue a notice."""
        with self._more:
            self._waiting.append(notice)
            if len(self._waiting) > MOST:
                self._waiting.popleft()
                self._lost += 1
            self._more.notify()

    def finish(self) -> None:
        """Send what waits, with one attempt for each, and end. Does not block: see `join`."""
        with self._more:
            self._is_over = True
            self._more.notify()
        self._hurry.set()

    def join(self, until_s: float) -> None:
        """Block until the thread has ended, or until that time of the monotonic clock."""
        self._thread.join(max(until_s - time.monotonic(), 0.0))
        if self._thread.is_alive():
            _log.warning("notification %s: the last messages were not sent in time", self.entry.name)

    def _work(self) -> None:
        while (notice := self._next()) is not None:
            self._deliver(notice)

    def _next(self) -> Notice | None:
        """None: it is over."""
        with self._more:
            while not self._waiting and not self._is_over:
                self._more.wait()
            if not self._waiting:
                return None
            notice, lost, self._lost = self._waiting.popleft(), self._lost, 0
        return replace(notice, repeated=notice.repeated + lost)

    def _deliver(self, notice: Notice) -> None:
        first_s, longest_s = _WAITS_S
        policy = retrying(
            UnavailableError, deadline_s=_DEADLINE_S, wait_s=first_s, max_wait_s=longest_s, over=self._hurry
        )
        try:
            policy(lambda: self._request(self.entry.url.reveal(), body(self.entry, notice), self.entry.headers))
        except (UnavailableError, RejectedError) as error:
            _log.warning("notification %s: a message about %s is not sent: %s", self.entry.name, notice.event, error)
        except Exception:  # noqa: BLE001 no error of a notification may end the thread, or reach the pipeline
            _log.exception("notification %s: a message about %s is not sent", self.entry.name, notice.event)

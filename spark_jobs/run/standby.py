"""A driver that waits until no other driver runs the pipeline, with Spark already started.

A standby sends a request to the running driver each second, through the requests beside head, which any machine sees.
It begins if no answer arrives for `SILENCE_S`, or if the process of a driver on this machine has ended. This decides
only when to begin: head keeps two drivers apart (R1). If the other driver was only slow, it is fenced.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from connectors.registry import open_requests
from connectors.spec import Spec
from eos.errors import HeadError
from spark_jobs.observe.run_lock import RunLock, running
from spark_jobs.run.control import pause
from twophase.requests import ALIVE, Channel

_log: Final = logging.getLogger("eos.runner")

SILENCE_S: Final = 5.0
"""The time for which a driver that has answered before may give no answer."""

_EVERY_S: Final = 1.0
_EXPIRES_S: Final = 600.0
"""By the clock of the driver's machine, which may differ by this. The standby withdraws the request long before."""
_POLL_S: Final = 0.1
_POLLS: Final = 3
"""A driver that has not answered yet may miss so many polls. After the first request it polls each second."""


def await_turn(spec: Spec, is_stopping: Callable[[], bool], on_state: Callable[[str], None]) -> bool:
    """Block until no driver runs the pipeline. False: this process is stopping, or a request stopped the pipeline.

    Called in a thread of the pipeline, before each run. Waits while head does not answer, since no driver can start.
    """
    with open_requests(spec) as channel:
        stops, was_heard, last = _Stops(channel), False, ""
        while not is_stopping():
            lock = _running(spec)
            if lock is None and not spec.checkpoint.is_shared:
                return not stops.has_new()
            wait_s = SILENCE_S if was_heard else SILENCE_S + _POLLS * channel.blobs.poll_interval_s
            state = f"standby for {_named(lock)}"
            if state != last:
                on_state(state)
                last = state
            heard = _is_heard(spec, channel, lock, wait_s, is_stopping)
            if heard is not None:
                was_heard = was_heard or heard
                if stops.has_new():
                    return False
                if not heard:
                    return not is_stopping()
            pause(_EVERY_S, is_stopping)
    return False


def _is_heard(
    spec: Spec, channel: Channel, lock: RunLock | None, wait_s: float, is_stopping: Callable[[], bool]
) -> bool | None:
    """Whether a driver answers in time; None: unknown, since head does not answer."""
    until_s = time.monotonic() + wait_s
    try:
        request = channel.ask(ALIVE, {}, asked_by="a standby", patience_s=_EXPIRES_S)
        while time.monotonic() < until_s and not is_stopping():
            if channel.answer_of(request) is not None:
                channel.forget(request)
                return True
            if lock is not None and _running(spec) is None:  # its process has ended
                break
            time.sleep(max(_POLL_S, channel.blobs.poll_interval_s / 5))
        answer = channel.withdraw(request)
        channel.forget(request)
        return answer is not None
    except HeadError as error:
        _log.warning("the standby cannot look for the running driver: %s", error.message)
        return None


class _Stops:
    """The requests that stop the pipeline while this standby waits. A driver notes one before it ends."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._before = self._newest()

    def has_new(self) -> bool:
        """Return whether a request has stopped the pipeline since; False also where head does not answer."""
        newest = self._newest()
        if self._before is None:
            self._before = newest
        if newest in (None, self._before):
            return False
        _log.info("the pipeline was stopped by a request, and its standby ends")
        return True

    def _newest(self) -> str | None:
        try:
            return self._channel.stopped()
        except HeadError:
            return None


def _running(spec: Spec) -> RunLock | None:
    try:
        return running(spec)
    except HeadError:
        return None


def _named(lock: RunLock | None) -> str:
    return f"process {lock.pid} at {lock.host}" if lock is not None else "a driver on another machine"

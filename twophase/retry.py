"""Every retry policy of the framework, and the only use of tenacity. A policy names the error class that it retries."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import TypeVar

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    sleep_using_event,
    stop_after_delay,
    stop_when_event_set,
    wait_exponential_jitter,
)

from eos.errors import SinkUnavailableError

_log = logging.getLogger("eos.retry")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the driver waits for a sink that is away, before the pipeline fails and its restart strategy decides."""

    deadline_s: float = 60.0
    first_wait_s: float = 0.05
    max_wait_s: float = 5.0
    over: Event = field(default_factory=Event, compare=False)  # once it is set, nothing is waited for

    def call(self, what: str, action: Callable[[], T]) -> T:
        """Run `action`, again after a SinkUnavailableError: whole and idempotent calls only (R7, H14). Blocks.

        Raises the last SinkUnavailableError after `deadline_s`, or once it is `over`; any other error at once.
        """

        def report(state: RetryCallState) -> None:
            error = state.outcome.exception() if state.outcome is not None else None
            _log.warning("%s: %s; trying again", what, getattr(error, "message", error))

        retrying = Retrying(
            retry=retry_if_exception_type(SinkUnavailableError),
            wait=wait_exponential_jitter(multiplier=self.first_wait_s, max=self.max_wait_s, jitter=self.first_wait_s),
            stop=stop_after_delay(self.deadline_s) | stop_when_event_set(self.over),
            sleep=sleep_using_event(self.over),
            before_sleep=report,
            reraise=True,
        )
        return retrying(action)

    def wait_s(self, repeated: int) -> float | None:
        """How long to wait before the commit that was answered "retry later" `repeated` times; None: give up."""
        waits = [min(self.first_wait_s * 2**k, self.max_wait_s) for k in range(repeated)]
        return None if sum(waits) > self.deadline_s or (waits and self.over.is_set()) else (waits[-1] if waits else 0.0)

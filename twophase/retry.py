"""Every retry policy of the framework, and the only use of tenacity. A policy names the errors that it retries."""

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
from twophase.failure_lines import FailureLines

_log = logging.getLogger("eos.retry")

T = TypeVar("T")


def retrying(
    *errors: type[Exception],
    deadline_s: float,
    wait_s: float,
    max_wait_s: float | None = None,
    over: Event | None = None,
    report: Callable[[int, BaseException | None], None] = lambda attempts, error: None,
) -> Retrying:
    """Return a policy: `retrying(E, deadline_s=5, wait_s=0.1)(action)` runs `action` again after each E.

    The call blocks. It raises the last error after `deadline_s` or once `over` is set, and any other error at once.
    `report` is called before each pause. The first pause is `wait_s`; the pauses double up to `max_wait_s`, or stay the
    same without it.
    """
    over = over if over is not None else Event()

    def before_sleep(state: RetryCallState) -> None:
        report(state.attempt_number, state.outcome.exception() if state.outcome is not None else None)

    return Retrying(
        retry=retry_if_exception_type(errors),
        wait=wait_exponential_jitter(
            multiplier=wait_s,
            max=max_wait_s if max_wait_s is not None else wait_s,
            jitter=wait_s if max_wait_s is not None else 0.0,
        ),
        stop=stop_after_delay(deadline_s) | stop_when_event_set(over),
        sleep=sleep_using_event(over),
        before_sleep=before_sleep,
        reraise=True,
    )


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

        lines = FailureLines()

        def report(_attempts: int, error: BaseException | None) -> None:
            assert error is not None
            _log.warning("%s: %s; retrying", what, lines.line(error))

        policy = retrying(
            SinkUnavailableError,
            deadline_s=self.deadline_s,
            wait_s=self.first_wait_s,
            max_wait_s=self.max_wait_s,
            over=self.over,
            report=report,
        )
        return policy(action)

    def wait_s(self, repeated: int) -> float | None:
        """How long to wait before the commit that was answered "retry later" `repeated` times; None: give up."""
        waits = [min(self.first_wait_s * 2**k, self.max_wait_s) for k in range(repeated)]
        return None if sum(waits) > self.deadline_s or (waits and self.over.is_set()) else (waits[-1] if waits else 0.0)

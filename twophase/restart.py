"""Restart strategies: what a failed pipeline does next. Pure: the caller gives the time and the random number."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


class RestartStrategy(Protocol):
    """Decides after each failure that a restart may cure."""

    def next_delay_s(self, now_s: float, random: float) -> float | None:
        """Called once for each failure. Seconds to wait before the restart, or None: the pipeline stays failed.

        Args:
            now_s: monotonic time of the failure.
            random: uniform in [0, 1), for jitter.
        """


@dataclass(slots=True)
class NoRestart:
    """`none`: the first failure is the last."""

    def next_delay_s(self, now_s: float, random: float) -> float | None:
        return None


@dataclass(slots=True)
class FixedDelay:
    """`fixed-delay`: at most `attempts` restarts, `delay_s` apart."""

    attempts: int
    delay_s: float
    used: int = field(default=0, init=False)

    def next_delay_s(self, now_s: float, random: float) -> float | None:
        self.used += 1
        return self.delay_s if self.used <= self.attempts else None


@dataclass(slots=True)
class FailureRate:
    """`failure-rate`: restarts `delay_s` after each failure, until more have come in one interval than may."""

    max_failures: int  # in any time of `interval_s`
    interval_s: float
    delay_s: float
    failures_s: list[float] = field(default_factory=list, init=False)  # the newest, in order

    def next_delay_s(self, now_s: float, random: float) -> float | None:
        self.failures_s = [*(each for each in self.failures_s if now_s - each < self.interval_s), now_s]
        return self.delay_s if len(self.failures_s) <= self.max_failures else None


@dataclass(slots=True)
class ExponentialDelay:
    """`exponential-delay`: the wait grows with each failure and falls back after a time without one."""

    initial_delay_s: float = 1.0
    max_delay_s: float = 60.0
    multiplier: float = 2.0
    jitter: float = 0.1  # the wait varies by up to this share, up or down
    reset_after_s: float = 3600.0  # so long without a failure, and the next one counts as the first
    attempts: int | None = None  # None: without end
    used: int = field(default=0, init=False)
    last_failure_s: float | None = field(default=None, init=False)

    def next_delay_s(self, now_s: float, random: float) -> float | None:
        if self.last_failure_s is not None and now_s - self.last_failure_s >= self.reset_after_s:
            self.used = 0
        self.last_failure_s = now_s
        self.used += 1
        if self.attempts is not None and self.used > self.attempts:
            return None
        exponent = min(self.used - 1, 64)  # beyond that the power overflows long after the maximum is reached
        delay = min(self.initial_delay_s * self.multiplier**exponent, self.max_delay_s)
        return delay * (1 + self.jitter * (2 * random - 1))

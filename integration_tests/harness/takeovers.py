"""Time from the kill of a driver to the first commit of the next one, and its goal on a machine that others use."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from integration_tests.harness.pipeline import Pipeline

WARM_S: Final = 15.0
COLD_S: Final = 30.0
"""Goals for the time from `kill -9` to the first commit of the next driver, on two idle cores: with a standby, and with
a driver that starts after the kill."""

_LONGEST_S: Final = 300.0
_SPIN_S: Final = 0.5


def slowdown() -> float:
    """Return how many times longer work takes than with a free core: 1.0 on an idle machine."""
    began_s, spun_s = time.monotonic(), time.thread_time()
    while time.thread_time() - spun_s < _SPIN_S:
        pass
    return max(1.0, (time.monotonic() - began_s) / _SPIN_S)


@dataclass(frozen=True, slots=True)
class Takeover:
    """One takeover, in seconds after the kill. `slowdown`: the mean of before and after it."""

    first_s: float
    all_s: float
    slowdown: float

    def __str__(self) -> str:
        return (
            f"{self.first_s:.1f} s from the kill to the first commit of the next driver, "
            f"{self.all_s:.1f} s to the last; the machine is {self.slowdown:.1f} times slower than an idle one"
        )


def await_rows(pipeline: Pipeline, seconds: float = _LONGEST_S, *, count: int | None = None) -> float:
    """Wait until so many records are visible; None: until every record is. Return how long that took."""
    wanted = len(pipeline.workload.expected) if count is None else count
    began_s = time.monotonic()
    while (found := pipeline.table.count()) < wanted:
        assert time.monotonic() - began_s < seconds, f"{found} of {wanted} rows after {seconds:g} s"
        time.sleep(0.05)
    return time.monotonic() - began_s


def await_takeover(pipeline: Pipeline, killed_s: float, slowdown_before: float) -> Takeover:
    """Wait until the driver that follows a kill has committed every record.

    `killed_s`: of `time.monotonic`, before the kill. Records of several checkpoints must be left.
    """
    left = pipeline.table.count()
    assert left < len(pipeline.workload.expected), "the killed driver has committed every record"
    await_rows(pipeline, count=left + 1)
    first_s = time.monotonic() - killed_s
    await_rows(pipeline)
    all_s = time.monotonic() - killed_s
    return Takeover(first_s, all_s, (slowdown_before + slowdown()) / 2)


def assert_within(goal_s: float, takeovers: list[Takeover]) -> None:
    """The fastest one meets the goal, which is longer by the slowdown of the machine meanwhile."""
    found = ", ".join(map(str, takeovers))
    assert min(each.first_s / each.slowdown for each in takeovers) < goal_s, f"goal {goal_s:g} s: {found}"

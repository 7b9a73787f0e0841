"""How an epoch ends: sinks that are behind are waited for, and what a thread that commits has raised is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException

from spark_jobs.control import StopControl, StopRequestedError
from spark_jobs.epoch import Epoch
from spark_jobs.report import Listener
from twophase.errors import LostCommittableError, PrepareError


@dataclass
class _Driver:
    lost: LostCommittableError | None = None
    drained: int = 0

    def check(self) -> None:
        if self.lost is not None:
            raise self.lost

    def drain(self) -> None:
        self.drained += 1
        self.check()


class _Query:
    """Ends by the error of its last batch."""

    def awaitTermination(self, _: float) -> bool:  # noqa: N802
        raise PySparkException("the batch raised")

    def stop(self) -> None:
        pass


class _Pacing:
    def stop(self) -> None:
        pass


class _OnDemand:
    def look(self) -> None:
        pass


class _Started(Epoch):
    def _start(self, *, until_caught_up: bool) -> Any:
        return _Query()


def _run(driver: _Driver, failure: BaseException, *, stopping: bool) -> None:
    control = StopControl("SIGTERM received" if stopping else "")
    rest: Any = (Listener(), driver, None, [], None, _Pacing(), _OnDemand(), None, None)
    _Started(cast(Any, None), control, *rest, failure=failure).run(until_caught_up=False)


def test_a_stop_between_two_batches_waits_for_sinks_that_are_behind() -> None:
    driver = _Driver()
    _run(driver, StopRequestedError(), stopping=True)
    assert driver.drained == 1


def test_a_stop_hides_nothing_that_a_thread_has_raised() -> None:
    with pytest.raises(LostCommittableError):
        _run(_Driver(LostCommittableError("gone")), StopRequestedError(), stopping=True)
    with pytest.raises(LostCommittableError):
        _run(_Driver(LostCommittableError("gone")), PrepareError("cancelled"), stopping=True)


def test_who_fails_waits_for_nobody() -> None:
    driver = _Driver()
    with pytest.raises(PrepareError):
        _run(driver, PrepareError("a task failed"), stopping=False)
    assert driver.drained == 0

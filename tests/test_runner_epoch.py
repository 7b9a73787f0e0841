"""How an epoch ends: sinks that are behind are waited for, and what a thread that commits has raised is told."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from spark_jobs.control import StopControl, StopRequestedError
from spark_jobs.epoch import Epoch
from spark_jobs.report import Listener
from twophase.errors import LostCommittableError, PrepareError, SparkUnavailableError


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
    rest: Any = (Listener(), driver, None, [], None, _Pacing(), _OnDemand(), None, None, None)
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


def test_a_jvm_that_ends_between_a_decision_and_its_report_is_told_as_that() -> None:
    """Of a checkpoint the JVM is asked once more when it is decided: what the lag is."""

    def ask(_batch: object) -> object:
        raise Py4JNetworkError("Answer from Java side is empty")

    spec = SimpleNamespace(checkpoint=SimpleNamespace(timeout_s=60.0))
    driver = SimpleNamespace(owned=SimpleNamespace(completed=7))
    pipeline = SimpleNamespace(flow=SimpleNamespace(branches=()), stateful=False, letters=None, chain=None)
    pacing = SimpleNamespace(checkpoint=nullcontext)
    context = SimpleNamespace(getLocalProperty=str)
    frame = SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=context))
    rest: Any = (Listener(), driver, None, [], pipeline, pacing, None, None, None, None)
    epoch = _Started(cast(Any, spec), StopControl(), *rest)
    epoch._checkpoints = cast(Any, SimpleNamespace(complete=ask))
    with pytest.raises(Py4JNetworkError):
        epoch._on_batch(cast(Any, frame), 7)
    assert isinstance(epoch.failure, SparkUnavailableError)
    assert epoch.failure.message == "checkpoint 7 failed: Spark's JVM has ended"

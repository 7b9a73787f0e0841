"""How an epoch ends: sinks that are behind are waited for, and what a thread that commits has raised is told."""

from __future__ import annotations

import stat
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from eos.errors import LostCommittableError, PrepareError, SparkUnavailableError
from spark_jobs.observe.activity import TaskCounts
from spark_jobs.observe.lag import Lag
from spark_jobs.observe.report import Listener
from spark_jobs.observe.withheld import Poll
from spark_jobs.query.spark_log import LocalSparkLog
from spark_jobs.run.control import StopControl, StopRequestedError
from spark_jobs.run.query_run import QueryRun
from spark_jobs.run.query_starts import QueryStart
from spark_jobs.savepoints import plan as plans
from spark_jobs.savepoints.plan import Operator, Plan
from twophase.documents import LocalDocuments
from twophase.doing import Doing


@dataclass
class _Driver:
    lost: LostCommittableError | None = None
    drained: int = 0
    owned: str = "head"

    def check(self) -> None:
        if self.lost is not None:
            raise self.lost

    def drain(self) -> None:
        self.drained += 1
        self.check()


_NO_OPERATORS: Final = Plan(("orders",), (), {}, "")


class _Query:
    """Ends by the error of its last batch."""

    def awaitTermination(self, _: float) -> bool:  # noqa: N802
        raise PySparkException("the batch raised")

    def stop(self) -> None:
        pass


class _Pacing:
    def stop(self) -> None:
        pass


class _Lag:
    """A monitor that has measured nothing."""

    newest = Lag
    polls = list


class _OnDemand:
    def look(self) -> None:
        pass


class _Started(QueryRun):
    def _start(self, *, until_caught_up: bool) -> Any:
        return _Query()


def test_other_users_cannot_read_sparks_files(tmp_path: Path) -> None:
    """Spark creates its folders with the mode of the umask."""
    (location := tmp_path / "orders").mkdir(mode=0o755)
    seen: list[int] = []

    class Writer:
        def start(self) -> None:
            seen.append(stat.S_IMODE((location / "spark").stat().st_mode))

        def __getattr__(self, _name: str) -> Any:
            return lambda *_, **__: self

    none: Any = None
    pipeline: Any = SimpleNamespace(stateful=True, output_mode="append", rows=SimpleNamespace(writeStream=Writer()))
    driver: Any = SimpleNamespace(owned=SimpleNamespace(incarnation="i"))
    spec: Any = SimpleNamespace(pipeline="orders")
    log = LocalSparkLog(location)
    run = QueryRun(
        spec, none, Listener(), driver, log, [], pipeline, none, none, _NO_OPERATORS, none, cast(Any, _Lag())
    )
    run._start(until_caught_up=False)
    assert seen == [0o700]


def _run(driver: _Driver, failure: BaseException, *, stopping: bool) -> list[object]:
    """Return the heads at which a clean end was noted."""
    ended: list[object] = []
    control = StopControl("SIGTERM received" if stopping else "")
    none: Any = None
    steps: Any = driver
    pacing: Any = _Pacing()
    on_demand: Any = _OnDemand()
    log: Any = SimpleNamespace(note_end=ended.append)
    epoch = _Started(
        none,
        control,
        Listener(),
        steps,
        log,
        [],
        none,
        pacing,
        on_demand,
        _NO_OPERATORS,
        none,
        cast(Any, _Lag()),
        failure=failure,
    )
    epoch.run(until_caught_up=False)
    return ended


def test_a_stop_between_two_batches_waits_for_sinks_that_are_behind() -> None:
    driver = _Driver()
    assert _run(driver, StopRequestedError(), stopping=True) == [driver.owned]
    assert driver.drained == 1


def test_a_stop_hides_nothing_that_a_thread_has_raised() -> None:
    with pytest.raises(LostCommittableError):
        _run(_Driver(LostCommittableError("gone")), StopRequestedError(), stopping=True)
    with pytest.raises(LostCommittableError):
        _run(_Driver(LostCommittableError("gone")), PrepareError("cancelled"), stopping=True)


def test_a_stop_hides_no_error_of_the_checkpoint_that_it_met() -> None:
    with pytest.raises(LostCommittableError, match="of its batch"):
        _run(_Driver(), LostCommittableError("of its batch"), stopping=True)


def test_who_fails_waits_for_nobody() -> None:
    driver = _Driver()
    with pytest.raises(PrepareError):
        _run(driver, PrepareError("a task failed"), stopping=False)
    assert driver.drained == 0


class _Active:
    """Runs until it is stopped. Spark marks batch 7 as done at the third look, unless the query has `ended` before."""

    def __init__(self, commits: Path, *, ended: bool = False) -> None:
        self.ended = ended
        self.done_when_stopped: bool | None = None
        self._file = commits / "7"
        self._looks = 0

    @property
    def isActive(self) -> bool:  # noqa: N802
        self._looks += 1
        if self._looks == 3:
            self._file.touch()
        return not self.ended

    _jsq = SimpleNamespace(lastProgress=lambda: None)

    def awaitTermination(self, _: float) -> bool:  # noqa: N802
        return False

    def stop(self) -> None:
        self.done_when_stopped = self._file.exists()


@pytest.mark.parametrize(
    ("ended", "abort_running", "is_done"), [(False, False, True), (True, False, False), (False, True, False)]
)
def test_a_stop_lets_spark_mark_the_newest_checkpoint_as_done(
    tmp_path: Path, *, ended: bool, abort_running: bool, is_done: bool
) -> None:
    """Or else a start would run its batch again, and refuse it where a step was changed between the two."""
    commits = LocalSparkLog(tmp_path).folder("i" * 20) / "commits"
    commits.mkdir(parents=True)
    query = _Active(commits, ended=ended)
    driver = SimpleNamespace(owned=SimpleNamespace(completed=7, incarnation="i" * 20), check=lambda: None)
    withheld = SimpleNamespace(observe=lambda _: False, warn_if_overdue=lambda _: None)
    pacing = SimpleNamespace(stop=lambda: None, polls=tuple, has_caught_up=lambda _: False)
    log = LocalSparkLog(tmp_path)
    rest: Any = (Listener(), driver, log, [], None, pacing, _OnDemand(), _NO_OPERATORS, withheld, _Lag())
    epoch = _Started(cast(Any, None), StopControl(), *rest)
    epoch.control.requested, epoch.control.abort_running = "SIGTERM received", abort_running
    epoch._wait(cast(Any, query), QueryStart(0.0))
    assert query.done_when_stopped is is_done


def _on_batch(epoch: QueryRun, complete: Callable[[object], object]) -> None:
    context = SimpleNamespace(getLocalProperty=str)
    frame = SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=context))
    epoch._checkpoints = cast(Any, SimpleNamespace(complete=complete))
    epoch._on_batch(cast(Any, frame), 7)


def _epoch(log: Any = None, plan: Plan = _NO_OPERATORS) -> QueryRun:
    """Under whose driver checkpoint 7 is the newest that is decided."""
    place = getattr(log, "location", None)
    spec = SimpleNamespace(checkpoint=SimpleNamespace(timeout_s=60.0, at_least_once=False, location_at=place))
    driver = SimpleNamespace(owned=SimpleNamespace(completed=7, incarnation="i" * 20))
    pipeline = SimpleNamespace(flow=SimpleNamespace(branches=()), stateful=False, letters=None, chains=(), naming=())
    pacing = SimpleNamespace(checkpoint=nullcontext, took=lambda *_: None)
    log = log or SimpleNamespace(note_end=lambda _head: None)
    rest: Any = (Listener(), driver, log, [], pipeline, pacing, None, plan, None, _Lag())
    return _Started(cast(Any, spec), StopControl(), *rest)


def test_the_steps_are_kept_with_the_first_batch_and_not_before(tmp_path: Path) -> None:
    """Until then the state that there is was made by another query, whose steps a start compares with its own."""
    plan = Plan(("orders",), (Operator("counted", "Aggregate", ": count(int)"),), {}, "")
    epoch = _epoch(LocalSparkLog(tmp_path), plan)
    found: list[Plan | None] = []

    def complete(_batch: object) -> object:
        found.append(plans.kept(LocalDocuments(tmp_path), "i" * 20))
        return SimpleNamespace(replayed=False, records=1, duration_s=0.1)

    for _ in range(2):
        _on_batch(epoch, complete)
    assert [each and each.operators for each in found] == [None, plan.operators]


def test_a_jvm_that_ends_between_a_decision_and_its_report_is_told_as_that() -> None:
    """Of a checkpoint the JVM is asked once more when it is decided: what its plan took."""

    def ask(_batch: object) -> object:
        raise Py4JNetworkError("Answer from Java side is empty")

    epoch = _epoch()
    with pytest.raises(Py4JNetworkError):
        _on_batch(epoch, ask)
    assert isinstance(epoch.failure, SparkUnavailableError)
    assert epoch.failure.message == "checkpoint 7 failed: Spark's JVM has ended"


def test_a_run_shows_the_checkpoint_in_progress_and_the_wait_between_two() -> None:
    rest: Any = (None, Listener(), SimpleNamespace(doing=None), None, [], None)
    pacing = SimpleNamespace(schedule=SimpleNamespace(due_s=time.monotonic() + 5))
    withheld = SimpleNamespace(splits=[])
    build: Any = _Started
    epoch = build(rest[0], StopControl(), *rest[1:], pacing, None, _NO_OPERATORS, withheld, _Lag())
    idle = epoch.activity()
    assert (idle.phase, idle.checkpoint_id) == ("idle", None)
    assert idle.due_at is not None
    assert 3 < idle.due_at - time.time() <= 5
    pacing.schedule.due_s = time.monotonic()
    withheld.splits = [SimpleNamespace(reason="an open transaction")]
    assert "an open transaction" in epoch.activity().waits_for
    counts = TaskCounts(4, 1, 2, 0)
    epoch._batch, epoch._times = SimpleNamespace(checkpoint_id=7, task_counts=counts), (100.0, 0.0)
    assert (epoch.activity().phase, epoch.activity().tasks) == ("start", None)
    rest[2].doing = Doing("RunWriters", since=101.0)
    found = epoch.activity()
    assert (found.phase, found.checkpoint_id, found.started_at, found.tasks) == ("tasks", 7, 100.0, counts)


@pytest.mark.parametrize(
    ("begun", "batch", "unread", "has_started"),
    [
        (0, None, [], False),  # its source is not planned
        (0, None, [0], False),  # one of two is
        (0, None, [0, 0], True),
        (0, None, [0, 5], False),  # a checkpoint will follow
        (0, None, [0, None], False),
        (1, object(), [0, 5], False),
        (1, None, [0, 5], True),
        (1, None, [], True),  # a batch of an earlier start ran once more
    ],
)
def test_a_query_has_started_with_its_first_checkpoint_or_if_there_is_nothing_to_read(
    begun: int, batch: object, unread: list[int | None], *, has_started: bool
) -> None:
    none: Any = None
    pacing: Any = SimpleNamespace(begun=begun, polls=lambda: [Poll("orders", 0.0, "", {}, each) for each in unread])
    sources: list[Any] = [SimpleNamespace(skips_bad_records=False)] * 2
    rest: Any = (none, pacing, none, _NO_OPERATORS, none, _Lag())
    epoch = QueryRun(none, none, Listener(), none, none, sources, *rest)
    epoch._batch = cast(Any, batch)
    assert epoch._has_started() is has_started

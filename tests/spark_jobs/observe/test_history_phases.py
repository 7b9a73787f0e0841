"""Where the time of a checkpoint went: phases add up, however its tasks ran beside one another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.observe.history.model import PHASES, Acknowledgement, Phases
from spark_jobs.observe.history.phases import phases
from spark_jobs.observe.history.summary import distribution, summarize
from tests.history_values import checkpoint

DURATIONS = {"PutRecord": 0.25, "Swap decide": 0.25, "RunWriters": 9.0}


def task(number: int, end: float, read_s: float, write_s: float, prepare_s: float, sink: str = "s") -> Acknowledgement:
    return Acknowledgement(sink, number, number, 1, 1, end, read_s, write_s, prepare_s)


def test_tasks_side_by_side_are_scaled_to_the_time_in_which_any_of_them_worked() -> None:
    side_by_side = [task(0, 104.0, 1.0, 1.0, 1.0), task(1, 104.0, 2.0, 0.5, 0.5)]
    assert phases(100.0, 105.0, 106.0, DURATIONS, side_by_side) == Phases(
        start_s=2.0, read_s=1.5, write_s=0.75, prepare_s=0.75, decide_s=0.5, wait_s=0.0, commit_s=0.5
    )


def test_a_task_reads_once_for_all_of_its_sinks() -> None:
    two_sinks = [task(0, 103.9, 1.0, 0.5, 0.25, "a"), task(0, 104.0, 1.0, 1.0, 0.25, "b")]
    found = phases(100.0, 104.0, None, DURATIONS, two_sinks)
    assert (found.start_s, found.read_s, found.write_s, found.prepare_s) == (1.0, 1.0, 1.5, 0.5)
    assert (found.wait_s, found.commit_s) == (None, None), "sinks commit by themselves: not known yet"


def test_an_empty_checkpoint_is_all_start() -> None:
    found = phases(100.0, 100.4, 101.0, {"Swap note": 0.1}, [])
    assert found.start_s == pytest.approx(0.4)
    assert (found.read_s, found.decide_s) == (0.0, 0.1)


_seconds = st.floats(0.0, 10.0)


@given(tasks=st.lists(st.builds(task, st.integers(0, 9), st.floats(100.0, 110.0), _seconds, _seconds, _seconds)))
def test_they_add_up_to_the_duration(tasks: list[Acknowledgement]) -> None:
    """Also where the clocks of machines differ."""
    found = phases(100.0, 110.0, 112.0, DURATIONS, tasks)
    values = [value for _, value in found.items() if value is not None]
    assert sum(values) == pytest.approx(12.0)
    assert all(value >= -1e-9 for value in values)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=300))
def test_percentiles_are_values_that_occurred(values: list[int]) -> None:
    found = distribution(values)
    assert found is not None
    for share, value in ((0.5, found.p50), (0.95, found.p95), (0.99, found.p99), (1.0, found.max)):
        assert value in values
        assert sum(each <= value for each in values) >= share * len(values)
        assert sum(each < value for each in values) < share * len(values)


def test_a_summary_leaves_out_what_was_not_measured() -> None:
    made = [checkpoint(0), checkpoint(1, committed_at=checkpoint(1).started_at + 2.0, phases=Phases(plan_s=1.0))]
    found = summarize(made)
    assert (found.checkpoints, found.first_at, found.last_at) == (2, made[0].decided_at, made[1].decided_at)
    assert found.duration_s is not None
    assert (found.duration_s.count, found.duration_s.p50) == (1, 3.0)
    assert {name for name in PHASES if found.phases[name] is not None} == {"plan"}

"""When a checkpoint is due, who waits for it, and how many records it takes."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from connectors.spec.settings import CheckpointSettings
from eos.errors import HeadError
from spark_jobs.query.pacing.admission import AdaptiveAdmission, FixedAdmission
from spark_jobs.query.pacing.pacing import NAME, Pacing, Schedule, admission_of, paced
from spark_jobs.query.pacing.turns import Pace, PacedTurns


def begins(schedule: Schedule, durations_s: list[float], late_s: float = 0.0) -> list[float]:
    """When checkpoints begin that take so long, each planned so much after it is due, with records always there."""
    now, found = 100.0, []
    for duration_s in durations_s:
        now = max(now, schedule.due_s) + late_s
        found.append(now)
        schedule.began(now)
        now += duration_s
        schedule.ended(now)
    return found


def test_the_beat_is_kept_though_each_begin_is_a_little_late() -> None:
    found = begins(Schedule(2.0, 0.0), [0.5] * 50, late_s=0.1)
    assert found[-1] - found[0] == pytest.approx(2.0 * 49, abs=0.11)


def test_a_checkpoint_longer_than_the_interval_delays_the_next() -> None:
    assert begins(Schedule(2.0, 0.0), [0.5, 2.5, 0.5, 0.5, 7.0, 0.5, 0.5]) == [
        *(100.0, 102.0, 104.5, 106.5, 108.5),  # never sooner than an interval after the one before
        *(115.5, 117.5),
    ]


@given(st.floats(0, 10), st.floats(0, 10), st.lists(st.floats(0, 30), min_size=2, max_size=20), st.floats(0, 3))
def test_it_never_goes_faster_than_the_settings_say(
    interval_s: float, pause_s: float, durations_s: list[float], late_s: float
) -> None:
    found = begins(Schedule(interval_s, pause_s), durations_s, late_s)
    for begin, following, duration_s in zip(found, found[1:], durations_s, strict=False):
        assert following - begin >= duration_s + pause_s - 1e-6
    assert found[-1] - found[0] >= interval_s * (len(found) - 2) - 1e-6


def test_a_request_is_due_at_once_and_the_pause_is_none_of_its_business() -> None:
    schedule = Schedule(60.0, 30.0)
    schedule.began(100.0)
    schedule.ended(101.0)
    assert schedule.due_s == 160.0
    schedule.ask(105.0)
    assert schedule.due_s == 105.0
    schedule.began(105.0)
    assert schedule.due_s == 165.0


def test_a_request_while_a_checkpoint_is_under_way_is_due_at_its_end() -> None:
    schedule = Schedule(60.0, 30.0)
    schedule.began(100.0)
    schedule.ask(101.0)
    schedule.ended(105.0)
    assert schedule.due_s <= 105.0
    schedule.began(105.0)
    schedule.ended(150.0)
    assert schedule.due_s == 180.0, "once"


@pytest.fixture
def pace(tmp_path: Path) -> Path:
    return tmp_path / "pace.json"


def waits_s(turns: PacedTurns) -> float:
    before = time.monotonic()
    assert turns.next() is not None
    return time.monotonic() - before


def test_a_planner_waits_until_it_is_due(pace: Path) -> None:
    state = Pace(1, time.monotonic() + 0.5, 1000, 0.1)
    state.write(pace)
    turns = PacedTurns(pace, 3)
    found = turns.next()
    assert time.monotonic() >= state.due_s
    assert found is not None
    assert found.max_records == 333
    replace(state, max_records=2).write(pace)
    found = turns.next()
    assert found is not None
    assert found.max_records == 1, "never none at all"


@pytest.mark.parametrize("change", ["asked", "over"])
def test_a_planner_that_waits_hears_of_requests_and_of_the_end(pace: Path, change: str) -> None:
    state = Pace(1, time.monotonic() + 600, None, 0.1)
    state.write(pace)
    act = replace(state, due_s=0.0).write if change == "asked" else Path.unlink
    threading.Timer(0.2, act, [pace]).start()
    before = time.monotonic()
    turn = PacedTurns(pace, 1).next()
    assert 0.1 < time.monotonic() - before < 60
    assert (turn is not None) == (change == "asked")


def test_idle_looks_come_later_and_later_and_none_is_late_after_a_checkpoint(pace: Path) -> None:
    state = Pace(1, 0.0, None, 0.1)
    state.write(pace)
    turns = PacedTurns(pace, 1)
    turns.next()
    until, looks = time.monotonic() + 2, 0
    while time.monotonic() < until:
        turns.next()
        time.sleep(0.01)  # Spark's own, and the service's answer
        looks += 1
    assert looks < 80, "an idle pipeline asks and asks"
    turns._since_s = 0.0  # nothing has come for long
    replace(state, begun=2, idle_wait_s=60.0).write(pace)
    assert waits_s(turns) < 30


def test_a_request_ends_an_idle_wait(pace: Path) -> None:
    state = Pace(1, time.monotonic() - 100, None, 60.0)
    state.write(pace)
    turns = PacedTurns(pace, 1)
    turns.next()
    turns._since_s = 0.0  # nothing has come for long
    threading.Timer(0.2, replace(state, due_s=time.monotonic()).write, [pace]).start()
    assert waits_s(turns) < 30


def test_what_the_driver_writes_down(tmp_path: Path) -> None:
    settings = _settings(tmp_path)
    admission = FixedAdmission(7)
    with paced(settings, admission, until_caught_up=False) as pacing:
        first = _read(pacing)
        assert (first.begun, first.max_records) == (0, 7)
        assert first.due_s < time.monotonic()
        with pacing.checkpoint():
            pass
        assert _read(pacing).due_s - time.monotonic() == pytest.approx(5, abs=2)
        pacing.ask()
        assert _read(pacing).due_s <= time.monotonic()
        with pacing.checkpoint():
            pacing.stop()
        assert Pace.read(pacing.path) is None, "whatever ends after it"
    with paced(settings, admission, until_caught_up=True) as pacing, pacing.checkpoint():
        assert _read(pacing).due_s <= time.monotonic(), "who is to end waits for nothing"
    assert list((tmp_path / "run").iterdir()) == []


def _settings(location: Path) -> CheckpointSettings:
    return CheckpointSettings.model_construct(location=location, interval_s=5.0, min_pause_s=0.0)


def _read(pacing: Pacing) -> Pace:
    found = Pace.read(pacing.path)
    assert found is not None
    return found


_DIE = """
import os, sys
from pathlib import Path
from connectors.spec.settings import CheckpointSettings
from spark_jobs.query.pacing.admission import FixedAdmission
from spark_jobs.query.pacing.pacing import paced
settings = CheckpointSettings.model_construct(location=Path(sys.argv[1]), interval_s=5.0, min_pause_s=0.0)
with paced(settings, FixedAdmission(7), until_caught_up=False):
    os.kill(os.getpid(), 9)
"""


def test_a_query_has_caught_up_after_two_idle_plans_of_each_source_without_a_checkpoint(tmp_path: Path) -> None:
    """A checkpoint that only a new watermark needs begins between the two plans."""
    path = tmp_path / "pace.json"
    pacing = Pacing(Schedule(0.0, 0.0), FixedAdmission(7), path, ends_query=True)
    turns = {"a": pacing.turns(2), "b": pacing.turns(2)}

    def plan(*sources: str) -> bool:
        for each in sources:
            assert turns[each].next() is not None
            turns[each].nothing_new(each)
        return pacing.has_caught_up(2)

    assert not plan("a", "b")
    assert not plan("a")
    with pacing.checkpoint():
        assert not pacing.has_caught_up(2)
    assert not plan("b", "a")
    assert not plan("b")
    assert plan("a")
    pacing.ends_query = False
    assert not pacing.has_caught_up(2)


def test_what_a_killed_driver_leaves_is_swept_and_what_others_use_stays(tmp_path: Path) -> None:
    with paced(_settings(tmp_path), FixedAdmission(7), until_caught_up=False) as pacing:
        assert subprocess.run([sys.executable, "-c", _DIE, str(tmp_path)], check=False).returncode == -signal.SIGKILL
        assert len(list((tmp_path / "run").iterdir())) == 2
        with paced(_settings(tmp_path), FixedAdmission(7), until_caught_up=False) as other:
            assert {path.name for path in (tmp_path / "run").iterdir()} == {
                pacing.path.parent.name,
                other.path.parent.name,
            }


def test_a_pace_that_cannot_be_written_is_one_clear_error_and_a_stop_is_heard_all_the_same(tmp_path: Path) -> None:
    with paced(_settings(tmp_path), FixedAdmission(7), until_caught_up=False) as pacing:
        pacing.path.with_suffix(".partial").mkdir()  # as good as a full disk
        for use in (pacing.ask, pacing.checkpoint().__enter__):
            with pytest.raises(HeadError, match=f"{pacing.path} cannot be used"):
                use()
        pacing.stop()
        assert Pace.read(pacing.path) is None


class _Sink:
    """Takes so long for a checkpoint: what each takes, and each record."""

    def __init__(self, overhead_s: float, record_s: float, behind: int = 0) -> None:
        self.overhead_s, self.record_s = overhead_s, record_s
        self.sizes = [1] * behind  # of the checkpoints that it still commits

    def run(self, admission: AdaptiveAdmission, count: int, noise: list[float] | None = None) -> list[float]:
        """How long checkpoints take that are no probes."""
        durations = []
        for number in range(count):
            records, is_probe = admission.max_records, admission.max_records < admission.records
            self.sizes.append(records)
            factor = noise[number % len(noise)] if noise else 1.0
            duration_s = (self.overhead_s + self.record_s * self.sizes.pop(0)) * factor
            admission.observe(records, duration_s)
            durations += [] if is_probe else [duration_s]
        assert len(durations) >= 0.6 * count - 1
        return durations


_target = st.floats(0.5, 60)
_overhead = st.floats(0, 0.45)  # of the target
_rate = st.floats(1e3, 1e6)  # records/s
_AT_MOST = 2.15  # `admission._PROBE` derives 2.12 for noise of 1.25; records are rounded to whole ones


@given(_target, _overhead, _rate, st.integers(0, 1))
def test_under_backlog_checkpoints_come_to_take_what_they_should(
    target_s: float, overhead: float, rate: float, behind: int
) -> None:
    admission, sink = AdaptiveAdmission(target_s, probes=not behind), _Sink(overhead * target_s, 1 / rate, behind)
    sink.run(admission, 40)
    durations = sink.run(admission, 20)
    assert all(0.7 * target_s <= each <= 1.4 * target_s for each in durations)
    assert len({round(each, 6) for each in durations[-5:]}) == 1, "it does not come to rest"


@given(_target, _overhead, _rate, st.lists(st.floats(0.8, 1.25), min_size=3, max_size=9))
@example(1.0, 0.4453125, 18486.0, [0.875, 0.8125, 1.25])  # each probe is a slow one
@example(1.0, 0.45, 18486.0, [1.25, *[0.8] * 8])
def test_noise_is_not_amplified(target_s: float, overhead: float, rate: float, noise: list[float]) -> None:
    """As the worst noise, see `_AT_MOST`. The lower bound is 1 / (1.25 * 1.25 * 1.05**2)."""
    admission, sink = AdaptiveAdmission(target_s), _Sink(overhead * target_s, 1 / rate)
    sink.run(admission, 60, noise)
    assert all(0.58 * target_s <= each <= _AT_MOST * target_s for each in sink.run(admission, 30, noise))


@given(_target, _overhead, _rate)
@example(1.0, 0.45, 18486.0)
@example(1.0, 0.4375, 1000.0)  # the number falls to where it is close enough
def test_the_worst_noise_is_not_amplified(target_s: float, overhead: float, rate: float) -> None:
    """All probes are slow and all others are quick, until one is slow as well."""
    admission = AdaptiveAdmission(target_s)

    def takes_s(records: int) -> float:
        return overhead * target_s + records / rate

    for _ in range(400):
        records = admission.max_records
        is_probe = records < admission.records
        admission.observe(records, takes_s(records) * (1.25 if is_probe else 0.8))
    assert 1.25 * takes_s(admission.records) <= _AT_MOST * target_s


@given(_target, _overhead, _rate, st.sampled_from([1 / 50, 1 / 5, 5, 50]))
def test_it_follows_a_sink_that_gets_slower_or_faster(
    target_s: float, overhead: float, rate: float, slower: float
) -> None:
    admission, sink = AdaptiveAdmission(target_s), _Sink(overhead * target_s, 1 / rate)
    sink.run(admission, 40)
    sink.record_s *= slower
    most = sink.record_s * 100 + sink.overhead_s  # fewer records than 100 are never taken
    found = sink.run(admission, 40)[20:]
    assert all(0.7 * target_s <= each <= max(1.4 * target_s, most) for each in found)


@given(_target, _overhead, _rate)
def test_an_outage_is_made_up_for_within_eight_checkpoints(target_s: float, overhead: float, rate: float) -> None:
    admission, sink = AdaptiveAdmission(target_s), _Sink(overhead * target_s, 1 / rate)
    sink.run(admission, 40)
    before = admission.records
    admission.observe(before, 600 + target_s)
    sink.run(admission, 8)
    assert 0.5 * before <= admission.records <= 2 * before


def _overruns_s(admission: AdaptiveAdmission, sink: _Sink, still_s: float = 0.0) -> list[float]:
    """The limits of the attempts that overrun, until one ends in time that is no probe."""
    limits_s: list[float] = []
    while True:
        records, is_probe = admission.max_records, admission.max_records < admission.records
        takes_s = still_s + sink.overhead_s + records * sink.record_s
        if takes_s <= admission.limit_s:
            admission.observe(records, takes_s)
            still_s = 0.0
            if is_probe:
                continue
            return limits_s
        limits_s.append(admission.limit_s)
        still_s = max(still_s - admission.limit_s, 0)
        assert admission.overrun()


@given(_target, _overhead, _rate, st.floats(1, 1e6))
@example(4.0, 0.1, 2e4, 5.0)
@example(4.0, 0.1, 2e4, 50.0)
def test_a_sink_that_gets_slower_while_a_checkpoint_is_written_meets_smaller_plans(
    target_s: float, overhead: float, rate: float, slower: float
) -> None:
    """The bounds of `admission._OVERRUN`, as long as a plan can be smaller."""
    admission, sink = AdaptiveAdmission(target_s), _Sink(overhead * target_s, 1 / rate)
    assert admission.limit_s == math.inf, "the first checkpoints also wait for Spark"
    durations = sink.run(admission, 40)
    limit_s, planned = admission.limit_s, admission.records
    assert max(2 * durations[-1], 8) <= limit_s <= max(3 * target_s, 8), "no checkpoint of before comes close to it"
    sink.record_s *= slower
    limits_s = _overruns_s(admission, sink)
    assume(admission.records > 100)
    assert sum(limits_s) < 2 * max(limits_s, default=1)
    bound_s = limit_s * (planned * sink.record_s / (limit_s - sink.overhead_s)) ** (1 / 3)
    assert max(limits_s, default=0) <= bound_s + 1e-6
    assert not _overruns_s(admission, sink), "what has been learned is kept"


def test_a_sink_that_stands_still_for_days_does_not_end_the_run_by_another_error() -> None:
    """Its checkpoint ends by `checkpoint.timeout` each time, and the restart strategy allows that."""
    admission = AdaptiveAdmission(1.0)
    admission.observe(admission.max_records, 1.0)
    for _ in range(2_000):
        assert admission.overrun()
    assert 1e9 < admission.limit_s < math.inf


@given(_target, _overhead, _rate, st.floats(0, 1e4))
def test_a_sink_that_stands_still_costs_no_more_than_as_long_again(
    target_s: float, overhead: float, rate: float, still_s: float
) -> None:
    admission, sink = AdaptiveAdmission(target_s), _Sink(overhead * target_s, 1 / rate)
    sink.run(admission, 40)
    limit_s = admission.limit_s
    limits_s = _overruns_s(admission, sink, still_s)
    assert sum(limits_s) <= 2 * still_s + limit_s
    assert max(limits_s, default=0) <= still_s + limit_s


@given(_target, _rate, st.floats(8, 1e3))
def test_a_sink_that_becomes_slow_however_few_records_come_is_not_planned_again_for_ever(
    target_s: float, rate: float, overhead_s: float
) -> None:
    admission, sink = AdaptiveAdmission(target_s), _Sink(0.0, 1 / rate)
    sink.run(admission, 40)
    sink.overhead_s = overhead_s
    overruns = 0
    for _ in range(60):
        takes_s = sink.overhead_s + admission.max_records * sink.record_s
        if takes_s > admission.limit_s:
            overruns += admission.overrun()
        else:
            admission.observe(admission.max_records, takes_s)
    assert overruns <= math.log2(overhead_s / 8) + 2


@given(st.floats(1.1, 20), _rate)
@example(2.0, 1e5)
def test_where_a_checkpoint_takes_too_long_however_small_half_of_its_time_goes_into_records(
    overhead_s: float, rate: float
) -> None:
    admission, sink = AdaptiveAdmission(1.0), _Sink(overhead_s, 1 / rate)
    sink.run(admission, 80)
    assert admission.records / rate >= 0.4 * overhead_s
    assert all(each <= 3 * overhead_s for each in sink.run(admission, 20))


@given(_target, _overhead, _rate, st.floats(1.1, 5))
@example(57.0, 0.45, 471568.0, 1.5)  # small probes of before fit again while the number falls
def test_a_checkpoint_that_comes_to_take_long_however_small_is_not_made_ever_smaller(
    target_s: float, overhead: float, rate: float, later: float
) -> None:
    admission, sink = AdaptiveAdmission(target_s), _Sink(overhead * target_s, 1 / rate)
    sink.run(admission, 40)
    before, sink.overhead_s = admission.records, later * target_s
    for _ in range(60):
        sink.run(admission, 1)
        assert admission.records >= before / 4


@given(st.lists(st.tuples(st.integers(-1, 2**40), st.floats(0, 1e9)), max_size=60), _target)
def test_whatever_happens_a_checkpoint_takes_something(seen: list[tuple[int, float]], target_s: float) -> None:
    admission = AdaptiveAdmission(target_s)
    for records, duration_s in seen:
        admission.observe(records, duration_s)
        assert 1 <= admission.max_records < 2**31
        assert admission.records >= 100


def test_a_checkpoint_that_took_all_there_was_says_nothing_of_more() -> None:
    admission = AdaptiveAdmission(2.0, records=100_000)
    for _ in range(100):
        admission.observe(50, 0.1)
    assert admission.max_records == 100_000
    admission.observe(50_000, 8.0)
    assert admission.max_records == 25_000, "but one that took too long for it does"


def test_what_was_learned_outlives_the_process(tmp_path: Path) -> None:
    settings = CheckpointSettings.model_construct(location=tmp_path, interval_s=0.0, max_records_per_checkpoint="auto")
    admission = admission_of(settings, behind=True)
    assert admission.max_records == 4_000
    admission.observe(4_000, 0.25)
    assert admission.max_records == admission_of(settings, behind=True).max_records == 8_000
    (tmp_path / NAME).write_text("{")
    assert admission_of(settings, behind=True).max_records == 4_000
    (tmp_path / NAME).unlink()
    assert admission_of(settings, behind=True).overrun()
    assert admission_of(settings, behind=True).max_records == 1_000, "nor are overruns forgotten"
    settings = settings.model_copy(update={"max_records_per_checkpoint": 5})
    fixed = admission_of(settings, behind=False)
    assert (fixed.max_records, fixed.limit_s, fixed.overrun()) == (5, math.inf, False)


def test_the_first_checkpoint_of_a_query_is_no_measure(tmp_path: Path) -> None:
    admission = AdaptiveAdmission(1.0, probes=False)
    pacing = Pacing(Schedule(0.0, 0.0), admission, tmp_path / "pace.json")
    for duration_s, after in ((6.0, 4_000), (0.1, 8_000)):
        with pacing.checkpoint():
            pacing.took(4_000, duration_s)
        pace = Pace.read(pacing.path)
        assert pace is not None
        assert pace.max_records == after

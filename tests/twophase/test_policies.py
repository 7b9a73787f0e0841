"""Restart strategies, retries of a call, and the points at which a test stops a process."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eos.errors import ConnectorError, FencedError, SinkUnavailableError, TargetError
from twophase import faults
from twophase.restart import ExponentialDelay, FailureRate, FixedDelay, NoRestart
from twophase.retry import Patience

BRIEF = Patience(deadline_s=0.2, first_wait_s=0.001, max_wait_s=0.01)


class TestRestart:
    """Delays after failures at given times."""

    def test_none(self) -> None:
        assert NoRestart().next_delay_s(0.0, 0.5) is None

    def test_fixed_delay(self) -> None:
        strategy = FixedDelay(attempts=3, delay_s=1.5)
        assert [strategy.next_delay_s(float(n), 0.5) for n in range(5)] == [1.5, 1.5, 1.5, None, None]

    def test_exponential_delay_grows_up_to_its_maximum(self) -> None:
        strategy = ExponentialDelay(initial_delay_s=1, max_delay_s=10, multiplier=2)
        assert [strategy.next_delay_s(float(n), 0.5) for n in range(6)] == [1, 2, 4, 8, 10, 10]

    def test_exponential_delay_begins_again_after_a_quiet_time(self) -> None:
        strategy = ExponentialDelay(initial_delay_s=1, max_delay_s=60, multiplier=2, reset_after_s=100)
        assert [strategy.next_delay_s(at, 0.5) for at in (0.0, 99.0, 199.0, 298.0)] == [1, 2, 1, 2]

    def test_exponential_delay_may_have_an_end(self) -> None:
        strategy = ExponentialDelay(attempts=2)
        assert [strategy.next_delay_s(float(n), 0.5) is None for n in range(4)] == [False, False, True, True]

    def test_failure_rate_gives_up_when_more_come_in_an_interval_than_may(self) -> None:
        strategy = FailureRate(max_failures=2, interval_s=10, delay_s=0.5)
        times = [0.0, 5.0, 10.0, 15.0, 24.0, 24.5]
        assert [strategy.next_delay_s(at, 0.5) for at in times] == [0.5, 0.5, 0.5, 0.5, 0.5, None]

    @given(st.integers(1, 5), st.floats(0.1, 100), st.lists(st.floats(0, 50), max_size=40))
    def test_failure_rate_counts_any_interval(self, most: int, interval_s: float, gaps_s: list[float]) -> None:
        strategy, now, times = FailureRate(most, interval_s, 1.0), 0.0, []
        for gap_s in gaps_s:
            now += gap_s
            times.append(now)
            recent = sum(now - each < interval_s for each in times)
            assert (strategy.next_delay_s(now, 0.5) is None) == (recent > most)

    @given(st.floats(0, 100), st.floats(0, 1000), st.floats(1, 100), st.floats(0, 1), st.floats(0, 1, exclude_max=True))
    def test_a_delay_is_never_negative_endless_or_above_its_maximum(
        self, initial: float, maximum: float, multiplier: float, jitter: float, random: float
    ) -> None:
        strategy = ExponentialDelay(initial, maximum, multiplier, jitter)
        for failure in range(200):
            delay = strategy.next_delay_s(float(failure), random)
            assert delay is not None
            assert math.isfinite(delay)
            assert 0 <= delay <= maximum * (1 + jitter)


def failing(times: int, error: ConnectorError) -> Callable[[], int]:
    calls = 0

    def call() -> int:
        nonlocal calls
        calls += 1
        if calls <= times:
            raise error
        return calls

    return call


class TestPatience:
    """One call, again and again, by class of error."""

    def test_a_sink_that_is_away_is_asked_again(self) -> None:
        assert BRIEF.call("commit", failing(3, SinkUnavailableError("away"))) == 4

    def test_a_sink_that_stays_away_fails_with_its_own_error(self) -> None:
        before = time.monotonic()
        with pytest.raises(SinkUnavailableError, match="away"):
            BRIEF.call("commit", failing(10**9, SinkUnavailableError("away")))
        assert 0.15 < time.monotonic() - before < 5

    @pytest.mark.parametrize("error", [FencedError("x"), TargetError("x")])
    def test_other_errors_are_not_tried_again(self, error: ConnectorError) -> None:
        with pytest.raises(type(error)):
            BRIEF.call("commit", failing(1, error))

    def test_each_retry_is_logged_with_what_was_tried(self, caplog: pytest.LogCaptureFixture) -> None:
        BRIEF.call("commit checkpoint 7 at sink warehouse", failing(2, SinkUnavailableError("away")))
        assert "commit checkpoint 7 at sink warehouse: away (EOS-SINK-UNAVAILABLE); retrying" in caplog.text
        assert "commit checkpoint 7 at sink warehouse: away (failure 2 in a row); retrying" in caplog.text

    def test_waits_for_late_commits_grow_and_end(self) -> None:
        patience = Patience(deadline_s=10, first_wait_s=1, max_wait_s=4)
        assert [patience.wait_s(n) for n in range(7)] == [0, 1, 2, 4, None, None, None]


class TestFaults:
    """Points in a folder."""

    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setattr(faults, "_FOLDER", tmp_path)
        return tmp_path

    def test_a_point_that_is_not_armed_does_nothing(self, folder: Path) -> None:
        for name in faults.POINTS:
            faults.point(name, 3)
        assert list(folder.iterdir()) == []

    def test_without_a_folder_nothing_is_looked_at(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(faults, "_FOLDER", None)
        faults.point("prepared")

    @pytest.mark.parametrize("stem", ["prepared", "prepared@3"])
    def test_an_armed_point_raises_once(self, folder: Path, stem: str) -> None:
        (folder / f"{stem}.arm").write_text("raise")
        faults.point("prepared", 2) if "@" in stem else None
        with pytest.raises(faults.InjectedFaultError, match=stem):
            faults.point("prepared", 3)
        faults.point("prepared", 3)
        assert (folder / f"{stem}.stopped").read_text() == str(os.getpid())

    def test_a_point_of_one_sink_is_passed_by_others(self, folder: Path) -> None:
        (folder / "prepared@3@one.arm").write_text("raise")
        faults.point("prepared", 3, "other")
        faults.point("prepared", 2, "one")
        faults.point("prepared", 3)
        with pytest.raises(faults.InjectedFaultError, match="prepared@3@one"):
            faults.point("prepared", 3, "one")

    def test_an_armed_point_stops_one_until_it_is_let_go(self, folder: Path) -> None:
        (folder / "prepared.arm").write_text("")
        passed = threading.Semaphore(0)

        def pass_by() -> None:
            faults.point("prepared")
            passed.release()

        threads = [threading.Thread(target=pass_by, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert all(passed.acquire(timeout=10) for _ in range(2))
        assert not passed.acquire(timeout=0.05)
        assert (folder / "prepared.stopped").exists()
        (folder / "prepared.go").touch()
        assert passed.acquire(timeout=10)
        for thread in threads:
            thread.join(10)

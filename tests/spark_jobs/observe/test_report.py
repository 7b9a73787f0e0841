"""What a run tells of its checkpoints: committed is only what every sink has committed."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from spark_jobs.observe.console import ConsoleListener, shown
from spark_jobs.observe.history.model import RuleCount, SplitLag
from spark_jobs.observe.lag import Lag, SourceLag
from spark_jobs.observe.report import CheckpointReport, LogListener
from tests.twophase_values import record
from twophase.values import OffsetRange

LAG = (SplitLag(0.0, "orders", "orders/0", 15, 10), SplitLag(0.0, "orders", "orders/1", 2, 0))


def _report(number: int, waiting: int) -> CheckpointReport:
    return CheckpointReport(
        record(number), waiting, 1, replayed=False, duration_s=0.5, durations_s={}, splits=LAG, lag_age_s=1.52
    )


def test_the_log_line_says_decided_while_sinks_are_behind(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "eos.checkpoint")
    listener = LogListener("orders")
    listener.on_checkpoint(_report(4, 0))
    listener.on_checkpoint(_report(5, 2))
    first, second = caplog.messages
    assert "checkpoint=4 state=committed epoch=1" in first
    assert " lag=7 lag_age_s=1.5 " in first
    assert "checkpoint=5 state=decided waiting=2 epoch=1" in second


def test_an_unknown_lag_is_a_question_mark_with_the_age_of_the_last_one(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "eos.checkpoint")
    LogListener("orders").on_checkpoint(replace(_report(4, 0), splits=None, lag_age_s=95.04))
    LogListener("orders").on_checkpoint(replace(_report(5, 0), splits=None, lag_age_s=None))
    first, second = caplog.messages
    assert " lag=? lag_age_s=95.0 " in first
    assert " lag=? lag_age_s=? " in second


def test_the_lag_is_logged_each_minute_in_which_no_checkpoint_completes(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "eos.checkpoint")
    now, listener = 1_000.0, LogListener("orders")

    def measure(after_s: float, records: int, failure: str = "") -> list[str]:
        nonlocal now
        now += after_s
        monkeypatch.setattr(time, "monotonic", lambda: now)
        monkeypatch.setattr(time, "time", lambda: now + 1.0)
        caplog.clear()
        splits = (SplitLag(now, "orders", "orders/0", records, 0),)
        listener.on_lag(Lag((SourceLag("orders", now, splits, failure=failure),)))
        return caplog.messages

    listener._logged_at_s = now
    assert measure(59, 10) == []
    assert measure(1, 20) == ["pipeline=orders lag=20 lag_age_s=1.0"]
    assert measure(59, 30) == []
    listener.on_checkpoint(_report(4, 0))
    assert measure(5, 40) == []
    assert measure(56, 50) == ["pipeline=orders lag=50 lag_age_s=1.0"]
    assert measure(70, 50) == [], "nothing has changed"
    assert measure(5, 50, "no answer") == ["pipeline=orders lag=? lag_age_s=1.0"]


def test_the_live_line_has_the_lag_with_its_age() -> None:
    listener = ConsoleListener("orders", Console(file=StringIO(), width=200))
    listener.on_checkpoint(_report(0, 0))
    assert "lag ?" in listener.cells()
    now = time.time()
    measured = SourceLag("orders", now - 2.0, (SplitLag(now, "orders", "orders/0", 25_000, 0),))
    listener.on_lag(Lag((measured,)))
    assert "lag 25,000 (2 s ago)" in listener.cells()
    listener.on_lag(Lag((measured.failed("no answer"),)))
    assert "lag ? (2 s ago)" in listener.cells()


def test_the_log_line_names_those_of_many_splits_that_have_the_most(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "eos.checkpoint")
    ranges = tuple(OffsetRange(f"orders/{number}", 100, 100 + number) for number in range(10_000))
    many = replace(record(4), ranges={"orders": ranges})
    LogListener("orders").on_checkpoint(replace(_report(4, 0), record=many))
    (line,) = caplog.messages
    shown = ",".join(f"orders/{number}[100,{100 + number})" for number in range(9_992, 10_000))
    assert line.endswith(f" offsets={shown},and 9992 more")
    assert len(line) < 600


def test_a_closed_pipe_is_reported_and_ends_no_checkpoint() -> None:
    """`eos run … | head`: rich exits the process at the first line that finds no reader."""
    program = (
        "import sys; from rich.console import Console; from spark_jobs.observe.console import ConsoleListener\n"
        "listener = ConsoleListener('orders', Console(), lambda: print('closed', file=sys.stderr))\n"
        "sys.stdin.read(); listener.on_state('running'); listener.on_state('stopping')"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdin=pipe, stdout=pipe, stderr=pipe
    ) as run:
        assert run.stdout is not None
        run.stdout.close()
        _, errors = run.communicate(timeout=60)
    assert (errors.decode(), run.returncode) == ("closed\n", 0)


def test_rows_that_fail_an_expectation_have_a_line_and_a_figure(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "eos.checkpoint")
    rules = RuleCount("big", "positive", "skip", 100, 3), RuleCount("big", "known", "warn", 100, 0)
    LogListener("orders").on_checkpoint(replace(_report(4, 0), rules=rules))
    warning, line = caplog.messages
    assert warning == ("pipeline=orders checkpoint=4 expectation step=big rule=positive action=skip failed=3 rows=100")
    assert " failed_expectations=3 " in line


@pytest.mark.parametrize(
    ("left", "closing"),
    [
        (0, "3 rows committed in 1 checkpoints, "),
        (2, "3 rows decided in 1 checkpoints, the last 2 of which the next start commits, "),
    ],
)
def test_the_live_line_and_the_closing_one(left: int, closing: str) -> None:
    file = StringIO()
    console = Console(file=file, width=200)
    listener = ConsoleListener("orders", console)
    with shown([listener], console):
        listener.on_backlog(0)
        listener.on_checkpoint(_report(0, 2))
        listener.on_backlog(left)
    line, last = file.getvalue().splitlines()
    assert "checkpoint 0  " in line
    assert "  2 decided ones wait for sinks  " in line
    assert closing in last

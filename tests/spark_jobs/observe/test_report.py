"""What a run tells of its checkpoints: committed is only what every sink has committed."""

from __future__ import annotations

import logging
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from spark_jobs.observe.console import ConsoleListener, shown
from spark_jobs.observe.history.model import RuleCount, SplitLag
from spark_jobs.observe.report import CheckpointReport, LogListener
from tests.twophase_values import record
from twophase.values import OffsetRange

LAG = (SplitLag(0.0, "orders", "orders/0", 15, 10), SplitLag(0.0, "orders", "orders/1", 2, 0))


def _report(number: int, waiting: int) -> CheckpointReport:
    return CheckpointReport(
        record(number), waiting, epoch=1, replayed=False, duration_s=0.5, durations_s={}, splits=LAG
    )


def test_the_log_line_says_decided_while_sinks_are_behind(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "eos.checkpoint")
    listener = LogListener("orders")
    listener.on_checkpoint(_report(4, 0))
    listener.on_checkpoint(_report(5, 2))
    first, second = caplog.messages
    assert "checkpoint=4 state=committed epoch=1" in first
    assert " lag=7 " in first
    assert "checkpoint=5 state=decided waiting=2 epoch=1" in second


def test_the_log_line_names_those_of_many_splits_that_have_the_most(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "eos.checkpoint")
    ranges = tuple(OffsetRange(f"orders/{number}", 100, 100 + number) for number in range(10_000))
    many = replace(record(4), ranges={"orders": ranges})
    LogListener("orders").on_checkpoint(replace(_report(4, 0), record=many))
    (line,) = caplog.messages
    shown = ",".join(f"orders/{number}[100,{100 + number})" for number in range(9_992, 10_000))
    assert line.endswith(f" offsets={shown},and 9992 more")
    assert len(line) < 600


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

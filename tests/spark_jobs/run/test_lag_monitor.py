"""The lag monitor: beside the checkpoints, bounded in time, and never a stale number."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from eos.errors import HeadError, SourceError
from spark_jobs.observe.lag import NAME, NOT_BEGUN, Lag, read_lag
from spark_jobs.observe.report import Listener
from spark_jobs.run import lag_monitor
from spark_jobs.run.lag_monitor import LagMonitor
from tests.spark_jobs.observe.test_lag import HEAD, Ends
from tests.waiting import until
from twophase.head_value import HeadValue

_EVERY_S = 0.01
_BEGUN = replace(HEAD, initial={"s": {"t/0": 0}, "o": {"t/0": 0}}, positions={})


@dataclass
class _Heard(Listener):
    lags: list[Lag] = field(default_factory=list)

    def on_lag(self, lag: Lag) -> None:
        self.lags.append(lag)


@dataclass
class _World:
    """A pipeline with two sources; the positions of `head` are those of now."""

    location: Path
    head: HeadValue | None = _BEGUN
    heard: _Heard = field(default_factory=_Heard)
    one: Ends = field(default_factory=lambda: Ends({"t/0": 10}))
    other: Ends = field(default_factory=lambda: Ends({"t/0": 5}, name="o"))
    head_error: HeadError | None = None

    @contextmanager
    def measuring(self) -> Iterator[LagMonitor]:
        sources = [cast(Any, self.one), cast(Any, self.other)]
        monitor = LagMonitor(sources, self._read, self.location, self.heard, lambda text: text.replace("xyz", "*"))
        with monitor.measuring():
            yield monitor

    def _read(self) -> HeadValue | None:
        if self.head_error is not None:
            raise self.head_error
        return self.head

    @property
    def stored(self) -> Lag:
        return read_lag(self.location, ["s", "o"])


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _World:
    monkeypatch.setattr(lag_monitor, "EVERY_S", _EVERY_S)
    monkeypatch.setattr(lag_monitor, "_SHARE", 0)
    return _World(tmp_path)


def _known(monitor: LagMonitor, records: int | None) -> Callable[[], bool]:
    return lambda: monitor.newest().records(time.time()) == records


def test_a_stalled_pipeline_s_lag_grows(world: _World) -> None:
    with world.measuring() as monitor:
        until(_known(monitor, 15))
        for end in (1_000, 25_000):
            world.one.ends = {"t/0": end}
            until(_known(monitor, end + 5))
        assert world.head is not None
        world.head = replace(world.head, positions={"s": {"t/0": 24_000}})
        until(_known(monitor, 1_005))
    assert world.stored.measured == world.heard.lags[-1].measured == 1_005


def test_every_reader_gets_the_number_of_one_measurement(world: _World) -> None:
    with world.measuring() as monitor:
        until(_known(monitor, 15))
    assert world.stored == world.heard.lags[-1] == monitor.newest()
    assert [each.records for each in monitor.newest().splits] == [10, 5]


def test_an_end_is_asked_after_its_position_was_read(world: _World) -> None:
    """A checkpoint that completes while the source answers would put the position past the end."""
    assert world.head is not None
    far = replace(world.head, positions={"s": {"t/0": 10_000}})

    def complete() -> None:
        world.head = far
        world.one.ends = {"t/0": 10_000}

    world.one.before = complete
    with world.measuring() as monitor:
        until(_known(monitor, 5))
    assert not [each.failure for lag in world.heard.lags for each in lag.sources if each.failure]


def test_an_error_makes_it_unknown_at_once_with_the_age_of_the_last_number(
    world: _World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "eos.runner")
    with world.measuring() as monitor:
        until(_known(monitor, 15))
        world.one.error = SourceError("no answer to xyz")
        until(lambda: monitor.newest().unknown(time.time()) == "no answer to *")
        unknown = monitor.newest()
        assert (unknown.records(time.time()), unknown.measured) == (None, 15)
        at = unknown.at
        time.sleep(5 * _EVERY_S)
        assert monitor.newest().sources[0].at == unknown.sources[0].at, "a failure makes no number younger"
        assert monitor.newest().sources[1].at != unknown.sources[1].at, "the other source is measured on"
        assert at is not None
        world.one.error = None
        until(_known(monitor, 15))
    assert [each for each in caplog.messages if "source s" in each] == [
        "the lag of source s is unknown: no answer to xyz",
        "the lag of source s is known: 10 records",
    ], "once for each change; the log masks it"


def test_a_source_that_hangs_holds_nobody_up(world: _World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_monitor, "_LAST_S", 0.1)
    gate = threading.Event()
    with world.measuring() as monitor:
        until(_known(monitor, 15))
        world.one.before = cast(Any, gate.wait)
        time.sleep(5 * _EVERY_S)
        began = time.monotonic()
        hung = monitor.newest()
        assert [each.source for each in monitor.polls()] == ["s", "o"]
        assert time.monotonic() - began < 0.1
        assert hung.at is not None
        assert hung.unknown(hung.at + 31.0).startswith("the driver does not measure it")
        newest = hung.sources[1].at
        until(lambda: monitor.newest().sources[1].at != newest)
        began = time.monotonic()
    assert time.monotonic() - began < 5.0
    heard, stored = len(world.heard.lags), world.stored
    world.one.ends = {"t/0": 99}
    gate.set()
    time.sleep(0.1)
    assert (len(world.heard.lags), world.stored) == (heard, stored), "after the run nothing is published"


def test_the_end_of_a_run_is_measured(world: _World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_monitor, "EVERY_S", 3_600.0)
    with world.measuring() as monitor:
        until(_known(monitor, 15))
        assert world.head is not None
        world.head = replace(world.head, positions={"s": {"t/0": 10}, "o": {"t/0": 5}})
    assert world.stored.records(time.time()) == 0


def test_before_the_first_query_head_is_read_from_where_it_is_stored(world: _World) -> None:
    world.head_error = HeadError("the disk is gone")
    with world.measuring() as monitor:
        until(lambda: monitor.newest().unknown(time.time()) == "the disk is gone")
        world.head_error, head, world.head = None, world.head, None
        until(lambda: monitor.newest().unknown(time.time()) == NOT_BEGUN)
        assert head is not None
        monitor.follow(lambda: replace(head, positions={"s": {"t/0": 9}}))
        until(_known(monitor, 6))


def test_records_behind_an_open_transaction_are_polls(world: _World) -> None:
    world.one.withheld = {"t/0": 30}
    with world.measuring() as monitor:
        until(_known(monitor, 15))
        (poll, _) = monitor.polls()
    assert (poll.source, poll.reason, poll.splits) == ("s", "an open transaction", {"t/0": (10, 30)})
    assert monitor.newest().withheld_records == 20


def test_a_folder_that_cannot_be_written_is_said_once(world: _World, caplog: pytest.LogCaptureFixture) -> None:
    world.location /= "gone"
    with world.measuring() as monitor:
        until(_known(monitor, 15))
        until(lambda: len(world.heard.lags) > 6)
    assert [each for each in caplog.messages if NAME in each] == [
        f"{world.location / NAME} is not written: No such file or directory"
    ]


def test_a_slow_source_is_asked_less_often(world: _World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_monitor, "_SHARE", 20)
    world.one.before = lambda: time.sleep(0.05)
    with world.measuring() as monitor:
        until(_known(monitor, 15))
        assert monitor.newest().sources[0].every_s >= 1.0

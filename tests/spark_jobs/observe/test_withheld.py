"""Records that exist and cannot be read yet: since when, in which words, and how long a run until caught up waits."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from connectors.api.contracts import Horizon
from spark_jobs.observe.report import Listener
from spark_jobs.observe.withheld import NAME, Poll, Withheld, WithheldSplit, describe, read_withheld
from spark_jobs.query.pacing.pace import Pace
from spark_jobs.query.pacing.turns import PacedTurns, read_polls
from spark_jobs.run import until_readable
from spark_jobs.run.until_readable import UntilReadable
from twophase.head_value import HeadValue
from twophase.values import StartingPoint

WORDS = "an open transaction"
HEAD = HeadValue("p", "i", 1, (), initial={"s": {"t/0": 0, "t/1": 0}}, positions={"s": {"t/0": 5, "t/1": 5}})


def polled(at: float, source: str = "s", **splits: tuple[int, int]) -> Poll:
    return Poll(source, at, WORDS, {f"t/{name[1:]}": each for name, each in splits.items()})


def state(location: Path) -> Withheld:
    return Withheld(location, {"s": "end it", "other": "end it"})


def test_since_is_the_first_poll_of_the_same_begin(tmp_path: Path) -> None:
    found = state(tmp_path)
    assert found.observe([polled(100.0, p0=(5, 10))])
    assert found.observe([polled(105.0, p0=(5, 20), p1=(7, 8))])
    assert [(each.since, each.at, each.records) for each in found.splits] == [(100.0, 105.0, 15), (105.0, 105.0, 1)]
    assert not found.observe([polled(105.0, p0=(5, 20), p1=(7, 8))]), "it is known"
    found.observe([polled(110.0, p0=(12, 20))])
    assert [(each.begin, each.since) for each in found.splits] == [(12, 110.0)], "another transaction"
    found.observe([polled(111.0, "other", p0=(1, 2))])
    assert [each.source for each in found.splits] == ["other", "s"]
    found.observe([polled(112.0)])
    assert [each.source for each in found.splits] == ["other"]


def test_it_outlives_the_process_and_a_damaged_file(tmp_path: Path) -> None:
    state(tmp_path).observe([polled(100.0, p0=(5, 10))])
    sources = [cast(Any, _Source())]
    after = Withheld.at(tmp_path, sources)
    assert after.splits == read_withheld(tmp_path) == (WithheldSplit("s", "t/0", 5, 10, 100.0, 100.0, WORDS),)
    after.observe([polled(200.0, p0=(5, 10))])
    assert read_withheld(tmp_path) == (WithheldSplit("s", "t/0", 5, 10, 100.0, 200.0, WORDS),)
    for text in ("", "{", "[]", '{"splits": [{"source": 1}]}'):
        (tmp_path / NAME).write_text(text)
        assert read_withheld(tmp_path) == Withheld.at(tmp_path, sources).splits == ()
    after.observe([polled(300.0)])
    assert json.loads((tmp_path / NAME).read_text()) == {"splits": []}


def test_a_file_that_cannot_be_written_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = state(tmp_path / "gone")
    for at in (100.0, 200.0):
        found.observe([polled(at, p0=(5, 10))])
    assert len(caplog.messages) == 1
    assert "withheld.json is not kept: No such file" in caplog.messages[0]
    assert found.splits[0].since == 100.0


def test_it_is_logged_after_a_minute_and_every_ten(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = state(tmp_path)
    found.observe([polled(1000.0, p0=(5, 1_505))])
    for now in range(1000, 3000, 10):
        found.warn_if_overdue(float(now))
    assert len(caplog.messages) == 4
    words = "waiting for an open transaction since 1970-01-01 00:16:40 UTC (70 s): t/0 1,500 offsets from 5: end it"
    assert caplog.messages[0] == words


def test_many_splits_in_words() -> None:
    splits = [WithheldSplit("s", f"t/{n}", 5, 10, 100.0 - n, 100.0, WORDS) for n in range(9)]
    assert describe(splits, 200.0).endswith(
        "(108 s): t/8 5 offsets from 5, t/7 5 offsets from 5, t/6 5 offsets from 5 and 6 more partitions"
    )


def test_a_planner_tells_by_a_file_of_each_source(tmp_path: Path) -> None:
    pace = tmp_path / "pace.json"
    Pace(0, 0.0, None, 1.0).write(pace)
    turns = PacedTurns(pace, 2)
    told = [polled(1.0, "a/b", p0=(5, 10)), polled(1.0, "c")]
    for each in told:
        turns.tell(each)
    assert {each.source: dict(each.splits) for each in read_polls(pace)} == {"a/b": {"t/0": [5, 10]}, "c": {}}
    turns.tell(polled(2.0, "a/b"))
    turns.tell(polled(3.0, "c"))
    assert {each.source: each.at for each in read_polls(pace)} == {"a/b": 2.0, "c": 3.0}


@dataclass
class _Source:
    """Answers one horizon after another, the last one for ever."""

    horizons: Sequence[Horizon] = ()
    name: str = "s"
    withheld_by: str = WORDS
    withheld_remedy: str = "end it"
    known: list[StartingPoint] = field(default_factory=list)

    def horizon(self, known: StartingPoint) -> Horizon:
        self.known.append(known)
        return self.horizons[min(len(self.known), len(self.horizons)) - 1]


def horizon(ends: Mapping[str, int], **withheld: int) -> Horizon:
    return Horizon(ends, StartingPoint(), {f"t/{name[1:]}": end for name, end in withheld.items()})


@dataclass
class _Told(Listener):
    states: list[str] = field(default_factory=list)
    records: list[int] = field(default_factory=list)

    def on_state(self, text: str) -> None:
        self.states.append(text)

    def on_withheld(self, splits: Sequence[WithheldSplit]) -> None:
        self.records.append(sum(each.records or 0 for each in splits))


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., tuple[UntilReadable, _Told]]:
    monkeypatch.setattr(until_readable, "_LOOK_S", (0.001, 0.001))

    def made(*horizons: Horizon, is_stopping: Callable[[], bool] = lambda: False) -> tuple[UntilReadable, _Told]:
        told, source = _Told(), cast(Any, _Source(horizons))
        return UntilReadable([source], Withheld.at(tmp_path, [source]), told, is_stopping), told

    return made


def test_it_waits_until_more_can_be_read(
    waiting: Callable[..., tuple[UntilReadable, _Told]], caplog: pytest.LogCaptureFixture
) -> None:
    blocked = horizon({"t/0": 5, "t/1": 5}, p0=10)
    wait, told = waiting(blocked, blocked, horizon({"t/0": 5, "t/1": 9}, p0=12), horizon({"t/0": 13, "t/1": 9}))
    wait.begin(HEAD)
    wait.begin(HEAD)
    assert wait.wanted == {"s": {"t/0": 10}}
    caplog.set_level(logging.WARNING)
    assert wait.wait(HEAD) is True, "though the other split could be read before"
    assert told.states == ["waiting for an open transaction"]
    assert told.records == [5, 5, 7, 0]
    assert len(caplog.messages) == 1
    assert caplog.messages[0].endswith("t/0 5 offsets from 5: end it")
    read = replace(HEAD, positions={"s": {"t/0": 13, "t/1": 5}})
    assert wait.wait(read) is False, "read up to what was there at the start"


def test_it_does_not_wait_for_what_came_later(waiting: Callable[..., tuple[UntilReadable, _Told]]) -> None:
    wait, told = waiting(horizon({"t/0": 5, "t/1": 5}), horizon({"t/0": 5, "t/1": 5}, p0=10))
    wait.begin(HEAD)
    assert wait.wait(HEAD) is False
    assert told.states == []


def test_a_split_that_was_never_read_is_waited_for(waiting: Callable[..., tuple[UntilReadable, _Told]]) -> None:
    found = Horizon({"t/9": 0}, StartingPoint({"t/9": 0}), {"t/9": 3})
    wait, told = waiting(found, found, replace(found, ends={"t/9": 3}, withheld={}))
    wait.begin(HEAD)
    assert wait.wait(HEAD) is True
    assert told.states == ["waiting for an open transaction"]


def test_a_stop_ends_the_wait(waiting: Callable[..., tuple[UntilReadable, _Told]]) -> None:
    asked = iter([False] * 5)
    blocked = horizon({"t/0": 5}, p0=10)
    wait, _ = waiting(blocked, is_stopping=lambda: next(asked, True))
    wait.begin(HEAD)
    assert wait.wait(HEAD) is False


def test_it_is_told_again_at_a_sensible_rate(
    waiting: Callable[..., tuple[UntilReadable, _Told]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = iter(range(0, 100_000, 5))  # a look every five seconds
    monkeypatch.setattr(time, "monotonic", lambda: float(next(now)))
    monkeypatch.setattr(until_readable, "pause", lambda _delay_s, is_stopping: not is_stopping())
    asked = iter([False] * 60)
    wait, told = waiting(horizon({"t/0": 5}, p0=10), is_stopping=lambda: next(asked, True))
    wait.begin(HEAD)
    assert wait.wait(HEAD) is False
    assert len(caplog.messages) == 9, "of 300 s, one in about 30"
    assert told.states == ["waiting for an open transaction"]

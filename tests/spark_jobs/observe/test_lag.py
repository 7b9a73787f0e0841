"""The lag: a number with an age, or unknown with a reason; the same in every process."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from connectors.api.contracts import Horizon, Source
from eos.errors import OffsetOutOfRangeError, SourceError
from spark_jobs.observe import lag as lags
from spark_jobs.observe.history.model import SplitLag
from spark_jobs.observe.lag import (
    DOES_NOT_KNOW,
    NAME,
    NOT_BEGUN,
    NOT_MEASURED,
    Lag,
    SourceLag,
    describe,
    measure,
    measure_now,
    read_lag,
    write_lag,
)
from twophase.head_value import HeadValue
from twophase.positions import Position
from twophase.values import StartingPoint

HEAD = HeadValue("p", "i", 1, (), initial={"s": {"t/0": 0, "t/1": 3}}, positions={"s": {"t/0": 5}})
NOW = 1_000.0
NEVER = SourceLag("s")


@dataclass
class Ends:
    """A source that answers with these ends, or raises."""

    ends: Mapping[str, Position] = field(default_factory=dict)
    error: BaseException | None = None
    discovered: Mapping[str, Position] = field(default_factory=dict)
    withheld: Mapping[str, Position] = field(default_factory=dict)
    name: str = "s"
    withheld_by: str = "an open transaction"
    known: list[StartingPoint] = field(default_factory=list)
    knows: bool = True
    before: Callable[[], None] = lambda: None

    def current_ends(self, known: StartingPoint) -> Horizon | None:
        self.known.append(known)
        self.before()
        if self.error is not None:
            raise self.error
        return Horizon(self.ends, StartingPoint(self.discovered), self.withheld) if self.knows else None


def of(**answer: Any) -> Source:
    return cast(Source, Ends(**answer))


def lag(source: Source, head: HeadValue | None = HEAD, before: SourceLag = NEVER) -> SourceLag:
    return measure(source, head, before)


def found(at: float, *ends: Position, source: str = "s", **changes: Any) -> SourceLag:
    splits = (SplitLag(at, source, f"t/{number}", end, 0) for number, end in enumerate(ends))
    return replace(SourceLag(source, at, tuple(splits)), **changes)


def test_it_is_the_end_now_minus_the_position_in_head() -> None:
    source = of(ends={"t/1": 10, "t/0": 25})
    measured = lag(source)
    assert cast(Any, source).known == [StartingPoint({"t/0": 5, "t/1": 3})]
    assert [(each.split, each.position, each.end, each.records) for each in measured.splits] == [
        ("t/0", 5, 25, 20),
        ("t/1", 3, 10, 7),
    ]
    assert measured.at is not None
    assert abs(measured.at - time.time()) < 10
    assert (measured.unknown(measured.at), measured.measured, measured.withheld_records) == ("", 27, 0)


def test_a_new_split_begins_at_its_first_record() -> None:
    measured = lag(of(ends={"t/0": 5, "t/1": 3, "t/2": 9}, discovered={"t/2": 2}))
    assert measured.measured == 7


def test_what_is_behind_an_open_transaction_is_counted_apart() -> None:
    measured = lag(of(ends={"t/0": 5, "t/1": 3}, withheld={"t/0": 105}))
    assert (measured.measured, measured.withheld_records) == (0, 100)
    assert measured.withheld == {"t/0": (5, 105)}


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (of(error=SourceError("no answer")), "no answer"),
        (of(error=OffsetOutOfRangeError("made again")), "made again"),
        (of(error=ValueError("a plugin's own")), "source s: `current_ends` raised ValueError: a plugin's own"),
        (of(error=SystemExit(0)), "source s: `current_ends` raised SystemExit: 0"),
        (of(knows=False), DOES_NOT_KNOW),
        (of(ends={"t/0": 4, "t/1": 3}), "t/0 ends at 4, before the position 5 of the pipeline"),
        (of(ends={"t/0": 5, "t/1": 3, "t/9": 3}), "source s: t/9 has no starting position yet"),
        (of(ends={"t/0": "5"}), "the positions '5' and 5 do not compare: they are of two types"),
        (
            cast(Any, SimpleNamespace(name="s")),
            DOES_NOT_KNOW,
        ),
    ],
)
def test_anything_else_is_unknown_and_keeps_the_newest_success(source: Source, reason: str) -> None:
    before = found(NOW, 8, 4)
    measured = lag(source, before=before)
    assert measured == replace(before, failure=reason)
    assert (measured.unknown(NOW), measured.at, measured.measured) == (reason, NOW, 12)


@pytest.mark.parametrize("head", [None, replace(HEAD, initial={}, positions={})])
def test_a_pipeline_that_has_not_begun_has_no_lag(head: HeadValue | None) -> None:
    source = of(ends={"t/0": 5})
    assert lag(source, head).unknown(NOW) == NOT_BEGUN
    assert not cast(Any, source).known, "it might begin anywhere"


def test_positions_that_do_not_count_are_zero_or_unknown() -> None:
    head = replace(HEAD, initial={"s": {"f": ["a", 1]}}, positions={})
    assert lag(of(ends={"f": ["a", 1]}), head).measured == 0
    behind = lag(of(ends={"f": ["b", 0]}), head)
    assert behind.at is not None
    assert behind.measured is None
    assert behind.unknown(behind.at) == "source s has records to read, and does not count them"
    assert describe(Lag((behind,)), behind.at) == f"unknown: {behind.unknown(behind.at)}"


def test_it_is_unknown_once_it_is_old() -> None:
    measured = Lag((found(NOW, 7),))
    assert (measured.records(NOW + 30.0), measured.age_s(NOW + 30.0)) == (7, 30.0)
    assert measured.records(NOW + 30.1) is None
    assert (measured.age_s(NOW + 95.0), measured.measured) == (95.0, 7)
    reason = "the driver does not measure it: it is stopped, paused or overloaded"
    assert measured.unknown(NOW + 95.0) == reason
    assert describe(measured, NOW + 95.0) == f"unknown: {reason} (last: 7 records, 95 s ago)"
    assert measured.records(NOW - 31.0) is None, "the clock was set back"
    slow = Lag((found(NOW, 7, every_s=60.0),))
    assert (slow.records(NOW + 180.0), slow.records(NOW + 181.0)) == (7, None)


def test_it_is_unknown_where_one_source_does_not_answer() -> None:
    one, other = found(NOW, 7), found(NOW - 3, 4, source="o")
    both = Lag((one, other))
    assert (both.records(NOW), both.age_s(NOW), describe(both, NOW)) == (11, 3.0, "11 records, 3 s ago")
    assert [each.source for each in both.splits] == ["s", "o"]
    without = Lag((one, other.failed("no answer")))
    assert (without.records(NOW), without.measured) == (None, 11)
    assert describe(without, NOW) == "unknown: no answer (last: 11 records, 3 s ago)"
    never = Lag((one, SourceLag("o")))
    assert (never.records(NOW), never.at, never.measured, never.unknown(NOW)) == (None, None, None, NOT_MEASURED)
    assert describe(never, NOW) == f"unknown: {NOT_MEASURED}"
    assert Lag().unknown(NOW) == NOT_MEASURED


def test_every_process_reads_the_same(tmp_path: Path) -> None:
    written = Lag((found(NOW, 7, 9, withheld={"t/0": [7, 8]}), found(NOW, 4, source="o", failure="no", every_s=9.0)))
    write_lag(tmp_path, written)
    assert read_lag(tmp_path, ["s", "o"]) == written
    assert read_lag(tmp_path, ["o", "new"]) == Lag((written.sources[1], SourceLag("new")))
    assert [each.name for each in tmp_path.iterdir()] == [NAME]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"sources": [{"source": "s"}]}', '{"sources": [1]}'])
def test_a_file_that_cannot_be_read_is_no_measurement(tmp_path: Path, text: str) -> None:
    assert read_lag(tmp_path, ["s"]) == Lag((NEVER,))
    (tmp_path / NAME).write_text(text)
    assert read_lag(tmp_path, ["s"]) == Lag((NEVER,))


def test_a_measurement_of_another_incarnation_is_none(tmp_path: Path) -> None:
    """Its number would be shown as known after a reset, which changes the positions."""
    measured = lag(of(ends={"t/0": 9, "t/1": 3}))
    write_lag(tmp_path, Lag((measured,)))
    assert read_lag(tmp_path, ["s"], HEAD) == Lag((measured,))
    assert read_lag(tmp_path, ["s"], replace(HEAD, incarnation="j")) == Lag((NEVER,))
    assert lag(of(error=SourceError("away")), before=measured).incarnation == HEAD.incarnation


def test_a_later_version_may_add_keys(tmp_path: Path) -> None:
    write_lag(tmp_path, Lag((found(NOW, 7),)))
    document = json.loads((tmp_path / NAME).read_text())
    document["sources"][0]["colour"] = "green"
    (tmp_path / NAME).write_text(json.dumps({**document, "format": 2}))
    assert read_lag(tmp_path, ["s"]) == Lag((found(NOW, 7),))


def test_another_process_measures_with_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lags, "_PATIENCE_S", 0.2)
    gate = threading.Event()
    head = replace(HEAD, initial={**HEAD.initial, "o": {"t/0": 1}})
    sources = [of(ends={"t/0": 25, "t/1": 10}), of(name="o", before=gate.wait)]
    before = Lag((found(NOW, 1, every_s=300.0), found(NOW, 2, source="o")))
    measured = measure_now(sources, head, before)
    gate.set()
    own, late = measured.sources
    assert (own.measured, own.failure, own.every_s) == (27, "", lags.EVERY_S)
    assert (late.measured, late.at, late.failure) == (2, NOW, "the source did not answer within 0.2 s")
    assert measured.records(time.time()) is None

"""What the framework refuses of a small source, before head or a sink has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from connectors.api.contracts import Horizon
from connectors.sources.built import BuiltSource
from connectors.sources.split_source import SplitSource
from eos.errors import BadRecordError, IdentityError, OffsetOutOfRangeError, SourceError
from twophase.positions import Position
from twophase.values import OffsetRange, StartingPoint

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("text", pa.string())])


@dataclass(frozen=True)
class _Small(SplitSource):
    first: Any = 0
    number: int | None = 1
    last: Any = 1
    known_by: Any = None

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def splits(self) -> Mapping[str, Position]:
        return {"a": self.first}

    def end(self, split: str, start: Position) -> Position:
        return self.last  # type: ignore[no-any-return]

    def witness(self, split: str, position: Position) -> str | None:
        return self.known_by  # type: ignore[no-any-return]

    def limit(self, split: str, start: Position, end: Position, max_records: int) -> Position:
        return self.last  # type: ignore[no-any-return]

    def read(self, split: str, start: Position, end: Position) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([self.number], pa.int64()), pa.array([None], pa.string())], schema=SCHEMA)


@pytest.mark.parametrize("first", [True, 1.0, None, ("a", 0), ["a", 0.0], b"a", {"a": 1}, "a\ud800", 2**64], ids=ascii)
def test_what_is_no_position_is_refused_before_head_stores_it(first: object) -> None:
    """JSON would give back another value, or one that no later position compares with."""
    source = BuiltSource("s", _Small(first))
    with pytest.raises(IdentityError, match=r"source s, split a: .* is not a position"):
        source.starting_point(StartingPoint())
    with pytest.raises(IdentityError, match="is not a position"):
        source.horizon(StartingPoint({"a": 0}))


@pytest.mark.parametrize("columns", [["n", "text"], ["text", "n"]])
def test_a_null_that_the_schema_excludes_stops_the_pipeline(columns: list[str]) -> None:
    """Spark does not look for NULL in a column that is NOT NULL: the row would have another value."""
    assert [batch.num_rows for batch in BuiltSource("s", _Small()).read([OffsetRange("a", 0, 1)])] == [1]
    source = BuiltSource("s", _Small(number=None)).select(columns)
    with pytest.raises(BadRecordError, match="source s, a: a record has no n, which is NOT NULL"):
        list(source.read([OffsetRange("a", 0, 1)]))


@pytest.mark.parametrize("last", [None, float("nan"), "a\ud800", 10**5_000, (1,)], ids=lambda last: type(last).__name__)
def test_an_end_that_is_no_position_is_refused_before_it_is_planned(last: object) -> None:
    """The decision could not be stored, after the rows were prepared."""
    source = BuiltSource("s", _Small(last=last))
    with pytest.raises(IdentityError, match=r"source s, split a: .* is not a position"):
        source.horizon(StartingPoint({"a": 0}))
    with pytest.raises(IdentityError, match=r"source s, split a: `limit`: .* is not a position"):
        source.limit(OffsetRange("a", 0, 1), 1)


def test_an_end_of_another_kind_names_source_and_split() -> None:
    with pytest.raises(IdentityError, match="source s, split a: the positions 'x' and 0 do not compare"):
        BuiltSource("s", _Small(last="x")).horizon(StartingPoint({"a": 0}))


def test_an_end_that_goes_backwards_loses_no_record_silently() -> None:
    with pytest.raises(OffsetOutOfRangeError, match="source s, split a ends at 1, and its next position is 2"):
        BuiltSource("s", _Small()).horizon(StartingPoint({"a": 2}))


def test_a_split_that_vanishes_loses_no_record_silently() -> None:
    with pytest.raises(OffsetOutOfRangeError, match="source s: b is gone, and the pipeline has begun to read it"):
        BuiltSource("s", _Small()).horizon(StartingPoint({"a": 0, "b": 7}))


@dataclass(frozen=True)
class _Unbounded(_Small):
    """Plans one record at a time, of as many as `current` says."""

    current: Any = None

    def current_end(self, split: str, start: Position) -> Position | None:
        return self.current  # type: ignore[no-any-return]


def test_the_current_end_is_the_end_that_can_be_planned_unless_the_source_says_otherwise() -> None:
    known = StartingPoint({"a": 0})
    assert BuiltSource("s", _Small(last=7)).current_ends(known) == Horizon({"a": 7}, StartingPoint())
    assert BuiltSource("s", _Small(last=7)).current_ends(StartingPoint()) == Horizon({"a": 7}, StartingPoint({"a": 0}))
    assert BuiltSource("s", _Unbounded(current=900)).current_ends(known) == Horizon({"a": 900}, StartingPoint())
    assert BuiltSource("s", _Unbounded()).current_ends(known) is None, "a total without it would be too small"


def test_a_current_end_that_is_no_position_names_source_and_split() -> None:
    with pytest.raises(IdentityError, match=r"source s, split a: `current_end`: .* is not a position"):
        BuiltSource("s", _Unbounded(current=1.5)).current_ends(StartingPoint())
    with pytest.raises(OffsetOutOfRangeError, match="source s: b is gone, and the pipeline has begun to read it"):
        BuiltSource("s", _Small()).current_ends(StartingPoint({"a": 0, "b": 7}))


def test_a_witness_that_is_no_text_is_refused() -> None:
    with pytest.raises(SourceError, match="source s, split a: the witness is a bytes, not a text"):
        BuiltSource("s", _Small(known_by=b"x")).witnesses([OffsetRange("a", 0, 1)])


@dataclass(frozen=True)
class _Gap(_Small):
    """Yields something else between two batches."""

    between: Any = None

    def read(self, split: str, start: Position, end: Position) -> Iterator[pa.RecordBatch]:
        yield from super().read(split, start, end)
        yield self.between
        yield from super().read(split, start, end)


@pytest.mark.parametrize("between", [None, 0, "row"], ids=ascii)
def test_a_batch_that_is_none_does_not_end_the_range(between: object) -> None:
    """The records behind it would be decided and never written, and a replay would miss them, too."""
    with pytest.raises(SourceError, match=f"source s, split a: `read` yields a {type(between).__name__}"):
        list(BuiltSource("s", _Gap(between=between)).read([OffsetRange("a", 0, 2)]))

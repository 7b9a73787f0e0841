"""What the framework refuses of a small source, before head or a sink has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from connectors.sources.built import BuiltSource
from connectors.sources.split_source import SplitSource
from eos.errors import BadRecordError, IdentityError
from twophase.positions import Position
from twophase.values import OffsetRange, StartingPoint

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("text", pa.string())])


@dataclass(frozen=True)
class _Small(SplitSource):
    first: Any = 0
    number: int | None = 1

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def splits(self) -> Mapping[str, Position]:
        return {"a": self.first}

    def end(self, split: str, start: Position) -> Position:
        return 1

    def read(self, split: str, start: Position, end: Position) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([self.number], pa.int64()), pa.array([None], pa.string())], schema=SCHEMA)


@pytest.mark.parametrize("first", [True, 1.0, None, ("a", 0), ["a", 0.0], b"a", {"a": 1}], ids=str)
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

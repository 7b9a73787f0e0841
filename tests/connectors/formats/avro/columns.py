"""Columns of rows with values, as Hypothesis draws them: each type that a schema can be derived from."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from hypothesis import strategies as st

from tests.connectors.formats.avro.written import UTC, _decimals

_NAMES: Final = st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True)
_INSTANTS: Final = st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30))


@dataclass(frozen=True)
class Column:
    """A type, and a strategy for its values."""

    type: pa.DataType
    values: st.SearchStrategy[Any]
    nullable: bool = False

    @property
    def drawn(self) -> st.SearchStrategy[Any]:
        """A strategy for values of a column that is perhaps nullable."""
        return st.none() | self.values if self.nullable else self.values

    def field(self, name: str) -> pa.Field:
        """Return the column."""
        return pa.field(name, self.type, nullable=self.nullable)


def _integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


SCALARS: Final = {
    "boolean": Column(pa.bool_(), st.booleans()),
    "tinyint": Column(pa.int8(), _integers(8)),
    "smallint": Column(pa.int16(), _integers(16)),
    "int": Column(pa.int32(), _integers(32)),
    "bigint": Column(pa.int64(), _integers(64)),
    "float": Column(pa.float32(), st.floats(width=32, allow_nan=False)),
    "double": Column(pa.float64(), st.floats(allow_nan=False)),
    "string": Column(pa.string(), st.text(max_size=200)),
    "large_string": Column(pa.large_string(), st.text(max_size=9)),
    "binary": Column(pa.binary(), st.binary(max_size=200)),
    "date": Column(pa.date32(), st.dates()),
    "timestamp": Column(pa.timestamp("us", "UTC"), _INSTANTS.map(lambda at: at.replace(tzinfo=UTC))),
    "timestamp_ntz": Column(pa.timestamp("us"), _INSTANTS),
    "decimal(5,2)": Column(pa.decimal128(5, 2), _decimals(5, 2)),
    "decimal(18,0)": Column(pa.decimal128(18, 0), _decimals(18, 0)),
    "decimal(38,10)": Column(pa.decimal128(38, 10), _decimals(38, 10)),
}


@st.composite
def columns(draw: st.DrawFn, depth: int = 2) -> Column:
    """Draw a type of any depth."""
    kinds = ["scalar", "scalar", "struct", "list", "map"] if depth else ["scalar"]
    nullable = draw(st.booleans())
    match draw(st.sampled_from(kinds)):
        case "struct":
            fields = draw(st.dictionaries(_NAMES, columns(depth - 1), min_size=1, max_size=3))
            kind = pa.struct([column.field(name) for name, column in fields.items()])
            return Column(kind, st.fixed_dictionaries({name: each.drawn for name, each in fields.items()}), nullable)
        case "list":
            item = draw(columns(depth - 1))
            return Column(pa.list_(item.field("element")), st.lists(item.drawn, max_size=4), nullable)
        case "map":
            item = draw(columns(depth - 1))
            pairs = st.dictionaries(st.text(max_size=4), item.drawn, max_size=3).map(lambda found: [*found.items()])
            return Column(pa.map_(pa.string(), item.field("value")), pairs, nullable)
    scalar = draw(st.sampled_from(list(SCALARS.values())))
    return Column(scalar.type, scalar.values, nullable)


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    """Draw rows, perhaps as a slice of others."""
    fields = draw(st.dictionaries(_NAMES, columns(), min_size=1, max_size=4))
    rows = draw(st.lists(st.fixed_dictionaries({name: each.drawn for name, each in fields.items()}), max_size=8))
    schema = pa.schema([column.field(name) for name, column in fields.items()])
    return pa.RecordBatch.from_pylist(rows, schema).slice(draw(st.integers(0, len(rows))))

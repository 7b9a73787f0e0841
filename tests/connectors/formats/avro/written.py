"""Records written by fastavro, and Avro schemas with values, as Hypothesis draws them."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import fastavro
import pyarrow as pa
from hypothesis import strategies as st

from connectors.api.decoding import Decoded
from connectors.formats.avro.avro_format import AvroFormat
from connectors.formats.avro.writers import OneWriter

UTC: Final = datetime.UTC


def encode(schema: Any, value: Any) -> bytes:
    """Return the binary encoding of one value."""
    content = io.BytesIO()
    fastavro.schemaless_writer(content, fastavro.parse_schema(schema), value)
    return content.getvalue()


def decode(reader: Any, values: Sequence[bytes | None], writer: Any = None, **settings: Any) -> Decoded:
    """Decode values of one writer, by default of the reader's schema."""
    format_ = AvroFormat(json.dumps(reader), OneWriter(json.dumps(reader if writer is None else writer)), **settings)
    format_.validate()
    decoded = format_.decode(pa.array(values, pa.binary()))
    decoded.rows.validate(full=True)
    return decoded


def record(*fields: tuple[str, Any], name: str = "R") -> dict[str, Any]:
    """Return the schema of a record: a field's name and type, each."""
    return {"type": "record", "name": name, "fields": [{"name": name, "type": kind} for name, kind in fields]}


@dataclass(frozen=True)
class Case:
    """A type, a strategy for its values, and what its column holds of one."""

    schema: Any
    values: st.SearchStrategy[Any]
    column: Any = None  # a function from a value; None: the value itself

    def expected(self, value: Any) -> Any:
        """Return the column's value for one that is written."""
        return value if self.column is None else self.column(value)


def _logical(kind: str, logical: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical, **more}


def _decimals(precision: int, scale: int) -> st.SearchStrategy[decimal.Decimal]:
    bound = 10**precision - 1
    exact = decimal.Context(prec=precision)
    return st.integers(-bound, bound).map(lambda number: decimal.Decimal(number).scaleb(-scale, exact))


_INSTANTS: Final = st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30), timezones=st.just(UTC))
_LOCAL: Final = st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30))


T = TypeVar("T", datetime.datetime, datetime.time)


def _millis(instant: T) -> T:
    return instant.replace(microsecond=instant.microsecond // 1_000 * 1_000)


def _iso(time: datetime.time) -> str:
    return time.isoformat("microseconds")


SIMPLE: Final = {
    "boolean": Case("boolean", st.booleans()),
    "int": Case("int", st.integers(-(2**31), 2**31 - 1)),
    "long": Case("long", st.integers(-(2**63), 2**63 - 1)),
    "float": Case("float", st.floats(width=32, allow_nan=False)),
    "double": Case("double", st.floats(allow_nan=False)),
    "bytes": Case("bytes", st.binary(max_size=30)),
    "string": Case("string", st.text(max_size=30)),
    "fixed": Case({"type": "fixed", "name": "F", "size": 3}, st.binary(min_size=3, max_size=3)),
    "enum": Case({"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}, st.sampled_from("ABC")),
    "date": Case(_logical("int", "date"), st.dates()),
    "time-millis": Case(_logical("int", "time-millis"), st.times().map(_millis), _iso),
    "time-micros": Case(_logical("long", "time-micros"), st.times(), _iso),
    "timestamp-millis": Case(_logical("long", "timestamp-millis"), _INSTANTS.map(_millis)),
    "timestamp-micros": Case(_logical("long", "timestamp-micros"), _INSTANTS),
    "local-timestamp-millis": Case(_logical("long", "local-timestamp-millis"), _LOCAL.map(_millis)),
    "local-timestamp-micros": Case(_logical("long", "local-timestamp-micros"), _LOCAL),
    "uuid": Case(_logical("string", "uuid"), st.uuids(), str),
    "uuid of bytes": Case(
        {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"},
        st.uuids().map(lambda each: each.bytes),
        lambda each: str(uuid.UUID(bytes=each)),
    ),
    "decimal": Case(_logical("bytes", "decimal", precision=12, scale=3), _decimals(12, 3)),
    "decimal of 38 digits": Case(_logical("bytes", "decimal", precision=38, scale=37), _decimals(38, 37)),
    "decimal of fixed": Case(
        {"type": "fixed", "name": "D", "size": 20, "logicalType": "decimal", "precision": 38, "scale": 0},
        _decimals(38, 0),
    ),
}
"""Types without parts, by a name for test ids."""


def _nullable(case: Case) -> Case:
    return Case(["null", case.schema], st.none() | case.values, lambda v: None if v is None else case.expected(v))


def _array(case: Case) -> Case:
    schema = {"type": "array", "items": case.schema}
    return Case(schema, st.lists(case.values, max_size=6), lambda values: [case.expected(each) for each in values])


def _map(case: Case) -> Case:
    schema = {"type": "map", "values": case.schema}
    values = st.dictionaries(st.text(max_size=5), case.values, max_size=5)
    return Case(schema, values, lambda value: [(key, case.expected(each)) for key, each in value.items()])


def _record(name: str, cases: Sequence[Case]) -> Case:
    schema = record(*((f"f{at}", case.schema) for at, case in enumerate(cases)), name=name)
    values = st.fixed_dictionaries({f"f{at}": case.values for at, case in enumerate(cases)})
    return Case(schema, values, lambda value: {f"f{at}": c.expected(value[f"f{at}"]) for at, c in enumerate(cases)})


_UNNAMED: Final = [case for case in SIMPLE.values() if not isinstance(case.schema, dict) or "name" not in case.schema]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a record with types of any depth. Each named type is defined once."""
    numbers = iter(range(10_000))

    def any_case(depth: int) -> Case:
        shape = draw(st.sampled_from(["simple", "nullable", "array", "map", "record"] if depth else ["simple"]))
        if shape == "simple":
            return draw(st.sampled_from(_UNNAMED))
        if shape == "record":
            parts = [any_case(depth - 1) for _ in range(draw(st.integers(1, 3)))]
            return _record(f"N{next(numbers)}", parts)
        inner = any_case(depth - 1)
        if shape == "nullable":
            return inner if isinstance(inner.schema, list) else _nullable(inner)
        return _array(inner) if shape == "array" else _map(inner)

    return _record("Root", [any_case(3) for _ in range(draw(st.integers(1, 4)))])

"""Rows are written as Avro that fastavro and our own decoder read, or are refused."""

from __future__ import annotations

import io
import json
import math
import pickle
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.api.encoding import MessagePart, UnencodableError, UsedSchema
from connectors.formats.avro.avro_rows import AvroRows
from connectors.formats.avro.pieces import binary
from tests.connectors.formats.avro.columns import SCALARS, Column, batches
from tests.connectors.formats.avro.written import SIMPLE, Case, cases, decode, encode, record

_VALUE = MessagePart("out", "t", "value")
_KEY = MessagePart("out", "t", "key")


def _encoded(rows: pa.RecordBatch, schema: Any = None, part: MessagePart = _VALUE) -> tuple[Any, list[bytes | None]]:
    """Return the schema, and the bytes of each row."""
    form = AvroRows(None, None if schema is None else json.dumps(schema))
    assert form.problems(part, rows.schema) == []
    encoder = pickle.loads(pickle.dumps(form.open(part, rows.schema)))
    assert encoder.used.id is None
    return json.loads(encoder.used.text), encoder.encode(rows).to_pylist()


def _read(schema: Any, content: bytes) -> Any:
    """Return the value that fastavro reads."""
    stream = io.BytesIO(content)
    found = fastavro.schemaless_reader(stream, fastavro.parse_schema(schema))
    assert stream.tell() == len(content)
    return found


def _as_fastavro(value: Any, kind: pa.DataType) -> Any:
    """Return a column's value as fastavro gives it: maps are dictionaries."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {each.name: _as_fastavro(value[each.name], each.type) for each in kind}
    if pa.types.is_map(kind):
        return {key: _as_fastavro(each, kind.item_type) for key, each in value}
    if pa.types.is_list(kind):
        return [_as_fastavro(each, kind.value_type) for each in value]
    return value


def _assert_same(rows: pa.RecordBatch, schema: Any, found: Sequence[bytes | None]) -> None:
    """Both readers give the rows."""
    given = [content for content in found if content is not None]
    assert len(given) == rows.num_rows
    assert [_read(schema, content) for content in given] == [
        _as_fastavro(row, pa.struct(list(rows.schema))) for row in rows.to_pylist()
    ]
    decoded = decode(schema, given)
    assert decoded.bad == ()
    assert decoded.rows.to_pylist() == rows.to_pylist()
    assert [each.nullable for each in decoded.rows.schema] == [each.nullable for each in rows.schema]


@given(rows=batches())
def test_rows_of_any_type_are_read_by_fastavro_and_by_our_decoder(rows: pa.RecordBatch) -> None:
    _assert_same(rows, *_encoded(rows))


@pytest.mark.parametrize("nullable", [False, True], ids=["never null", "nullable"])
@pytest.mark.parametrize("column", SCALARS.values(), ids=SCALARS)
@given(data=st.data())
def test_each_type_holds_its_values(column: Column, nullable: bool, data: st.DataObject) -> None:
    column = Column(column.type, column.values, nullable)
    values = data.draw(st.lists(column.drawn, max_size=30))
    schema = pa.schema([column.field("f"), pa.field("behind", pa.int32(), nullable=False)])
    rows = pa.record_batch([pa.array(values, column.type), pa.array(range(len(values)), pa.int32())], schema=schema)
    _assert_same(rows, *_encoded(rows))


@pytest.mark.parametrize("case", SIMPLE.values(), ids=SIMPLE)
@given(data=st.data())
def test_a_given_schema_of_each_type_gives_back_the_records(case: Case, data: st.DataObject) -> None:
    """Records of fastavro are decoded and encoded with the same schema, and hold the same values."""
    schema = record(("f", case.schema), ("behind", "long"))
    values = data.draw(st.lists(case.values, min_size=1, max_size=20))
    written = [encode(schema, {"f": value, "behind": at}) for at, value in enumerate(values)]
    _, found = _encoded(decode(schema, written).rows, schema)
    assert [repr(_read(schema, each or b"")) for each in found] == [repr(_read(schema, each)) for each in written]


@given(data=st.data(), case=cases())
def test_a_given_schema_of_any_depth_gives_back_the_records(data: st.DataObject, case: Case) -> None:
    written = [encode(case.schema, value) for value in data.draw(st.lists(case.values, max_size=8))]
    rows = decode(case.schema, written).rows
    at = data.draw(st.integers(0, len(written)))
    _, found = _encoded(rows.slice(at), case.schema)
    assert [repr(_read(case.schema, each or b"")) for each in found] == [
        repr(_read(case.schema, each)) for each in written[at:]
    ]


def _one(kind: Any, *values: Any, column: pa.DataType | None = None) -> list[Any]:
    """Encode a column with a type of Avro, and return what fastavro reads."""
    rows = pa.record_batch({"f": pa.array(values, column)})
    _, found = _encoded(rows, record(("f", kind)))
    return [_read(record(("f", kind)), each or b"")["f"] for each in found]


def test_a_slice_of_lists_of_fixed_has_the_bytes_of_its_rows() -> None:
    kind = {"type": "array", "items": {"type": "fixed", "name": "F", "size": 2}}
    rows = pa.record_batch({"f": pa.array([[b"ab"], [b"cd", b"ef"], [], [b"gh"]])}).slice(1)
    _, found = _encoded(rows, record(("f", kind)))
    assert found == [b"\x04cdef\0", b"\0", b"\x02gh\0"]


def test_more_bytes_than_a_column_can_have_are_an_error() -> None:
    with pytest.raises(pa.ArrowCapacityError, match="2,147,483,648 bytes of one column"):
        binary(np.array([0, 2**31]), None)
    assert len(binary(np.array([0, 0]), None)) == 1


def test_a_column_without_a_type_and_a_union_of_one_type() -> None:
    assert _one(["long", "null"], None, None, column=pa.null()) == [None, None]
    assert _one("null", None, column=pa.null()) == [None]
    assert _one(["long"], 3, 4) == [3, 4]
    wide = [{"type": "fixed", "name": f"F{size}", "size": size} for size in range(1, 71)]
    assert _one([*wide, "null"], None, None, column=pa.null()) == [None, None]


def test_nan_is_written() -> None:
    (found,) = _one("double", float("nan"))
    assert math.isnan(found)


def test_numbers_are_written_in_wider_types() -> None:
    assert _one("long", -1, 127, column=pa.int8()) == [-1, 127]
    assert _one("double", 0.5, column=pa.float32()) == [0.5]
    wide = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4}
    assert _one(wide, Decimal("1.25"), column=pa.decimal128(5, 2)) == [Decimal("1.2500")]


@pytest.mark.parametrize(
    ("number", "size"),
    [(0, 1), (127, 1), (128, 2), (-128, 1), (-129, 2), (2**63 - 1, 8), (2**63, 9), (-(2**63), 8), (2**71, 10)],
)
def test_a_decimal_has_as_few_bytes_as_its_number_needs(number: int, size: int) -> None:
    rows = pa.record_batch({"f": pa.array([Decimal(number)], pa.decimal128(38, 0))})
    (found,) = _encoded(rows, record(("f", {"type": "bytes", "logicalType": "decimal", "precision": 38})))[1]
    assert found == bytes([2 * size]) + number.to_bytes(size, "big", signed=True)


@pytest.mark.parametrize("size", [2, 8, 16, 17, 30])
def test_a_decimal_in_fixed_is_filled_up_with_its_sign(size: int) -> None:
    kind = {"type": "fixed", "name": "D", "size": size, "logicalType": "decimal", "precision": 4, "scale": 2}
    values = [Decimal("-99.99"), Decimal("-0.01"), Decimal("0.00"), Decimal("99.99")]
    assert _one(kind, *values, column=pa.decimal128(4, 2)) == values


_MICROS = datetime(2026, 1, 1, microsecond=1, tzinfo=UTC)
_UUID = {"type": "string", "logicalType": "uuid"}
_FIXED_UUID = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
_SMALL = {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}
_SHORT = {"type": "fixed", "name": "D", "size": 1, "logicalType": "decimal", "precision": 2}


@pytest.mark.parametrize(
    ("kind", "values", "reason"),
    [
        ("long", pa.array([1, None]), "NULL, which the schema does not take"),
        ("int", pa.array([1, 2**31]), "out of the range"),
        ("int", pa.array([1, -(2**31) - 1]), "out of the range"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, pa.array(["A", "C"]), "not one of the 2 symbols"),
        ({"type": "fixed", "name": "F", "size": 2}, pa.array([b"ab", b"abc"]), "not 2 bytes"),
        (_UUID, pa.array(["123e4567-e89b-12d3-a456-426614174000", "x"]), "not a UUID"),
        (_FIXED_UUID, pa.array(["123e4567-e89b-12d3-a456-426614174000", "x" * 36]), "not a UUID"),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            pa.array([_MICROS.replace(microsecond=0), _MICROS]),
            "more decimals",
        ),
        (
            {"type": "long", "logicalType": "timestamp-nanos"},
            pa.array([_MICROS, datetime(2300, 1, 1, tzinfo=UTC)]),
            "out of the range",
        ),
        ({"type": "int", "logicalType": "time-millis"}, pa.array(["13:05:00.25", "13:05:00.2501"]), "more decimals"),
        ({"type": "long", "logicalType": "time-micros"}, pa.array(["00:00:00", "24:00:00"]), "not a time"),
        (_SMALL, pa.array([Decimal("99.9"), Decimal("100.0")], pa.decimal128(5, 1)), "more than 3 digits"),
        (_SHORT, pa.array([Decimal(99), Decimal(-129)], pa.decimal128(5, 0)), "more than 2 digits"),
        (
            {"type": "map", "values": "long"},
            pa.array([[("a", 1)], [("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64())),
            "two equal keys",
        ),
        ({"type": "array", "items": "long"}, pa.array([[1], [1, None]]), r"f\[\]: NULL"),
        (record(("x", "int"), name="P"), pa.array([{"x": 1}, {"x": 2**40}]), r"f\.x: a number"),
    ],
)
def test_a_value_that_the_schema_cannot_hold_is_refused(kind: Any, values: pa.Array, reason: str) -> None:
    """And the error names the column and the row."""
    rows = pa.record_batch({"before": pa.array([1, 2]), "f": values})
    schema = record(("before", "long"), ("f", kind))
    assert len(_encoded(rows.slice(0, 1), schema)[1]) == 1
    with pytest.raises(UnencodableError, match=reason) as refused:
        _encoded(rows, schema)
    assert (refused.value.column, refused.value.index) == ("f", 1)


@pytest.mark.parametrize(
    ("kind", "column", "problem"),
    [
        ("float", pa.float64(), "column f is DOUBLE, not FLOAT"),
        ("long", pa.string(), "column f is STRING, not a whole number"),
        ("string", pa.binary(), "column f is BINARY, not STRING"),
        ("long", pa.timestamp("us", "UTC"), "column f is TIMESTAMP, not a whole number"),
        (
            {"type": "long", "logicalType": "timestamp-micros"},
            pa.timestamp("us"),
            "column f is TIMESTAMP_NTZ, not TIMESTAMP",
        ),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.timestamp("us", "UTC"), "not TIMESTAMP_NTZ"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, pa.decimal128(9, 3), "does not hold"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 50}, pa.decimal128(9, 0), "does not hold"),
        ({"type": "array", "items": "string"}, pa.list_(pa.int64()), r"column f\[\] is BIGINT, not STRING"),
        ({"type": "map", "values": "long"}, pa.map_(pa.int64(), pa.int64()), "not a MAP with STRING keys"),
        (
            record(("x", "long"), name="P"),
            pa.struct([("y", pa.int64())]),
            r"no field for column f\.y; column f\.x is missing",
        ),
        (["long", "string"], pa.int64(), "not the STRUCT of a union"),
        ("long", pa.null(), "takes no NULL"),
    ],
)
def test_a_column_that_a_schema_cannot_hold_is_refused_before_any_row(
    kind: Any, column: pa.DataType, problem: str
) -> None:
    form = AvroRows(None, json.dumps(record(("f", kind))))
    assert re.search(problem, "; ".join(form.problems(_VALUE, pa.schema([("f", column)]))))


def test_a_given_schema_has_the_columns_of_the_rows_and_no_others() -> None:
    form = AvroRows(None, json.dumps(record(("id", "long"), ("note", "string"))))
    problems = ["the schema has no field for column total", "column note is missing, which the schema has"]
    assert form.problems(_VALUE, pa.schema([("id", pa.int64()), ("total", pa.int64())])) == problems
    assert form.name_problems(_VALUE, ["id", "total"]) == problems


def test_fields_are_written_in_the_order_of_the_schema() -> None:
    rows = pa.record_batch({"b": pa.array(["x"]), "a": pa.array([7])})
    assert _encoded(rows, record(("a", "long"), ("b", "string")))[1] == [b"\x0e\x02x"]


@pytest.mark.parametrize("name", ["a b", "größe", "1st", "a-b", "", 'a"b', "a.b", "a\0b", "x" * 9 + "\n"])
def test_a_column_that_is_no_name_in_avro_is_refused(name: str) -> None:
    form = AvroRows(None)
    for column in (pa.field(name, pa.int64()), pa.field("outer", pa.struct([(name, pa.int64())]))):
        (problem,) = form.problems(_VALUE, pa.schema([column, pa.field("id", pa.int64())]))
        assert "is not a name in Avro" in problem
    assert len(form.name_problems(_VALUE, [name, "id"])) == 1
    assert form.name_problems(_KEY, [name]) == []  # its value is the whole key
    assert form.problems(_KEY, pa.schema([(name, pa.int64())])) == []


def test_two_fields_of_one_name_are_refused() -> None:
    kind = pa.struct([pa.field("x", pa.int64()), pa.field("x", pa.string())])
    assert AvroRows(None).problems(_VALUE, pa.schema([("f", kind)])) == ["there are two columns f.x"]


@pytest.mark.parametrize("kind", [pa.duration("us"), pa.map_(pa.int64(), pa.string()), pa.null()])
def test_a_column_that_avro_has_no_type_for_is_refused(kind: pa.DataType) -> None:
    (problem,) = AvroRows(None).problems(_VALUE, pa.schema([("id", pa.int64()), ("f", kind)]))
    assert problem.startswith("column f is ")


def test_records_in_columns_have_names_of_their_own() -> None:
    """The name is the path, so columns of equal names in two places are two types."""
    inner = pa.struct([("x", pa.int64())])
    other = pa.struct([("x", pa.string())])
    rows = pa.record_batch(
        {"a": pa.array([{"b": {"x": 1}}], pa.struct([("b", inner)])), "b": pa.array([{"x": "y"}], other)}
    )
    schema, found = _encoded(rows)
    assert _read(schema, found[0] or b"") == {"a": {"b": {"x": 1}}, "b": {"x": "y"}}


def test_a_key_of_one_column_is_its_value_and_null_without_one() -> None:
    rows = pa.record_batch({"id": pa.array([None, 3, None, 4])})
    schema, found = _encoded(rows, part=_KEY)
    assert schema == "long"
    assert found == [None, b"\x06", None, b"\x08"]
    assert _encoded(pa.record_batch({"id": pa.array([None], pa.int64())}), part=_KEY)[1] == [None]
    text, found = _encoded(pa.record_batch({"id": pa.array([{"a": 1}, None])}), part=_KEY)
    assert (text["name"], found) == ("Key", [b"\x02\x02", None])


def test_a_key_of_several_columns_is_a_record() -> None:
    schema, found = _encoded(pa.record_batch({"id": pa.array([3]), "at": pa.array(["x"])}), part=_KEY)
    assert schema["name"] == "Key"
    assert _read(schema, found[0] or b"") == {"id": 3, "at": "x"}


def test_a_given_record_as_the_schema_of_a_key_of_one_column() -> None:
    rows = pa.record_batch({"id": pa.array([3])})
    assert _encoded(rows, record(("id", "long"), name="K"), _KEY)[1] == [b"\x06"]
    assert _encoded(rows, "long", _KEY)[1] == [b"\x06"]


def test_the_header_is_in_front_of_each_value() -> None:
    rows = pa.record_batch({"id": pa.array([3, 4])})
    form = AvroRows(None, record="com.example.Order", encoding="single-object")
    encoder = form.open(_VALUE, rows.schema)
    parsed: Any = fastavro.parse_schema(json.loads(encoder.used.text))
    assert parsed["name"] == "com.example.Order"
    digest = fastavro.schema.fingerprint(fastavro.schema.to_parsing_canonical_form(parsed), "CRC-64-AVRO")
    header = b"\xc3\x01" + bytes.fromhex(digest)[::-1]
    assert encoder.encode(rows).to_pylist() == [header + b"\x02\x06", header + b"\x02\x08"]
    with_id = form.__class__(None, encoding="confluent").encoder(_VALUE, rows.schema, UsedSchema(encoder.used.text, 7))
    assert with_id.encode(rows).to_pylist() == [b"\0\0\0\0\x07\x02\x06", b"\0\0\0\0\x07\x02\x08"]


def test_an_encoder_of_an_earlier_start_is_for_the_same_schema_only() -> None:
    form = AvroRows(None)
    schema = pa.schema([("id", pa.int64())])
    used = form.open(_VALUE, schema).used
    assert form.reopen(_VALUE, schema, used) is not None
    assert form.reopen(_VALUE, pa.schema([("id", pa.int32())]), used) is None
    assert form.reopen(_VALUE, schema, UsedSchema(used.text, 7)) is None


def _calls(rows: pa.RecordBatch) -> int:
    """Return how many calls of functions the encoding of the rows takes."""
    encoder = AvroRows(None).open(_VALUE, rows.schema)
    encoder.encode(rows)  # computes the plan
    found: list[str] = []
    sys.setprofile(lambda _frame, event, _argument: found.append(event))
    try:
        encoder.encode(rows)
    finally:
        sys.setprofile(None)
    return sum(event in ("call", "c_call") for event in found)


def test_no_function_is_called_for_each_row() -> None:
    some = [
        {"id": 1, "word": None, "amount": Decimal("-1.50"), "tags": ["a"], "facts": [("k", 1)], "part": {"x": None}},
        {"id": 2**40, "word": "x", "amount": None, "tags": [], "facts": [], "part": None},
    ]
    fields = {
        "id": pa.int64(),
        "word": pa.string(),
        "amount": pa.decimal128(30, 2),
        "tags": pa.list_(pa.string()),
        "facts": pa.map_(pa.string(), pa.int64()),
        "part": pa.struct([("x", pa.int32())]),
    }
    schema = pa.schema(list(fields.items()))
    few, many = (_calls(pa.RecordBatch.from_pylist(some * times, schema)) for times in (2, 2_000))
    assert many == few > 0

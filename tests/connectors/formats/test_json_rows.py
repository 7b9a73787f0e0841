"""Rows as JSON text with a JSON Schema, by which a validator judges the text of each row."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from hypothesis import given

from connectors.api.encoding import MessagePart, UnencodableError, UsedSchema
from connectors.formats.json_rows import JsonRows, json_column
from connectors.formats.json_text import json_text
from tests.connectors.formats.avro.columns import batches

_VALUE = MessagePart("out", "t", "value")
_KEY = MessagePart("out", "t", "key")


@given(rows=batches())
def test_each_row_is_valid_by_its_schema(rows: pa.RecordBatch) -> None:
    form = JsonRows(None)
    if form.problems(_VALUE, rows.schema):
        assert any(pa.types.is_binary(each.type) for each in rows.schema)  # at the top, as without a schema
        return
    encoder = form.open(_VALUE, rows.schema)
    schema = json.loads(encoder.used.text)
    jsonschema.Draft7Validator.check_schema(schema)
    if "inf" in repr(rows.to_pylist()):  # a text may have these letters, too
        return
    found = encoder.encode(rows).to_pylist()
    for text in found:
        jsonschema.validate(json.loads(text), schema)
    assert [list(json.loads(text)) for text in found] == [rows.schema.names] * rows.num_rows


def test_the_schema_says_which_columns_may_be_null_and_has_no_others() -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("note", pa.string())])
    found = json.loads(JsonRows(None, "Order").open(_VALUE, schema).used.text)
    assert found == {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Order",
        "type": "object",
        "properties": {"id": {"type": "integer"}, "note": {"oneOf": [{"type": "null"}, {"type": "string"}]}},
        "required": ["id"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("value", "kind", "schema", "text"),
    [
        (Decimal("1.50"), pa.decimal128(15, 2), {"type": "number"}, b"1.50"),
        (Decimal("1.50"), pa.decimal128(16, 2), {"type": "string"}, b'"1.50"'),
        (date(2026, 1, 2), pa.date32(), {"type": "string", "format": "date"}, b'"2026-01-02"'),
        (
            datetime(2026, 1, 2, tzinfo=UTC),
            pa.timestamp("us", "UTC"),
            {"type": "string", "format": "date-time"},
            b'"2026-01-02T00:00:00.000000Z"',
        ),
        (datetime(2026, 1, 2), pa.timestamp("us"), {"type": "string"}, b'"2026-01-02T00:00:00.000000"'),
        ([b"a"], pa.list_(pa.binary()), None, b'["YQ=="]'),
        ([("a", 1)], pa.map_(pa.string(), pa.int64()), None, b'{"a":1}'),
        ("x", pa.string(), {"type": "string"}, b'"x"'),
    ],
)
def test_a_key_of_one_column_is_its_value(
    value: object, kind: pa.DataType, schema: dict[str, str] | None, text: bytes
) -> None:
    rows = pa.record_batch({"k": pa.array([value, None], kind)})
    form = JsonRows(None)
    used = form.open(_KEY, rows.schema).used
    if schema is not None:
        assert {name: each for name, each in json.loads(used.text).items() if name in ("type", "format")} == schema
    encoder = form.encoder(_KEY, rows.schema, UsedSchema(used.text, 258))
    assert encoder.encode(rows).to_pylist() == [b"\0\0\0\1\2" + text, None]


def test_a_key_of_several_columns_is_an_object() -> None:
    rows = pa.record_batch({"a": pa.array([1]), "b": pa.array(["x"])})
    assert JsonRows(None).open(_KEY, rows.schema).encode(rows).to_pylist() == [b'{"a":1,"b":"x"}']


def test_a_column_that_json_has_no_type_for_is_refused() -> None:
    (problem,) = JsonRows(None).problems(_VALUE, pa.schema([("id", pa.int64()), ("b", pa.binary())]))
    assert problem.startswith("column b is BINARY, which JSON does not have")


def test_a_value_that_json_does_not_have_is_refused_by_column_and_row() -> None:
    rows = pa.record_batch({"id": pa.array([1, 2]), "x": pa.array([0.5, float("nan")])})
    with pytest.raises(UnencodableError, match="NaN") as found:
        JsonRows(None).open(_VALUE, rows.schema).encode(rows)
    assert (found.value.column, found.value.index) == ("x", 1)


@pytest.mark.parametrize(
    ("kind", "first", "last"),
    [
        (pa.date32(), -719_162, 2_932_896),
        (pa.timestamp("s"), -62_135_596_800, 253_402_300_799),
        (pa.timestamp("us", "UTC"), -62_135_596_800_000_000, 253_402_300_799_999_999),
    ],
)
def test_dates_outside_of_the_years_1_to_9999_are_refused(kind: pa.DataType, first: int, last: int) -> None:
    """Their text would not be ISO 8601: the text of the farthest is `<value out of range: …>`."""
    bits = pa.int32() if kind == pa.date32() else pa.int64()
    good = pa.array([first, None, last, 0], bits).view(kind)
    shown = ["0001-01-01", None, "9999-12-31", "1970-01-01"]
    assert [each and each[1:11] for each in json_text(good).to_pylist()] == shown
    for wrong in (first - 1, last + 1, 2**31 - 1 if bits == pa.int32() else 2**63 - 1):
        values = pa.array([0, wrong], bits).view(kind)
        for column in (values, pa.StructArray.from_arrays([values], ["x"])):
            with pytest.raises(UnencodableError, match="not in the years 1 to 9999") as caught:
                json_column("v", column)
            assert caught.value.index == 1


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        (pa.list_(pa.float64()), [[1.0], [2.0, 3.0], None, [math.nan], [4.0]]),
        (pa.map_(pa.string(), pa.float64()), [[("a", 1.0)], [], None, [("b", math.inf)], [("c", 4.0)]]),
        (pa.list_(pa.struct([("x", pa.list_(pa.float64()))])), [[{"x": [1.0]}], [], None, [{"x": [math.nan]}], []]),
    ],
)
def test_a_row_is_not_refused_for_the_items_of_another_row(kind: pa.DataType, rows: list[Any]) -> None:
    """A slice of a column has the items of the whole column, also those of rows outside of it."""
    values = pa.array(rows, kind)
    expected = [*json_text(pa.array(rows[:3], kind)).to_pylist(), *json_text(pa.array(rows[4:], kind)).to_pylist()]
    assert [*json_text(values.slice(0, 3)).to_pylist(), *json_text(values.slice(4)).to_pylist()] == expected
    assert json_text(values.slice(3, 0)).to_pylist() == []
    for column in (values, pa.StructArray.from_arrays([values], ["s"])):
        with pytest.raises(UnencodableError, match="NaN") as found:
            json_column("v", column)
        assert found.value.index == 3

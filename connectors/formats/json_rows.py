"""Rows as JSON objects with a JSON Schema in a registry: the format `json` of a sink.

Source: Confluent Schema Registry, "JSON Schema serializer": nullable types are `oneOf` with null, and objects closed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from connectors.api.encoding import MessagePart, UnencodableError, UsedSchema
from connectors.bad_values import first_bad
from connectors.formats.json_text import EXACT_DIGITS, is_bytes, json_text, supported
from connectors.schema_registry.schema_rows import Described, SchemaRows, confluent_header
from connectors.spark_types import spark_type

_DIALECT: Final = "http://json-schema.org/draft-07/schema#"
_NOT_WRITTEN: Final = "which JSON does not have: encode it in a step, for example with base64()"


def json_objects(rows: pa.RecordBatch) -> pa.Array:
    """Return each row as the text of a JSON object. Raises UnencodableError."""
    parts: list[pa.Array | str] = []
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        label = json_text(pa.array([name]))[0].as_py()
        parts += [("," if parts else "{") + label + ":", pc.fill_null(json_column(name, column), "null")]
    return pc.binary_join_element_wise(*parts, "}", "")


def json_column(name: str, column: pa.Array) -> pa.Array:
    """Return the JSON text of each value, NULL where it is NULL. Raises UnencodableError."""
    try:
        return json_text(column)
    except pa.ArrowInvalid as error:
        index, reason = first_bad(json_text, column, str(error))
        raise UnencodableError(name, index, reason) from error


@dataclass(frozen=True, slots=True)
class JsonRows(SchemaRows):
    """JSON text behind the id of a JSON Schema that is derived from the columns."""

    kind: ClassVar[str] = "JSON"

    record: str | None = None  # the title

    def described(self, part: MessagePart, schema: pa.Schema) -> Described:
        title = self.record or part.part.capitalize()
        problems = [
            f"column {each.name} is {spark_type(each.type)}, {_NOT_WRITTEN}"
            for each in schema
            if not supported(each.type)
        ]
        if problems:
            return Described("", title, problems)
        found = _type(schema.field(0).type) if part.is_one_value(schema) else _object(list(schema))
        return Described(json.dumps({"$schema": _DIALECT, "title": title, **found}), title)

    def encoder(self, part: MessagePart, schema: pa.Schema, used: UsedSchema) -> JsonEncoder:
        return JsonEncoder(used, confluent_header(used), part.is_one_value(schema))

    def name_problems(self, part: MessagePart, names: Sequence[str]) -> Sequence[str]:
        return []


@dataclass(frozen=True, slots=True)
class JsonEncoder:
    """Writes the header and the JSON text of each row."""

    used: UsedSchema
    header: bytes
    is_whole: bool  # the one column is the value, and not the only field of an object

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        text = json_column(rows.schema.names[0], rows.column(0)) if self.is_whole else json_objects(rows)
        return pc.binary_join_element_wise(pa.scalar(self.header, pa.binary()), text.cast(pa.binary()), b"")


def _object(fields: Sequence[pa.Field]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {each.name: _nullable(each) for each in fields},
        "required": [each.name for each in fields if not each.nullable],
        "additionalProperties": False,  # a registry then takes a new property as a compatible change
    }


def _nullable(field: pa.Field) -> dict[str, Any]:
    found = _type(field.type)
    return {"oneOf": [{"type": "null"}, found]} if field.nullable and found != {"type": "null"} else found


def _type(kind: pa.DataType) -> dict[str, Any]:
    """Return the JSON Schema of a value as `json_text` writes it."""
    if types.is_dictionary(kind):
        return _type(kind.value_type)
    if types.is_struct(kind):
        return _object(list(kind))
    if types.is_map(kind):
        return {"type": "object", "additionalProperties": _nullable(kind.item_field)}
    if types.is_nested(kind):
        return {"type": "array", "items": _nullable(kind.value_field)}
    if types.is_decimal(kind):
        return {"type": "number" if kind.precision <= EXACT_DIGITS else "string"}
    return next(found for test, found in _SCALARS if test(kind))


_TEXT: Final = {"type": "string"}
_SCALARS: Final = (
    (types.is_null, {"type": "null"}),
    (types.is_boolean, {"type": "boolean"}),
    (types.is_integer, {"type": "integer"}),
    (types.is_floating, {"type": "number"}),
    (types.is_date, dict(_TEXT, format="date")),
    (lambda kind: types.is_timestamp(kind) and kind.tz is not None, dict(_TEXT, format="date-time")),
    (is_bytes, dict(_TEXT, contentEncoding="base64")),
    (lambda kind: True, _TEXT),
)

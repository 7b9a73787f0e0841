"""The Avro schema of the columns of rows. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
from pyarrow import types

from connectors.formats.avro.matching import MismatchError
from connectors.spark_types import spark_type

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN: Final = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "bytes",
    pa.large_binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
}


def is_name(text: str) -> bool:
    """Whether Avro takes the text as the name of a field."""
    return _NAME.fullmatch(text) is not None


def not_a_name(text: str) -> str:
    """Return why a column cannot be a field."""
    return f"column {text!r} is not a name in Avro, which has letters, digits and _, and no digit in front: rename it"


def record_schema(columns: Sequence[pa.Field], name: str) -> tuple[str, list[str]]:
    """Return the schema of a record with a field for each column, and the columns that have no Avro type.

    A column that may be NULL is a union with null, and null is its default: a later schema may add or drop it.
    `name`: of the record, with its namespace.
    """
    problems: list[str] = []
    schema = _record(columns, name, "", problems)
    return json.dumps(schema), problems


def value_schema(column: pa.Field, name: str) -> tuple[str, list[str]]:
    """Return the schema of the values of one column, which are never null. `name`: of a record in it."""
    problems: list[str] = []
    try:
        return json.dumps(_type(column.type, name, column.name, problems)), problems
    except MismatchError as error:
        return "", [f"column {column.name} is {spark_type(column.type)}, {error}"]


def _record(columns: Sequence[pa.Field], name: str, inside: str, problems: list[str]) -> dict[str, Any]:
    space, _, own = name.rpartition(".")
    fields: list[dict[str, Any]] = []
    for column in columns:
        what = inside + column.name
        if any(each["name"] == column.name for each in fields):
            problems.append(f"there are two columns {what}")
            continue
        if not is_name(column.name):
            problems.append(not_a_name(what))
            continue
        try:
            kind = _type(column.type, f"{name}.{column.name}", what, problems)
        except MismatchError as error:
            problems.append(f"column {what} is {spark_type(column.type)}, {error}")
            continue
        if column.nullable:
            fields.append({"name": column.name, "type": ["null", kind], "default": None})
        else:
            fields.append({"name": column.name, "type": kind})
    return {"type": "record", "name": own, **({"namespace": space} if space else {}), "fields": fields}


def _type(kind: pa.DataType, name: str, what: str, problems: list[str]) -> Any:
    """Return the Avro type of a value that is not null. `name`: of a record, from the path to it, so it is unique."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if types.is_decimal128(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if types.is_timestamp(kind):
        return {"type": "long", "logicalType": "local-timestamp-micros" if kind.tz is None else "timestamp-micros"}
    if types.is_time(kind):
        return {"type": "long", "logicalType": "time-micros"}
    if types.is_struct(kind):
        return _record(list(kind), name, f"{what}.", problems)
    if types.is_list(kind) or types.is_large_list(kind):
        return {"type": "array", "items": _inner(kind.value_field, name, f"{what}[]", problems)}
    if types.is_map(kind):
        if kind.key_type not in (pa.string(), pa.large_string()):
            raise MismatchError("and Avro's maps have STRING keys: map_entries() makes an ARRAY of it")
        return {"type": "map", "values": _inner(kind.item_field, name, f"{what}{{}}", problems)}
    raise MismatchError("which Avro does not have: CAST it in a step")


def _inner(field: pa.Field, name: str, what: str, problems: list[str]) -> Any:
    kind = _type(field.type, name, what, problems)
    return ["null", kind] if field.nullable else kind

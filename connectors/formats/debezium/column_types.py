"""The types of columns, in Spark's DDL, from the types in which Debezium and Connect write their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa

from connectors.formats import wire
from connectors.formats.debezium.readings import CONVERTED
from connectors.formats.debezium.written import Written, of_connect
from connectors.spark_types import quoted, spark_type
from eos.errors import SpecError

_DIGITS: Final = 38
_SIMPLE: Final[Mapping[str, str]] = {
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "string": "STRING",
    "bytes": "BINARY",
    "Date": "DATE",
    **dict.fromkeys(("Timestamp", "MicroTimestamp", "NanoTimestamp", "IsoTimestamp"), "TIMESTAMP_NTZ"),
    "ZonedTimestamp": "TIMESTAMP",
    **dict.fromkeys(("Time", "MicroTime", "NanoTime"), "STRING"),
}
"""By the type in which values are written: the type of the column."""


def written_type(written: Written | None) -> str:
    """Return the type of a column; empty if it is not known."""
    if written is None:
        return ""
    if written.name == "Decimal" and written.scale is not None and written.scale <= _DIGITS:
        return f"DECIMAL({min(_DIGITS, written.precision or _DIGITS)},{written.scale})"
    if written.name in ("Json", "Xml", "Enum", "EnumSet", "Uuid", "Ltree", "TsVector"):
        return "STRING"
    return _SIMPLE.get(written.name, "")


def connect_type(field: Mapping[str, Any]) -> str:
    """Return the type of the column of a field of one of Connect's schemas; empty if it is not known."""
    written = of_connect(field)
    as_written = "" if written.name in CONVERTED else _SIMPLE.get(str(field.get("type")), "")
    return written_type(written) or as_written or _nested(field)


def fitting_type(kind: pa.DataType) -> str:
    """Return the name of a type that JSON can be decoded into; empty for another type."""
    try:
        wire.check(pa.schema([("v", kind)]))
    except SpecError:
        return ""
    return spark_type(kind)


def objects(fields: Any) -> Iterable[Mapping[str, Any]]:
    """Return the objects in an array of JSON. Takes any JSON."""
    return [each for each in fields if isinstance(each, dict)] if isinstance(fields, list) else []


def listed(types: Mapping[str, str], between: str) -> str:
    """Return names and types as a list of Spark's DDL."""
    return ", ".join(
        f"{name if name.isidentifier() and name.isascii() else quoted(name)}{between}{kind}"
        for name, kind in types.items()
    )


def _nested(field: Mapping[str, Any]) -> str:
    """Return the type of an array or a struct without a further meaning; empty if it has one."""
    if field.get("type") == "array" and isinstance(items := field.get("items"), dict):
        inside = _plain(items)
        return f"ARRAY<{inside}>" if inside else ""
    if field.get("type") == "struct":
        parts = {str(each.get("field")): _plain(each) for each in objects(field.get("fields"))}
        return f"STRUCT<{listed(parts, ': ')}>" if parts and all(parts.values()) else ""
    return ""


def _plain(field: Mapping[str, Any]) -> str:
    return "" if field.get("name") else _SIMPLE.get(str(field.get("type")), "")

"""The columns of a table, from a sample of its change events, for `eos init --from-topic`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from connectors.formats import wire
from connectors.formats.avro.writers import RegisteredWriters
from connectors.formats.ddl import parse_ddl
from connectors.formats.debezium.avro_events import AvroEvents
from connectors.formats.debezium.avro_schema import table_columns
from connectors.formats.debezium.debezium_format import EVENT, DebeziumFormat
from connectors.formats.debezium.events import Encoding
from connectors.formats.debezium.json_events import JsonEvents
from connectors.formats.debezium.written import Written, of_connect
from connectors.formats.framing import ids_in
from connectors.formats.json_inference import Inferred, infer_columns
from connectors.schema_registry.client import Connection, schemas_of
from connectors.spark_types import quoted, spark_type
from eos.errors import SpecError

_OPS: Final = frozenset("crudt")
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


def infer_json(values: Sequence[bytes]) -> Inferred | None:
    """Return the columns of events in JSON; None if a value is another record, or an event does not decode. Pure."""
    schemas: list[Any] = []
    images: list[bytes] = []
    for value in values:
        event, schema = _event(value)
        if event is None:
            continue
        if event.get("op") not in _OPS or not event.keys() & {"before", "after"}:
            if not _is_omitted(value):
                return None
            continue
        schemas.append(schema)
        images += [
            json.dumps(each).encode() for name in ("before", "after") if isinstance(each := event.get(name), dict)
        ]
    if not images:
        return None
    found = _of_schema(schemas[-1]) if all(schemas) else infer_columns(images)
    return found if found is not None and _decodes(found, values, JsonEvents) else None


def infer_avro(values: Sequence[bytes], registry: Connection) -> Inferred | None:
    """Return the columns of events in Avro, by the newest schema; None if a schema is of other records.

    May block. Raises SourceError if the registry does not answer, SpecError if a schema fits no columns.
    """
    ids = ids_in(values)
    if ids is None:
        return None
    newest = None
    for found in schemas_of(registry, ids).values():
        if found is None or found.kind != "AVRO":
            return None
        newest = table_columns(found.text, found.references) or newest
    if not newest:
        return None
    inferred = _inferred({name: _type(written) or _fitting(kind) for name, (kind, written) in newest.items()})
    row = parse_ddl(inferred.ddl)
    return inferred if _decodes(inferred, values, lambda _: AvroEvents(row, RegisteredWriters(registry))) else None


def _event(value: bytes) -> tuple[dict[str, Any] | None, Any]:
    """Return an event and its schema; None for a payload that is null."""
    try:
        document = json.loads(value)
    except (ValueError, RecursionError):
        return {}, None
    schema = None
    if isinstance(document, dict) and document.keys() == {"schema", "payload"}:
        schema, document = document["schema"], document["payload"]
    return document if document is None or isinstance(document, dict) else {}, schema


def _is_omitted(value: bytes) -> bool:
    row = pa.schema([("id", pa.int64())])
    return bool(DebeziumFormat(row, JsonEvents(row)).decode(pa.array([value], pa.binary())).omitted)


def _decodes(found: Inferred, values: Sequence[bytes], encoding: Any) -> bool:
    row = parse_ddl(found.ddl)
    events: Encoding = encoding(row)
    decoded = DebeziumFormat(row, events, "skip").decode(pa.array(values, pa.binary()))
    return all("without `before`" in each.reason for each in decoded.bad)  # its key is not in the sample


def _of_schema(schema: Any) -> Inferred | None:
    fields = schema.get("fields") if isinstance(schema, dict) else None
    image = next((each for each in _objects(fields) if each.get("field") == "after"), {})
    found = {str(each.get("field")): _type(of_connect(each)) or _nested(each) for each in _objects(image.get("fields"))}
    return _inferred(found) if any(found.values()) else None


def _objects(fields: Any) -> Iterable[Mapping[str, Any]]:
    return [each for each in fields if isinstance(each, dict)] if isinstance(fields, list) else []


def _nested(field: Mapping[str, Any]) -> str:
    """Return the type of an array or a struct without a further meaning; empty if it has one."""
    if field.get("type") == "array" and isinstance(items := field.get("items"), dict):
        inside = _plain(items)
        return f"ARRAY<{inside}>" if inside else ""
    if field.get("type") == "struct":
        parts = {str(each.get("field")): _plain(each) for each in _objects(field.get("fields"))}
        return f"STRUCT<{_listed(parts, ': ')}>" if parts and all(parts.values()) else ""
    return ""


def _plain(field: Mapping[str, Any]) -> str:
    return "" if field.get("name") else _SIMPLE.get(str(field.get("type")), "")


def _type(written: Written | None) -> str:
    """Return the type of a column; empty if it is not known."""
    if written is None:
        return ""
    if written.name == "Decimal" and written.scale is not None and written.scale <= _DIGITS:
        return f"DECIMAL({min(_DIGITS, written.precision or _DIGITS)},{written.scale})"
    if written.name in ("Json", "Xml", "Enum", "EnumSet", "Uuid", "Ltree", "TsVector"):
        return "STRING"
    return _SIMPLE.get(written.name, "")


def _fitting(kind: pa.DataType) -> str:
    try:
        wire.check(pa.schema([("v", kind)]))
    except SpecError:
        return ""
    return spark_type(kind)


def _inferred(types: Mapping[str, str]) -> Inferred:
    taken = {name for name in types if name.lower() in EVENT.names}
    kept = {name: kind for name, kind in types.items() if kind and name not in taken}
    return Inferred(_listed(kept, " "), tuple(kept), tuple(sorted(types.keys() - kept.keys())))


def _listed(types: Mapping[str, str], between: str) -> str:
    return ", ".join(
        f"{name if name.isidentifier() and name.isascii() else quoted(name)}{between}{kind}"
        for name, kind in types.items()
    )

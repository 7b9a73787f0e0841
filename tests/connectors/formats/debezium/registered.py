"""Change events as Connect's AvroConverter writes them, and a registry of their schemas."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any, Final

import fastavro
import pytest

from connectors.formats.avro.writers import RegisteredWriters
from connectors.formats.ddl import parse_ddl
from connectors.formats.debezium.avro_events import AvroEvents
from connectors.formats.debezium.debezium_format import DebeziumFormat
from connectors.formats.debezium.written import Written
from connectors.schema_registry.client import Connection, RegisteredSchema
from tests.connectors.schema_registry.known import give_schemas

SOURCE: Final = {
    "type": "record",
    "name": "Source",
    "namespace": "io.debezium.connector.mysql",
    "connect.name": "io.debezium.connector.mysql.Source",
    "fields": [
        {"name": "version", "type": "string"},
        {"name": "ts_ms", "type": "long"},
        {
            "name": "snapshot",
            "type": [{"type": "string", "connect.name": "io.debezium.data.Enum", "connect.default": "false"}, "null"],
            "default": "false",
        },
        {"name": "sequence", "type": ["null", "string"], "default": None},
        {"name": "file", "type": "string"},
        {"name": "pos", "type": "long"},
        {"name": "row", "type": "int"},
    ],
}


def connect_type(kind: Any, name: str, **parameters: str) -> Mapping[str, Any]:
    """A type of Connect's in Avro."""
    named: dict[str, Any] = {"type": kind, "connect.version": 1, "connect.name": name}
    return {**named, "connect.parameters": parameters} if parameters else named


def decimal(scale: int, precision: int = 10) -> Mapping[str, Any]:
    """As AvroConverter writes Connect's Decimal."""
    name = "org.apache.kafka.connect.data.Decimal"
    described = connect_type("bytes", name, **{"scale": str(scale), "connect.decimal.precision": str(precision)})
    return {**described, "scale": scale, "precision": precision, "logicalType": "decimal"}


def optional(kind: Any) -> list[Any]:
    """A type that takes null, too."""
    return ["null", kind]


def envelope(fields: Mapping[str, Any], source: Any = SOURCE) -> dict[str, Any]:
    """The schema of the events of a table."""
    columns = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop.customers",
        "connect.version": 2,
        "connect.name": "shop.customers.Envelope",
        "fields": [
            {
                "name": "before",
                "type": ["null", {"type": "record", "name": "Value", "fields": columns}],
                "default": None,
            },
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "source", "type": source},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"], "default": None},
        ],
    }


def record(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a key, for example."""
    columns = [{"name": each, "type": kind} for each, kind in fields.items()]
    return {"type": "record", "name": name, "namespace": "shop.customers", "fields": columns}


def encoded(schema_id: int, schema: Any, value: Any) -> bytes:
    """A value behind the id of its schema."""
    content = io.BytesIO(b"\0" + schema_id.to_bytes(4))
    content.seek(0, io.SEEK_END)
    fastavro.schemaless_writer(content, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return content.getvalue()


def event(op: str, before: Any = None, after: Any = None, **more: Any) -> dict[str, Any]:
    """An event, to be encoded."""
    source = {"version": "3", "ts_ms": 1_000, "snapshot": "false", "file": "binlog.000002", "pos": 7, "row": 1}
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1, **more}


class Registry:
    """Schemas by their ids. Tests on servers have a real one."""

    def __init__(self) -> None:
        self.schemas: dict[int, RegisteredSchema] = {}

    def add(self, schema_id: int, schema: Any, *references: Any, kind: str = "AVRO") -> None:
        """Register a schema."""
        texts = tuple(map(json.dumps, references))
        self.schemas[schema_id] = RegisteredSchema(kind, json.dumps(schema), texts)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> Registry:
        """Have formats find these schemas."""
        give_schemas(monkeypatch, self.schemas)
        return self


def avro_format(ddl: str, types: Mapping[str, str] | None = None, **options: Any) -> DebeziumFormat:
    """The format over Avro."""
    row = parse_ddl(ddl)
    declared = {column: Written(name) for column, name in (types or {}).items()}
    writers = RegisteredWriters(Connection("http://127.0.0.1:1"))
    return DebeziumFormat(row, AvroEvents(row, writers, declared, options.pop("documents", False)), **options)

"""The columns of a table, from its change events."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from connectors.formats.avro.entry import AvroEntry
from connectors.formats.debezium.entry import DebeziumEntry
from connectors.formats.entry import JsonEntry
from tests.connectors.formats.debezium.registered import Registry, connect_type, decimal, encoded, envelope, optional
from tests.connectors.formats.debezium.registered import event as avro_event
from tests.connectors.formats.debezium.written import connect_field, event, packed, wrapped

_TIME: Final = "io.debezium.time."
_ROW: Final = {"id": 1, "name": "n", "price": "AQ==", "at": 5, "tags": ["a"], "more": {"a": 1}, "odd": {}, "w id": 1}
_FIELDS: Final = [
    connect_field("id", "int64"),
    connect_field("name", "string", "io.debezium.data.Enum"),
    connect_field("price", "bytes", "org.apache.kafka.connect.data.Decimal", 2),
    connect_field("at", "int64", _TIME + "MicroTimestamp"),
    {**connect_field("tags", "array"), "items": {"type": "string"}},
    {**connect_field("more", "struct"), "fields": [connect_field("a", "int32")]},
    connect_field("odd", "map"),
    connect_field("w id", "int8"),
]


def found(values: list[bytes], registry: dict[str, Any] | None = None) -> tuple[str, tuple[str, ...], str] | None:
    recognized = DebeziumEntry.recognize("new", values, registry or {})
    return None if recognized is None else (recognized.keys["schema"], recognized.columns, recognized.note)


def test_events_with_schemas() -> None:
    older = wrapped(_FIELDS[:1], event("c", None, {"id": 1}))
    values = [older, wrapped(_FIELDS, b"null"), wrapped(_FIELDS, event("u", None, _ROW)), b'{"ts_ms":1}']
    recognized = found([*values, wrapped(_FIELDS, event("d"))])
    assert recognized is not None
    schema, columns, note = recognized
    assert schema == (
        "id BIGINT, name STRING, price DECIMAL(10,2), at TIMESTAMP_NTZ, tags ARRAY<STRING>, more STRUCT<a: INT>, "
        "`w id` TINYINT"
    )
    assert columns == ("id", "name", "price", "at", "tags", "more", "w id", "_deleted", "_partition", "_offset")
    assert note == "left out: odd; for a copy of the table, set commit: upsert, key, and deleted: _deleted"
    DebeziumEntry.model_validate({"type": "debezium", "schema": schema}).build()


def test_events_without_schemas() -> None:
    values = [event("c", None, {"id": 1, "name": "n"}), event("d", {"id": 1.5, "name": None})]
    recognized = found(values)
    assert recognized is not None
    assert recognized[0] == "id DOUBLE, name STRING"


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b"no JSON",
        packed({"id": 1}),
        packed({"op": "c"}),
        event("x", None, {"id": 1}),
        event("c", None, '{"_id": 1}'),
        wrapped(_FIELDS, event("c", None, {"id": "text"})),
    ],
)
def test_other_records(value: bytes) -> None:
    assert found([event("c", None, {"id": 1}), value]) is None
    assert found([value]) is None


def test_events_in_avro(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    registry = Registry().install(monkeypatch)
    schema = envelope(
        {
            "id": "int",
            "price": optional(decimal(2)),
            "day": optional(connect_type("int", _TIME + "Date")),
            "flags": optional({"type": "map", "values": "int"}),
            "_op": optional("string"),
        }
    )
    registry.add(1, schema)
    registry.add(2, {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]})
    values = [
        encoded(1, schema, avro_event("c", None, {"id": 1, "price": None, "day": 1, "flags": {"a": 2}, "_op": None}))
    ]
    login = {"url": "http://127.0.0.1:1"}
    recognized = DebeziumEntry.recognize("new", values, login)
    assert recognized is not None
    ddl = "id INT, price DECIMAL(10,2), day DATE, flags MAP<STRING, INT>"
    assert recognized.keys == {"encoding": "confluent", "schema": ddl}
    assert recognized.needs_registry
    assert recognized.note.startswith("left out: _op; ")
    assert DebeziumEntry.recognize("new", values, {}) is None
    assert DebeziumEntry.recognize("new", [b"\0\0\0\0\2\2"], login) is None


def test_general_formats_take_the_events_too_and_so_are_tried_later() -> None:
    assert JsonEntry.recognize("new", [event("c", None, {"id": 1})], {}) is not None
    assert DebeziumEntry.is_special
    assert not JsonEntry.is_special
    assert not AvroEntry.is_special

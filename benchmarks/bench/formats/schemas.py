"""Schemas of the records in each format, as their writers would register them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

_NAMESPACE: Final = "shop.shop.compared"
_MICROS: Final = "io.debezium.time.MicroTimestamp"


def _optional(kind: Any) -> dict[str, Any]:
    return {"type": ["null", kind], "default": None}


ROW_AVRO: Final = json.dumps(
    {
        "type": "record",
        "name": "Row",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "user", **_optional("string")},
            {"name": "amount", **_optional("double")},
            {"name": "ts", **_optional({"type": "long", "logicalType": "timestamp-millis"})},
        ],
    }
)
"""Times in milliseconds: Flink's format reads times of Avro in no other unit by default."""

ROW_PROTOBUF: Final = (Path(__file__).parent / "flink" / "src" / "main" / "proto" / "row.proto").read_text()
"""Flink's project compiles it, too."""

KEY_AVRO: Final = json.dumps(
    {"type": "record", "name": "Key", "namespace": _NAMESPACE, "fields": [{"name": "id", "type": "long"}]}
)

_COLUMNS: Final = [
    {"name": "id", "type": "long"},
    {"name": "user", **_optional("string")},
    {"name": "amount", **_optional("double")},
    {"name": "ts", **_optional({"type": "long", "connect.version": 1, "connect.name": _MICROS})},
]
_SOURCE_AVRO: Final = {
    "type": "record",
    "name": "Source",
    "namespace": "io.debezium.connector.mysql",
    "fields": [
        *({"name": name, "type": "string"} for name in ("version", "connector", "name")),
        {"name": "ts_ms", "type": "long"},
        {"name": "snapshot", "type": ["string", "null"], "default": "false"},
        {"name": "db", "type": "string"},
        *({"name": name, **_optional(kind)} for name, kind in (("sequence", "string"), ("ts_us", "long"))),
        *({"name": name, **_optional(kind)} for name, kind in (("ts_ns", "long"), ("table", "string"))),
        {"name": "server_id", "type": "long"},
        {"name": "gtid", **_optional("string")},
        {"name": "file", "type": "string"},
        {"name": "pos", "type": "long"},
        {"name": "row", "type": "int"},
        *({"name": name, **_optional(kind)} for name, kind in (("thread", "long"), ("query", "string"))),
    ],
    "connect.name": "io.debezium.connector.mysql.Source",
}
_TRANSACTION_AVRO: Final = {
    "type": "record",
    "name": "block",
    "namespace": "event",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "total_order", "type": "long"},
        {"name": "data_collection_order", "type": "long"},
    ],
    "connect.version": 1,
    "connect.name": "event.block",
}
ENVELOPE_AVRO: Final = json.dumps(
    {
        "type": "record",
        "name": "Envelope",
        "namespace": _NAMESPACE,
        "fields": [
            {
                "name": "before",
                **_optional(
                    {"type": "record", "name": "Value", "fields": _COLUMNS, "connect.name": f"{_NAMESPACE}.Value"}
                ),
            },
            {"name": "after", **_optional("Value")},
            {"name": "source", "type": _SOURCE_AVRO},
            {"name": "transaction", **_optional(_TRANSACTION_AVRO)},
            {"name": "op", "type": "string"},
            *({"name": name, **_optional("long")} for name in ("ts_ms", "ts_us", "ts_ns")),
        ],
        "connect.version": 2,
        "connect.name": f"{_NAMESPACE}.Envelope",
    }
)
"""As Connect's AvroConverter derives it from an event of Debezium's connector for MySQL."""


def _field(name: str, kind: str, named: str = "", *, optional: bool = False) -> dict[str, Any]:
    more = {"name": named, "version": 1} if named else {}
    return {"field": name, "type": kind, "optional": optional, **more}


def _struct(fields: list[dict[str, Any]], name: str = "", **more: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": fields, "optional": False, **({"name": name} if name else {}), **more}


_COLUMNS_CONNECT: Final = [
    _field("id", "int64"),
    _field("user", "string", optional=True),
    _field("amount", "double", optional=True),
    _field("ts", "int64", _MICROS, optional=True),
]
KEY_CONNECT: Final = json.dumps(_struct(_COLUMNS_CONNECT[:1], f"{_NAMESPACE}.Key"))
_VALUE_CONNECT: Final = _struct(_COLUMNS_CONNECT, f"{_NAMESPACE}.Value") | {"optional": True}
ENVELOPE_CONNECT: Final = json.dumps(
    _struct(
        [
            {"field": "before", **_VALUE_CONNECT},
            {"field": "after", **_VALUE_CONNECT},
            {
                "field": "source",
                **_struct(
                    [
                        *(_field(name, "string") for name in ("version", "connector", "name")),
                        _field("ts_ms", "int64"),
                        _field("snapshot", "string", optional=True),
                        _field("db", "string"),
                        _field("sequence", "string", optional=True),
                        *(_field(name, "int64", optional=True) for name in ("ts_us", "ts_ns")),
                        _field("table", "string", optional=True),
                        _field("server_id", "int64"),
                        _field("gtid", "string", optional=True),
                        _field("file", "string"),
                        _field("pos", "int64"),
                        _field("row", "int32"),
                        _field("thread", "int64", optional=True),
                        _field("query", "string", optional=True),
                    ],
                    "io.debezium.connector.mysql.Source",
                ),
            },
            {
                "field": "transaction",
                **_struct(
                    [
                        _field("id", "string"),
                        *(_field(name, "int64") for name in ("total_order", "data_collection_order")),
                    ],
                    "event.block",
                    version=1,
                )
                | {"optional": True},
            },
            _field("op", "string"),
            *(_field(name, "int64", optional=True) for name in ("ts_ms", "ts_us", "ts_ns")),
        ],
        f"{_NAMESPACE}.Envelope",
        version=2,
    )
)
"""The schema of the events in JSON, which Connect's JsonConverter is given: the records have none."""

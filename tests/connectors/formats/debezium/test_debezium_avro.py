"""Change events in Avro: each writer's schema states the types of its values."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connectors.formats.debezium.rows import PLACEHOLDER
from eos.errors import IdentityError
from tests.connectors.formats.debezium.registered import (
    Registry,
    avro_format,
    connect_type,
    decimal,
    encoded,
    envelope,
    event,
    optional,
    record,
)
from tests.connectors.formats.debezium.written import decode, reasons
from tests.searches import examples
from twophase.schemas import UNKNOWN

DDL: Final = "id BIGINT NOT NULL, name STRING NOT NULL, age INT"
FORMAT: Final = avro_format(DDL)
SCHEMA: Final = envelope({"id": "int", "name": "string", "age": optional("int"), "unread": optional("double")})
KEY: Final = record("Key", {"id": "int"})
ROW: Final = {"id": 7, "name": "n", "age": 1, "unread": 0.5}
TIME: Final = "io.debezium.time."
CONNECT: Final = "org.apache.kafka.connect.data."
HEARTBEAT: Final = record("Heartbeat", {"ts_ms": "long"})
TRANSACTION: Final = record(
    "TransactionMetadataValue",
    {
        "status": "string",
        "id": "string",
        "event_count": optional("long"),
        "data_collections": optional({"type": "array", "items": "string"}),
        "ts_ms": "long",
    },
)
CHANGE: Final = record("SchemaChangeValue", {"source": "string", "ddl": "string", "tableChanges": "string"})
VARIABLE: Final = {
    "type": "record",
    "name": "VariableScaleDecimal",
    "namespace": "io.debezium.data",
    "connect.name": "io.debezium.data.VariableScaleDecimal",
    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
}
POINT: Final = {
    "type": "record",
    "name": "Point",
    "namespace": "io.debezium.data.geometry",
    "connect.name": "io.debezium.data.geometry.Point",
    "fields": [
        {"name": "x", "type": "double"},
        {"name": "wkb", "type": ["null", "bytes"], "default": None},
        {"name": "srid", "type": ["null", "int"], "default": None},
    ],
}


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    found = Registry().install(monkeypatch)
    found.add(1, SCHEMA)
    found.add(2, KEY)
    return found


def encode(*events: Any) -> list[bytes | None]:
    return [None if each is None else encoded(1, SCHEMA, each) for each in events]


@pytest.mark.usefixtures("registry")
def test_each_op_is_a_row() -> None:
    deletion = event("d", {**ROW, "age": None})
    decoded = decode(FORMAT, encode(event("c", None, ROW), event("u", ROW, {**ROW, "name": "m"}), deletion, None))
    assert [list(each.values())[:6] for each in decoded.rows.to_pylist()] == [
        [7, "n", 1, "c", False, "00000000000000000002:00000000000000000007:00000000000000000001"],
        [7, "m", 1, "u", False, "00000000000000000002:00000000000000000007:00000000000000000001"],
        [7, "n", None, "d", True, "00000000000000000002:00000000000000000007:00000000000000000001"],
    ]
    assert decoded.rows.column("_source_ts")[0].as_py() == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert (decoded.bad, decoded.omitted) == ((), (3,))


def test_a_deletion_without_before_has_the_columns_of_its_key(registry: Registry) -> None:
    registry.add(3, record("Key", {"other": "string"}))
    registry.add(4, "string")
    keys = [
        encoded(2, KEY, {"id": 7}),
        None,
        encoded(3, record("Key", {"other": "string"}), {"other": "x"}),
        encoded(4, "string", "7"),
        b"{}",
        encoded(2, KEY, {"id": 7}) + b"\0",
    ]
    decoded = decode(FORMAT, encode(*[event("d")] * 6), keys)
    assert [list(each.values())[:5] for each in decoded.rows.to_pylist()] == [[7, None, None, "d", True]]
    assert reasons(decoded) == [
        "a deletion without `before`, and the record has no key",
        "the record's key: written with schema 3: it has no column of the schema",
        "the record's key: written with schema 4: not a record",
        "the record's key: not in Confluent's wire format: another first byte, or too short",
        "the record's key: 1 bytes follow the last field",
    ]
    assert sorted(decoded.schemas) == ["schema 1", "schema 2", "schema 3", "schema 4"]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (HEARTBEAT, {"ts_ms": 1}),
        (TRANSACTION, {"status": "BEGIN", "id": "1", "ts_ms": 1}),
        (CHANGE, {"source": "s", "ddl": "d", "tableChanges": "t"}),
    ],
)
def test_records_that_describe_no_row_are_omitted(registry: Registry, schema: Any, value: Any) -> None:
    registry.add(9, schema)
    decoded = decode(FORMAT, [*encode(event("c", None, ROW)), encoded(9, schema, value)])
    assert (decoded.bad, decoded.omitted, sorted(decoded.schemas)) == ((), (1,), ["schema 1", "schema 9"])


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (record("Row", {"id": "long", "ts_ms": "long"}), "no `op`: not a change event of Debezium"),
        (record("Row", {"op": "string"}), "no `op`: not a change event of Debezium"),
        ("long", "not a record"),
        (envelope({"other": "long"}), "its rows have no column of the schema"),
        (envelope({"id": "string"}), "id: written as STRING, and the schema has BIGINT"),
        (envelope({"id": ["int", "string"]}), "id: written as STRUCT"),
        (envelope({"name": "bytes", "id": "long"}), "name: written as BINARY, and the schema has STRING"),
    ],
)
def test_a_schema_that_cannot_be_read_makes_its_records_bad(registry: Registry, schema: Any, reason: str) -> None:
    registry.add(9, schema)
    decoded = decode(FORMAT, [b"\0\0\0\0\x09\0", *encode(event("c", None, ROW))])
    assert [each.index for each in decoded.bad] == [0]
    assert decoded.bad[0].reason.startswith(f"written with schema 9: {reason}"), decoded.bad[0].reason


@pytest.mark.usefixtures("registry")
def test_records_that_are_no_events_are_bad() -> None:
    good = encode(event("c", None, ROW))[0]
    assert good is not None
    values = [
        good[:-1],
        good + b"\0",
        b"\1" + good[1:],
        b"",
        b"\0\0\0\0\x63" + good[5:],
        *encode(event("x", None, ROW), event("c"), event("t"), event("u", None, {**ROW, "name": PLACEHOLDER})),
        good,
    ]
    decoded = decode(FORMAT, values)
    assert decoded.rows.num_rows == 1
    found = reasons(decoded)
    assert found[0].startswith("ts_ms: ") or "the record ends" in found[0]
    assert found[1:5] == [
        "1 bytes follow the last field",
        "not in Confluent's wire format: another first byte, or too short",
        "not in Confluent's wire format: another first byte, or too short",
        "written with schema 99: the schema registry does not have it",
    ]
    assert [each.partition(",")[0] for each in found[5:]] == [
        "unknown op 'x'",
        "an event 'c' without `after`",
        "the table was truncated",
        "name: the event lacks its value",
    ]
    assert decoded.schemas["schema 99"] == UNKNOWN


SECOND_DAY: Final = datetime(1970, 1, 2, tzinfo=UTC)
UNNAMED: Final = {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 1}
CASES: Final[list[tuple[str, Any, Any, Any]]] = [
    ("DATE", connect_type("int", TIME + "Date"), 19_782, date(2024, 2, 29)),
    ("DATE", {**connect_type("int", CONNECT + "Date"), "logicalType": "date"}, date(2024, 2, 29), date(2024, 2, 29)),
    ("TIMESTAMP_NTZ", connect_type("long", TIME + "Timestamp"), 1, datetime(1970, 1, 1, 0, 0, 0, 1_000)),
    (
        "TIMESTAMP_NTZ",
        {**connect_type("long", CONNECT + "Timestamp"), "logicalType": "timestamp-millis"},
        1,
        datetime(1970, 1, 1, 0, 0, 0, 1_000),
    ),
    ("TIMESTAMP_NTZ", connect_type("long", TIME + "MicroTimestamp"), 1, datetime(1970, 1, 1, 0, 0, 0, 1)),
    ("TIMESTAMP", {"type": "long", "logicalType": "timestamp-micros"}, 1, datetime(1970, 1, 1, 0, 0, 0, 1, UTC)),
    ("TIMESTAMP", connect_type("string", TIME + "ZonedTimestamp"), "1970-01-02T00:00:00Z", SECOND_DAY),
    ("STRING", connect_type("int", TIME + "Time"), 1, "00:00:00.001000"),
    ("STRING", connect_type("long", TIME + "MicroTime"), -1_000_000, "-00:00:01.000000"),
    ("BIGINT", connect_type("long", TIME + "MicroTimestamp"), 7, 7),
    ("DECIMAL(10,2)", decimal(2), Decimal("-1.25"), Decimal("-1.25")),
    ("DECIMAL(12,4)", decimal(2), Decimal("-1.25"), Decimal("-1.2500")),
    ("DECIMAL(38,0)", decimal(0, 65), Decimal(10**37), Decimal(10**37)),
    ("DECIMAL(10,2)", VARIABLE, {"scale": 1, "value": b"\x7d"}, Decimal("12.50")),
    ("DECIMAL(10,2)", UNNAMED, Decimal("1.5"), Decimal("1.50")),
    ("DECIMAL(10,2)", "string", "-1.25", Decimal("-1.25")),
    ("DECIMAL(10,2)", "double", -1.25, Decimal("-1.25")),
    ("STRING", connect_type("string", "io.debezium.data.Json"), '{"a": 1}', '{"a": 1}'),
    ("STRING", {"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
    ("BINARY", "bytes", b"abc", b"abc"),
    ("SMALLINT", {"type": "int", "connect.type": "int16"}, -300, -300),
    ("BIGINT", "int", 5, 5),
    ("INT", "long", 5, 5),
    ("DOUBLE", "float", 1.5, 1.5),
    ("FLOAT", "float", 1.5, 1.5),
    ("BOOLEAN", "boolean", True, True),
    ("ARRAY<STRING>", {"type": "array", "items": "string"}, ["a"], ["a"]),
    ("STRUCT<wkb: BINARY, srid: INT>", POINT, {"x": 1.0, "wkb": b"\1", "srid": None}, {"wkb": b"\1", "srid": None}),
    ("INT", "null", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("ddl", "kind", "value", "expected"), CASES)
@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_types(registry: Registry, ddl: str, kind: Any, value: Any, expected: Any, is_elsewhere: bool) -> None:
    """Also where a type is defined in a column that is not read."""
    name = kind["name"] if isinstance(kind, dict) and "name" in kind else None
    reference = f"{kind.get('namespace', 'shop.customers')}.{name}" if name else kind
    fields = {"zz": kind, "v": reference} if is_elsewhere else {"v": kind}
    if kind != "null":
        fields = {each: optional(of) for each, of in fields.items()}
    schema = envelope(fields)
    registry.add(5, schema)
    values = [encoded(5, schema, event("c", None, dict.fromkeys(fields, each))) for each in (value, None)]
    decoded = decode(avro_format(f"v {ddl}, lacking STRING"), values)
    assert decoded.bad == ()
    assert [list(each.values())[:2] for each in decoded.rows.to_pylist()] == [[expected, None], [None, None]]


@pytest.mark.parametrize(
    ("ddl", "kind", "value", "reason"),
    [
        ("SMALLINT", "int", 70_000, "v: does not fit SMALLINT"),
        ("DECIMAL(4,2)", decimal(2), Decimal("100.00"), "v: not a number of DECIMAL(4,2)"),
        ("DECIMAL(4,2)", decimal(3), Decimal("0.125"), "v: not a number of DECIMAL(4,2)"),
        ("DECIMAL(4,2)", "string", "much", "v: does not fit DECIMAL(4,2)"),
        ("DECIMAL(4,2)", "double", 1.005, "v: does not fit DECIMAL(4,2)"),
        ("TIMESTAMP", connect_type("string", TIME + "ZonedTimestamp"), "infinity", "v: does not fit TIMESTAMP"),
        ("TIMESTAMP_NTZ", "long", 1, "v: a number, and neither the record nor `types` states its unit"),
        ("DATE", connect_type("int", TIME + "Date"), 2**31 - 1, "v: not a day of the years 1 to 9999"),
    ],
)
def test_a_value_that_does_not_fit_is_bad(registry: Registry, ddl: str, kind: Any, value: Any, reason: str) -> None:
    schema = envelope({"v": optional(kind)})
    registry.add(5, schema)
    values = [encoded(5, schema, event("c", None, {"v": each})) for each in (None, value)]
    decoded = decode(avro_format(f"v {ddl}"), values)
    assert [each.index for each in decoded.bad] == [1]
    assert decoded.bad[0].reason.startswith(reason), decoded.bad[0].reason


def test_types_of_the_spec_count_before_the_schema(registry: Registry) -> None:
    schema = envelope({"at": "long"})
    registry.add(5, schema)
    decoder = avro_format("at TIMESTAMP_NTZ", {"at": "Timestamp"})
    decoded = decode(decoder, [encoded(5, schema, event("c", None, {"at": 1}))])
    assert decoded.rows.column("at")[0].as_py() == datetime(1970, 1, 1, 0, 0, 0, 1_000)


def test_schemas_of_several_versions_and_with_references(registry: Registry) -> None:
    older = envelope({"name": "string", "id": "long"})
    value = {
        "type": "record",
        "name": "shop.customers.Value",
        "fields": [{"name": "id", "type": "int"}, {"name": "name", "type": "string"}],
    }
    newer = envelope({})
    newer["fields"][0]["type"] = newer["fields"][1]["type"] = ["null", "shop.customers.Value"]
    registry.add(5, older)
    registry.add(6, newer, value)
    values = [
        encoded(5, older, event("c", None, {"id": 0, "name": "a"})),
        *encode(event("c", None, {**ROW, "id": 1})),
        encoded(5, older, event("d", {"id": 2, "name": "a"})),
        b"\0\0\0\0\x06"
        + encoded(5, envelope({"id": "int", "name": "string"}), event("c", None, {"id": 3, "name": "a"}))[5:],
    ]
    decoded = decode(FORMAT, values)
    assert decoded.bad == ()
    assert decoded.rows.column("id").to_pylist() == [0, 1, 2, 3]


def test_documents(registry: Registry) -> None:
    text = {"type": "string", "connect.name": "io.debezium.data.Json"}
    schema = envelope({})
    schema["fields"][0]["type"] = schema["fields"][1]["type"] = ["null", text]
    key = record("Key", {"id": "string"})
    registry.add(5, schema)
    registry.add(6, key)
    decoder = avro_format("_id INT, name STRING", documents=True)
    values = [
        encoded(5, schema, event("c", None, '{"_id": 1, "name": "a"}')),
        encoded(5, schema, event("d")),
        *encode(event("c", None, ROW)),
    ]
    decoded = decode(decoder, values, [encoded(6, key, {"id": "1"})] * 3)
    assert [list(each.values())[:4] for each in decoded.rows.to_pylist()] == [
        [1, "a", "c", False],
        [1, None, "d", True],
    ]
    assert reasons(decoded) == ["written with schema 1: its images are records, and the spec has another `documents`"]
    assert "its images are texts" in reasons(decode(FORMAT, values[:1]))[0]


def test_h35_schemas_of_values_and_keys_are_pinned(registry: Registry) -> None:
    values, keys = encode(event("d")), [encoded(2, KEY, {"id": 7})]
    known = decode(FORMAT, values, keys).schemas
    assert known == {"schema 1": registry.schemas[1].fingerprint, "schema 2": registry.schemas[2].fingerprint}
    assert FORMAT.names_schemas
    pinned = pickle.loads(pickle.dumps(FORMAT.with_schemas(known)))
    assert decode(pinned, values, keys).rows.num_rows == 1
    registry.add(2, record("Key", {"id": "long"}))
    with pytest.raises(IdentityError, match="schema 2 is now another schema"):
        decode(pinned, values, keys)
    registry.add(2, KEY)
    registry.add(1, HEARTBEAT)
    with pytest.raises(IdentityError, match="schema 1 is now another schema"):
        decode(pinned, values, keys)


trees: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(["null", "int", "string", "Value", "odd", 7, None, {"type": "long"}, {"type": "record"}, [], {}]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.fixed_dictionaries({"type": st.just("map"), "values": inner}),
        st.fixed_dictionaries(
            {
                "type": st.just("record"),
                "name": st.sampled_from(["Value", "R", "x.y.Z"]),
                "fields": st.lists(
                    st.fixed_dictionaries({"name": st.sampled_from(["id", "name", "op", "after"]), "type": inner}),
                    max_size=3,
                ),
            }
        ),
    ),
    max_leaves=6,
)


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=trees, of_image=st.booleans(), content=st.binary(max_size=20))
def test_any_schema_and_any_bytes_raise_nothing(registry: Registry, tree: Any, of_image: bool, content: bytes) -> None:
    schema = tree
    if of_image:
        schema = envelope({})
        schema["fields"][0]["type"] = tree
    registry.add(8, schema)
    value = b"\0\0\0\0\x08" + content
    decode(FORMAT, [value, *encode(event("d"))], [value, value])


def test_a_type_that_contains_itself(registry: Registry) -> None:
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    whole = envelope({"id": "int", "name": "string", "v": node})
    registry.add(5, envelope({"v": node}))
    registry.add(6, whole)
    assert "contains itself" in reasons(decode(avro_format("v INT"), [b"\0\0\0\0\5\0"]))[0]
    value = encoded(6, whole, event("c", None, {"id": 1, "name": "n", "v": {"next": None}}))
    assert decode(FORMAT, [value]).rows.column("id").to_pylist() == [1]

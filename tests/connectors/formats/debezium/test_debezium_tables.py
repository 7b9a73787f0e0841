"""Change events that bring the schemas of their tables: the rows of each are those of a format with the schema."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connectors.api.decoding import DecodedTables, SelfDescribingFormat
from connectors.formats.avro.writers import RegisteredWriters
from connectors.formats.change_rows import EVENT
from connectors.formats.debezium.avro_tables import AvroTables
from connectors.formats.debezium.debezium_format import DebeziumFormat
from connectors.formats.debezium.json_tables import JsonTables
from connectors.formats.debezium.self_describing import SelfDescribingDebezium
from connectors.formats.debezium.written import Written
from connectors.schema_registry.client import Connection
from eos.errors import IdentityError
from tests.connectors.formats.debezium.registered import (
    Registry,
    avro_format,
    connect_type,
    decimal,
    encoded,
    envelope,
    optional,
    record,
)
from tests.connectors.formats.debezium.registered import event as avro_event
from tests.connectors.formats.debezium.written import connect_field, event, json_format, packed, wrapped, wrapped_key
from tests.connectors.formats.tables import bad, decode_tables, table
from tests.searches import examples

JSON: Final = SelfDescribingDebezium(JsonTables())
AVRO: Final = SelfDescribingDebezium(AvroTables(RegisteredWriters(Connection("http://127.0.0.1:1"))))
TIME: Final = "io.debezium.time."
CONNECT: Final = "org.apache.kafka.connect.data."
DATA: Final = "io.debezium.data."
ID: Final = connect_field("id", "int64")
NAME: Final = connect_field("name", "string")
KEY: Final = wrapped_key([ID], b'{"id":7}')
EVENT_NAMES: Final = EVENT.names
_OF_TEXTS: Final = b'{"schema":{"fields":[{"field":"op"},{"field":"after","type":"string"}]},"payload":{}}'
"""An event of the connector for MongoDB."""


def named(table_name: str, value: bytes) -> bytes:
    """The record with the schema of another table."""
    return value.replace(b"shop.customers.", f"{table_name}.".encode())


def rows(decoded: DecodedTables, name: str) -> list[dict[str, Any]]:
    """The columns of a table, without EVENT."""
    return [
        {key: each[key] for key in each if key not in EVENT_NAMES} for each in table(decoded, name).rows.to_pylist()
    ]


def test_each_schema_is_a_table() -> None:
    orders = [connect_field("no", "int32"), connect_field("price", "bytes", CONNECT + "Decimal", 2)]
    values = [
        wrapped([ID, NAME], event("c", None, {"id": 1, "name": "a"})),
        named("shop.orders", wrapped(orders, event("r", None, {"no": 5, "price": "ew=="}))),
        None,
        wrapped([ID, NAME], event("u", None, {"id": 1, "name": "b"})),
        wrapped([ID], event("c", None, {"id": 2})),
        wrapped([ID, NAME], event("d", {"id": 1, "name": "b"})),
    ]
    keys = [KEY, named("shop.orders", wrapped_key([connect_field("no", "int32")], b'{"no":5}')), KEY, KEY, KEY, None]
    decoded = decode_tables(JSON, values, keys)
    assert isinstance(JSON, SelfDescribingFormat)
    assert [(each.name, each.key, each.places.tolist(), each.rows.num_columns) for each in decoded.tables] == [
        ("shop.customers", ("id",), [0, 3], 6),
        ("shop.orders", ("no",), [1], 6),
        ("shop.customers", ("id",), [4], 5),
        ("shop.customers", (), [5], 6),
    ]
    assert rows(decoded, "shop.orders") == [{"no": 5, "price": Decimal("1.23")}]
    assert decoded.tables[0].rows.schema == json_format("id BIGINT, name STRING").schema
    assert decoded.tables[0].rows.column("name").to_pylist() == ["a", "b"]
    assert decoded.tables[3].rows.column("_deleted").to_pylist() == [True]
    assert (decoded.bad, decoded.omitted, decoded.schemas) == ((), (2,), {})


def test_schemas_that_differ_in_other_parts_are_one_table() -> None:
    values = [wrapped([ID], event("c", None, {"id": number}), version=number % 3) for number in (5, 3, 4, 1, 2, 0)]
    keys = [wrapped_key([ID], b'{"id":1}'), KEY.replace(b"shop.customers", b"another")] * 3
    (found,) = decode_tables(JSON, values, keys).tables
    assert found.rows.column("id").to_pylist() == [5, 3, 4, 1, 2, 0]
    assert found.places.tolist() == list(range(6))


def test_a_deletion_without_before_has_the_columns_of_its_key() -> None:
    values = [wrapped([ID, NAME], event("d"))] * 3
    decoded = decode_tables(JSON, values, [KEY, None, b'{"id":9}'])
    assert [list(each.values())[:4] for each in decoded.tables[0].rows.to_pylist()] == [[7, None, "d", True]]
    # A key without a schema does not state its columns. Where it has them, it is read as with a schema in the spec.
    assert [list(each.values())[:4] for each in decoded.tables[1].rows.to_pylist()] == [[9, None, "d", True]]
    assert [each.key for each in decoded.tables] == [("id",), ()]
    assert bad(decoded) == [(1, "a deletion without `before`, and the record has no key")]


def test_debeziums_own_records_are_omitted_with_and_without_a_schema() -> None:
    heartbeat = b'{"ts_ms":1700000000000}'
    transaction = packed({"status": "BEGIN", "id": "1", "event_count": None, "data_collections": None, "ts_ms": 1})
    change = packed({"source": {}, "ddl": "x", "tableChanges": []})
    own = [heartbeat, transaction, change]
    schema = packed({"type": "struct", "fields": [connect_field("ts_ms", "int64")], "name": "Heartbeat"})
    values = [*own, *(b'{"schema":' + schema + b',"payload":' + each + b"}" for each in own), wrapped([ID], b"null")]
    assert decode_tables(JSON, values).omitted == tuple(range(7))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (event("c", None, {"id": 1}), "the event has no schema; let Debezium write it (value.converter.schemas.en"),
        (b'{"schema":null,"payload":' + event("c", None, {"id": 1}) + b"}", "the event has no schema"),
        (event("t"), "the table was truncated"),
        (b"", "not valid JSON"),
        (b"7", "not valid JSON"),
        (b'{"id":1}', "no `op`: not a change event of Debezium"),
        (b'{"payload":{"op":"c"}}', "it begins with `schema` or `payload`"),
        (b'{"schema":7,"payload":{"op":"c"}}', "its `schema` is not one of Connect's"),
        (b'{"schema":{"fields":[]},"payload":' + event("c", None, {}) + b"}", "its schema has no `after`"),
        (wrapped([ID], event("c", None, {"id": 1}))[:-1], "not valid JSON: not a JSON object, at its end"),
        (wrapped([ID], event("c", None, {"id": "x"})), "field after/id: expected number"),
        (wrapped([], event("c", None, {})), "its schema: its rows have no column"),
        (wrapped([connect_field("_Topic", "int32")], event("c")), "its schema: column _Topic has the name of a column"),
        (wrapped([connect_field("_deleted", "int32")], event("c")), "its schema: column _deleted has the name of"),
        (wrapped([ID, connect_field("ID", "int32")], event("c")), "its schema: two columns are named ID"),
        (wrapped([ID, ID], event("c")), "its schema: two columns are named id"),
        (wrapped([connect_field("m", "map")], event("c")), "its schema: column m has a type that no column can have"),
        (
            wrapped([connect_field("big", "bytes", CONNECT + "Decimal", 40)], event("c")),
            "its schema: column big has a type that no column can have; set `schema` with the other columns",
        ),
        (wrapped([ID], event("c")).replace(b'"id"', b'"\\ud800"'), "its schema: a column's name is not Unicode"),
        (_OF_TEXTS, "its schema: its rows are texts, as the connector for MongoDB writes them"),
    ],
)  # fmt: skip
def test_a_record_without_a_table_is_bad_and_no_other(value: bytes, reason: str) -> None:
    good = wrapped([NAME], event("c", None, {"name": "a"}))
    decoded = decode_tables(JSON, [good, value, good])
    assert [at for at, _ in bad(decoded)] == [1]
    assert bad(decoded)[0][1].startswith(reason), bad(decoded)
    assert table(decoded, "shop.customers").places.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (wrapped_key([connect_field("other", "int32")], b"{}"), "the record's key: its field 'other' is not a column"),
        (wrapped_key([ID, ID], b'{"id":1}'), "the record's key: two of its fields have one name"),
        (wrapped_key([ID], b"{}").replace(b'"id"', b'"\\udfff"'), "the record's key: a field's name is not Unicode"),
        (b'{"schema":[],"payload":1}', "the record's key: its `schema` is not one of Connect's"),
    ],
)
def test_a_key_that_rows_do_not_have_makes_its_records_bad(key: bytes, reason: str) -> None:
    value = wrapped([ID], event("c", None, {"id": 7}))
    decoded = decode_tables(JSON, [value, value], [key, KEY])
    assert [at for at, _ in bad(decoded)] == [0]
    assert bad(decoded)[0][1].startswith(reason), bad(decoded)
    assert rows(decoded, "shop.customers") == [{"id": 7}]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("my-server.shop.order lines.Envelope", "my-server.shop.order lines"),
        ("s.t.Value", "s.t"),
        ("s.t", "s.t"),
        ("Envelope", ""),
        ("", ""),
        (None, ""),
        (7, ""),
        ("\ud800.Envelope", ""),
        ("Größe.Envelope", "Größe"),
    ],
)
def test_the_name_of_the_table(name: Any, expected: str) -> None:
    fields = [{"type": "struct", "fields": [ID], "field": "after"}, connect_field("op", "string")]
    schema = json.dumps({"type": "struct", "fields": fields, "name": name}).encode()
    value = b'{"schema":' + schema + b',"payload":' + event("c", None, {"id": 1}) + b"}"
    assert [each.name for each in decode_tables(JSON, [value]).tables] == [expected]


def test_types_of_the_spec_count_before_the_schema() -> None:
    declared = {"at": "MicroTimestamp", "price": "double", "day": "IsoDate", "missing": "Time"}
    decoder = SelfDescribingDebezium(JsonTables({name: Written(kind) for name, kind in declared.items()}))
    fields = [
        connect_field("at", "int64"),
        connect_field("price", "bytes", CONNECT + "Decimal", 2),
        connect_field("day", "string"),
    ]
    row = {"at": 1, "price": 1.25, "day": "2024-02-29"}
    value = wrapped(fields, event("c", None, row))
    plain = named("shop.plain", wrapped([ID], event("c", None, {"id": 1})))
    decoded = decode_tables(decoder, [value, plain])
    assert decoded.bad == ()
    assert list(rows(decoded, "shop.customers")[0].values()) == [
        datetime(1970, 1, 1, 0, 0, 0, 1), Decimal("1.25"), datetime(2024, 2, 29).date()
    ]  # fmt: skip
    wrong = SelfDescribingDebezium(JsonTables({"id": Written("Decimal")}))
    ((_, reason),) = bad(decode_tables(wrong, [plain]))
    assert reason == "its schema: types: column id is not read from 'Decimal': it is BIGINT by its schema"


def test_not_null_holds_as_the_schema_states_it() -> None:
    required = {**ID, "optional": False}
    values = [wrapped([required, NAME], event(op, {}, {"name": "a"})) for op in ("c", "d")]
    decoded = decode_tables(JSON, values)
    assert bad(decoded) == [(0, "id is NOT NULL, and null or absent")]
    assert rows(decoded, "shop.customers") == [{"id": None, "name": None}]


Columns = Sequence[tuple[Mapping[str, Any], str, st.SearchStrategy[Any]]]
"""A field of Connect's, the type of its column, and values."""
LONGS: Final = st.integers(-(2**63), 2**63 - 1)
COLUMNS: Final[Columns] = [
    (connect_field("tiny", "int8"), "TINYINT", st.integers(-200, 200)),
    (connect_field("small", "int16"), "SMALLINT", st.integers(-(2**15), 2**15 - 1)),
    (connect_field("year", "int32", TIME + "Year"), "INT", st.integers(-(2**31), 2**31 - 1)),
    (connect_field("id", "int64"), "BIGINT", LONGS),
    (connect_field("half", "float"), "FLOAT", st.floats(width=32, allow_nan=False, allow_infinity=False)),
    (connect_field("whole", "double"), "DOUBLE", st.floats(allow_nan=False, allow_infinity=False)),
    (connect_field("yes", "boolean"), "BOOLEAN", st.booleans()),
    (connect_field("text", "string"), "STRING", st.text(max_size=5)),
    (connect_field("enum", "string", DATA + "Enum"), "STRING", st.text(max_size=5)),
    (connect_field("interval", "string", TIME + "Interval"), "STRING", st.text(max_size=5)),
    (connect_field("bits", "bytes", DATA + "Bits"), "BINARY", st.sampled_from(["", "AQ==", "x"])),
    (connect_field("price", "bytes", CONNECT + "Decimal", 2), "DECIMAL(10,2)", st.sampled_from(["AQ==", "f///////"])),
    (connect_field("day", "int32", TIME + "Date"), "DATE", st.integers(-(10**6), 10**7)),
    (connect_field("ms", "int64", TIME + "Timestamp"), "TIMESTAMP_NTZ", LONGS),
    (connect_field("us", "int64", TIME + "MicroTimestamp"), "TIMESTAMP_NTZ", LONGS),
    (connect_field("ns", "int64", TIME + "NanoTimestamp"), "TIMESTAMP_NTZ", st.integers(0, 9).map(lambda n: n * 500)),
    (connect_field("zone", "string", TIME + "ZonedTimestamp"), "TIMESTAMP", st.sampled_from(["2024-02-29T12:00Z", ""])),
    (connect_field("clock", "int64", TIME + "MicroTime"), "STRING", st.integers(-(10**13), 10**13)),
    ({"type": "array", "items": {"type": "int32"}, "field": "list"}, "ARRAY<INT>", st.lists(st.integers(0, 9))),
    (
        {"type": "struct", "fields": [connect_field("x", "double")], "name": DATA + "geometry.Point", "field": "point"},
        "STRUCT<x: DOUBLE>",
        st.fixed_dictionaries({"x": st.floats(0, 1)}),
    ),
]  # fmt: skip


@st.composite
def _events(draw: st.DrawFn) -> tuple[list[tuple[str, list[int]]], list[tuple[int, bytes | None, bytes | None]]]:
    """The names and columns of tables, and records: the number of the table, key and value."""
    tables = [
        (f"shop.t{number}", sorted(draw(st.sets(st.integers(0, len(COLUMNS) - 1), min_size=1, max_size=5))))
        for number in range(draw(st.integers(1, 3)))
    ]
    records: list[tuple[int, bytes | None, bytes | None]] = []
    for _ in range(draw(st.integers(1, 12))):
        number = draw(st.integers(0, len(tables) - 1))
        name, chosen = tables[number]
        fields = [COLUMNS[at][0] for at in chosen]
        image = st.fixed_dictionaries(
            {}, optional={str(COLUMNS[at][0]["field"]): st.none() | COLUMNS[at][2] for at in chosen}
        )
        payload = event(draw(st.sampled_from("cudrtx")), draw(st.none() | image), draw(st.none() | image))
        key = named(name, wrapped_key(fields[:1], packed(draw(image))))
        value = named(name, wrapped(fields, draw(st.sampled_from([payload, payload, payload, b"null", b"{}", b"["]))))
        records.append((number, key, draw(st.sampled_from([value, value, value, None]))))
    return tables, records


@settings(max_examples=examples(200), deadline=None)
@given(found=_events())
def test_rows_are_those_of_the_format_with_the_schema(
    found: tuple[list[tuple[str, list[int]]], list[tuple[int, bytes | None, bytes | None]]],
) -> None:
    tables, records = found
    decoded = decode_tables(JSON, [value for *_, value in records], [key for _, key, _ in records])
    _assert_equal(decoded, records, [json_format(_ddl(chosen)) for _, chosen in tables])
    for number, (name, chosen) in enumerate(tables):
        for each in decoded.tables:
            if each.name == name:
                assert each.key == (COLUMNS[chosen[0]][0]["field"],)
                assert {records[place][0] for place in each.places} == {number}


def _ddl(chosen: Sequence[int]) -> str:
    return ", ".join(f"{COLUMNS[at][0]['field']} {COLUMNS[at][1]}" for at in chosen)


def _assert_equal(
    decoded: DecodedTables, records: Sequence[tuple[int, bytes | None, bytes | None]], formats: Sequence[DebeziumFormat]
) -> None:
    """The same rows, bad records with the same reasons, and omitted records."""
    rows_of: dict[int, Any] = {}
    reasons: dict[int, str] = {}
    omitted: list[int] = []
    for number, decoder in enumerate(formats):
        places = [at for at, each in enumerate(records) if each[0] == number]
        keys, values = (pa.array([records[at][part] for at in places], pa.binary()) for part in (1, 2))
        one = decoder.decode_records(keys, values)
        reasons |= {places[each.index]: each.reason for each in one.bad}
        omitted += [places[at] for at in one.omitted]
        left = [place for place in places if place not in reasons and place not in omitted]
        rows_of |= dict(zip(left, one.rows.to_pylist(), strict=True))
        assert all(each.rows.schema == decoder.schema for each in decoded.tables if set(each.places) & set(places))
    assert bad(decoded) == sorted(reasons.items())
    assert list(decoded.omitted) == sorted(omitted)
    found: dict[int, Any] = {}
    for each in decoded.tables:
        found |= dict(zip(each.places.tolist(), each.rows.to_pylist(), strict=True))
    assert repr(dict(sorted(found.items()))) == repr(dict(sorted(rows_of.items())))


trees: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(["int32", "struct", "after", "op", 7, None, True, "\ud800", "x.Envelope", {}, []]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["type", "fields", "field", "name", "items", "optional", "parameters"]), inner),
    ),
    max_leaves=12,
)


@settings(max_examples=examples(400), deadline=None)
@given(schema=trees, image=trees, of_image=st.booleans(), payload=trees)
def test_any_schema_and_any_payload_raise_nothing(schema: Any, image: Any, of_image: bool, payload: Any) -> None:
    if of_image:
        schema = {"fields": [{"field": "op", "type": "string"}, {"field": "after", "type": "struct", "fields": image}]}
        payload = {"op": "c", "after": payload}
    value = b'{"schema":%s,"payload":%s}' % (json.dumps(schema).encode(), json.dumps(payload).encode())
    good = wrapped([ID], event("c", None, {"id": 1}))
    decoded = decode_tables(JSON, [good, value], [value, value])
    assert decode_tables(JSON, [good, value]).tables[0].places[0] == 0
    assert JSON.decode(pa.array([good, value])).rows.num_rows == len(JSON.decode(pa.array([good, value])).rows)
    assert decoded.schemas == {}


def test_common_columns_are_in_the_order_of_the_records() -> None:
    values = [named(f"shop.t{at % 3}", wrapped([ID], event("cud"[at % 3], {}, {"id": at}))) for at in range(9)]
    decoded = JSON.decode(pa.array([*values, None, b""], pa.binary()))
    assert decoded.rows.schema == EVENT == JSON.schema
    assert decoded.rows.column("_op").to_pylist() == list("cud" * 3)
    assert ([each.index for each in decoded.bad], decoded.omitted) == ([10], (9,))
    assert JSON.decode(pa.array([], pa.binary())).rows.num_rows == 0


SCHEMA: Final = envelope(
    {
        "id": "int",
        "name": optional("string"),
        "price": optional(decimal(2)),
        "at": connect_type("long", TIME + "MicroTimestamp"),
        "year": connect_type("int", TIME + "Year"),
    }
)
AVRO_KEY: Final = record("Key", {"id": "int"})
ROW: Final = {"id": 7, "name": "n", "price": Decimal("1.25"), "at": 5, "year": 2024}


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    found = Registry().install(monkeypatch)
    found.add(1, SCHEMA)
    found.add(2, AVRO_KEY)
    return found


def _avro(*events: Any) -> list[bytes | None]:
    return [None if each is None else encoded(1, SCHEMA, each) for each in events]


def test_tables_of_avro(registry: Registry) -> None:
    other = {**envelope({"no": "long"}), "namespace": "shop.order_lines", "connect.name": "shop.order-lines.Envelope"}
    newer = envelope({"id": "int", "more": "double"})
    key_of_other = record("Key", {"no": "long"})
    for number, schema in {5: other, 6: newer, 7: {**SCHEMA, "doc": "x"}, 8: key_of_other}.items():
        registry.add(number, schema)
    key = encoded(2, AVRO_KEY, {"id": 7})
    values = [
        *_avro(avro_event("c", None, ROW), None),
        encoded(5, other, avro_event("c", None, {"no": 3})),
        encoded(6, newer, avro_event("u", None, {"id": 8, "more": 0.5})),
        encoded(7, SCHEMA, avro_event("u", None, {**ROW, "name": None})),
        *_avro(avro_event("d")),
    ]
    decoded = decode_tables(AVRO, values, [key, None, encoded(8, key_of_other, {"no": 3}), key, key, key])
    assert [(each.name, each.key, each.places.tolist()) for each in decoded.tables] == [
        ("shop.customers", ("id",), [0, 4, 5]),
        ("shop.order-lines", ("no",), [2]),
        ("shop.customers", ("id",), [3]),
    ]
    first = decoded.tables[0].rows
    ddl = "id INT, name STRING, price DECIMAL(10,2), at TIMESTAMP_NTZ, year INT"
    assert first.schema == avro_format(ddl).schema
    assert first.select(["id", "name", "price", "_op"]).to_pylist() == [
        {"id": 7, "name": "n", "price": Decimal("1.25"), "_op": "c"},
        {"id": 7, "name": None, "price": Decimal("1.25"), "_op": "u"},
        {"id": 7, "name": None, "price": None, "_op": "d"},
    ]
    assert (decoded.bad, decoded.omitted) == ((), (1,))
    assert decoded.schemas == {f"schema {at}": each.fingerprint for at, each in registry.schemas.items()}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (None, "the schema registry does not have it"),
        ({"type": "odd"}, "it cannot be read"),
        ("long", "not a record"),
        (record("Row", {"id": "long"}), "no `op`: not a change event of Debezium"),
        (envelope({}), "the Avro schema is a record without fields"),
        (envelope({"_op": "int"}), "column _op has the name of a column"),
        (envelope({"_offset": "int"}), "column _offset has the name of a column"),
        (envelope({"a": "int", "A": "int"}), "two columns are named A"),
        (envelope({"big": decimal(40, 65)}), "column big has a type that no column can have"),
        (envelope({"v": "null"}), "column v has a type that no column can have"),
    ],
)
def test_a_schema_without_a_table_makes_its_records_bad(registry: Registry, schema: Any, reason: str) -> None:
    if schema is not None:
        registry.add(9, schema)
    decoded = decode_tables(AVRO, [b"\0\0\0\0\x09\0", *_avro(avro_event("c", None, ROW)), b"\1"])
    (first, why), (last, no_header) = bad(decoded)
    assert (first, last) == (0, 2)
    assert why.startswith(f"written with schema 9: {reason}"), why
    assert no_header.startswith("not in Confluent's wire format")
    assert sorted(decoded.schemas) == ["schema 1", "schema 9"]


def test_texts_of_documents_need_a_schema_in_the_spec(registry: Registry) -> None:
    schema = envelope({})
    schema["fields"][0]["type"] = schema["fields"][1]["type"] = ["null", "string"]
    registry.add(9, schema)
    value = encoded(9, schema, avro_event("c", None, "{}"))
    assert "set `schema` and `documents: true`" in bad(decode_tables(AVRO, [value]))[0][1]


def test_keys_of_avro(registry: Registry) -> None:
    registry.add(3, record("Key", {"other": "string"}))
    registry.add(4, "string")
    keys = [None, b"{}", encoded(4, "string", "7"), encoded(3, record("Key", {"other": "string"}), {"other": "x"})]
    keys += [b"\0\0\0\0\x63", encoded(2, AVRO_KEY, {"id": 7})]
    decoded = decode_tables(AVRO, _avro(*[avro_event("c", None, ROW)] * 6), keys)
    assert [(each.key, each.places.tolist()) for each in decoded.tables] == [((), [0, 1, 2]), (("id",), [5])]
    assert bad(decoded) == [
        (3, "the record's key: its field 'other' is not a column of the row"),
        (4, "the record's key: written with schema 99: the schema registry does not have it"),
    ]
    assert sorted(decoded.schemas) == ["schema 1", "schema 2", "schema 3", "schema 4", "schema 99"]


def test_records_that_describe_no_row_are_omitted(registry: Registry) -> None:
    heartbeat = record("Heartbeat", {"ts_ms": "long"})
    registry.add(9, heartbeat)
    decoded = decode_tables(AVRO, [encoded(9, heartbeat, {"ts_ms": 1}), None], [b"\0\0\0\0\x63"] * 2)
    assert (decoded.tables, decoded.bad, decoded.omitted) == ((), (), (0, 1))
    assert sorted(decoded.schemas) == ["schema 9"]


def test_h35_schemas_of_values_and_keys_are_pinned(registry: Registry) -> None:
    values, keys = _avro(avro_event("c", None, ROW)), [encoded(2, AVRO_KEY, {"id": 7})]
    known = decode_tables(AVRO, values, keys).schemas
    assert known == {"schema 1": registry.schemas[1].fingerprint, "schema 2": registry.schemas[2].fingerprint}
    assert AVRO.names_schemas
    assert not JSON.names_schemas
    pinned = pickle.loads(pickle.dumps(AVRO.with_schemas(known)))
    assert decode_tables(pinned, values, keys).tables[0].rows.num_rows == 1
    registry.add(2, record("Key", {"id": "int", "name": "string"}))
    with pytest.raises(IdentityError, match="schema 2 is now another schema"):
        decode_tables(pinned, values, keys)
    registry.add(2, AVRO_KEY)
    registry.add(1, envelope({"id": "int"}))
    with pytest.raises(IdentityError, match="schema 1 is now another schema"):
        decode_tables(pinned, values, keys)


AVRO_COLUMNS: Final[Mapping[str, tuple[Any, str, st.SearchStrategy[Any]]]] = {
    "id": ("int", "INT", st.integers(-(2**31), 2**31 - 1)),
    "long": ("long", "BIGINT", LONGS),
    "text": ("string", "STRING", st.text(max_size=5)),
    "price": (decimal(2), "DECIMAL(10,2)", st.integers(-(10**10) + 1, 10**10 - 1).map(lambda n: Decimal(n).scaleb(-2))),
    "at": (connect_type("long", TIME + "MicroTimestamp"), "TIMESTAMP_NTZ", LONGS),
    "day": (connect_type("int", TIME + "Date"), "DATE", st.integers(-(2**31), 2**31 - 1)),
    "clock": (connect_type("long", TIME + "NanoTime"), "STRING", LONGS),
    "list": ({"type": "array", "items": "string"}, "ARRAY<STRING>", st.lists(st.text(max_size=3), max_size=3)),
}


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_rows_of_avro_are_those_of_the_format_with_the_schema(registry: Registry, data: st.DataObject) -> None:
    formats, records = [], []
    for number in range(data.draw(st.integers(1, 3))):
        names = sorted(data.draw(st.sets(st.sampled_from(sorted(AVRO_COLUMNS)), min_size=1)))
        schema = {**envelope({each: optional(AVRO_COLUMNS[each][0]) for each in names}), "connect.name": f"t{number}"}
        key = record("Key", {names[0]: AVRO_COLUMNS[names[0]][0]})
        registry.add(10 + number, schema)
        registry.add(20 + number, key)
        formats.append(avro_format(", ".join(f"{each} {AVRO_COLUMNS[each][1]}" for each in names)))
        image = st.fixed_dictionaries({each: st.none() | AVRO_COLUMNS[each][2] for each in names})
        for _ in range(data.draw(st.integers(1, 5))):
            made = avro_event(data.draw(st.sampled_from("cudt")), *(data.draw(st.none() | image) for _ in range(2)))
            value = encoded(10 + number, schema, made)
            end = data.draw(st.sampled_from([len(value), len(value), len(value) - 1, 5]))
            own_key = encoded(20 + number, key, {names[0]: data.draw(AVRO_COLUMNS[names[0]][2])})
            records.append((number, own_key, value[:end]))
    records = data.draw(st.permutations(records))
    decoded = decode_tables(AVRO, [value for *_, value in records], [key for _, key, _ in records])
    _assert_equal(decoded, records, formats)
    assert {each.name for each in decoded.tables} <= {f"t{number}" for number in range(3)}

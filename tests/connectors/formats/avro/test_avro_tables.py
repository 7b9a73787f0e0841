"""Avro without a schema in the spec: each record is read with the schema that it names."""

from __future__ import annotations

import json
import pickle
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from connectors.api.format import AnyFormat, FormatEntry
from connectors.formats.avro.avro_format import AvroFormat
from connectors.formats.avro.self_describing import SelfDescribingAvro
from connectors.formats.avro.writers import RegisteredWriters
from connectors.schema_registry.client import Connection, RegisteredSchema
from eos.errors import IdentityError
from tests.connectors.formats.avro.written import Case, cases, encode, record
from tests.connectors.formats.tables import bad, decode_tables
from tests.connectors.schema_registry.known import give_schemas
from tests.searches import examples

WRITERS: Final = RegisteredWriters(Connection("http://127.0.0.1:1"))
FORMAT: Final = SelfDescribingAvro(WRITERS)
ORDER: Final = {**record(("n", "long"), ("note", ["null", "string"])), "name": "Order", "namespace": "shop"}
ITEM: Final = record(("sku", "string"), name="shop.Item")


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> dict[int, RegisteredSchema]:
    found = {7: _registered(ORDER), 8: _registered(ITEM)}
    give_schemas(monkeypatch, found)
    return found


def _registered(schema: Any) -> RegisteredSchema:
    return RegisteredSchema("AVRO", json.dumps(schema))


def _written(schema_id: int, schema: Any, value: Any) -> bytes:
    return b"\0" + schema_id.to_bytes(4) + encode(schema, value)


def test_each_schema_is_a_table(registry: dict[int, RegisteredSchema]) -> None:
    registry[9] = _registered({**ORDER, "doc": "the same columns"})
    values = [
        _written(7, ORDER, {"n": 1, "note": "a"}),
        _written(8, ITEM, {"sku": "x"}),
        None,
        _written(9, ORDER, {"n": 2, "note": None}),
        _written(7, ORDER, {"n": 3, "note": None}) + b"\0",
        _written(7, ORDER, {"n": 4, "note": "b"}),
        b"\1\0\0\0\7\0",
    ]
    decoded = decode_tables(FORMAT, values, [b"\0\0\0\0\x63"] * 7)
    assert [(each.name, each.key, each.places.tolist()) for each in decoded.tables] == [
        ("shop.Order", (), [0, 3, 5]),
        ("shop.Item", (), [1]),
    ]
    assert decoded.tables[0].rows.to_pylist() == [{"n": 1, "note": "a"}, {"n": 2, "note": None}, {"n": 4, "note": "b"}]
    assert bad(decoded) == [
        (2, "a record without a value names no schema, and belongs to no table"),
        (4, "1 bytes follow the last field"),
        (6, "not in Confluent's wire format: another first byte, or too short"),
    ]
    assert decoded.schemas == {f"schema {at}": each.fingerprint for at, each in registry.items()}
    assert FORMAT.decode(pa.array(values, pa.binary())).rows.num_rows == 4


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (None, "the schema registry does not have it"),
        (RegisteredSchema("JSON", "{}"), "it is of the kind JSON, not AVRO"),
        (_registered("string"), "its values are not records; set `schema`"),
        (_registered(record()), "the Avro schema is a record without fields"),
        (_registered(record(("_topic", "int"))), "column _topic has the name of a column that the pipeline adds"),
        (_registered(record(("a", "int"), ("A", "int"))), "two columns are named A"),
        (_registered(record(("again", ["null", "R"]))), "the Avro type R contains itself, and a column cannot"),
    ],
)
def test_a_schema_without_columns_makes_its_records_bad(
    registry: dict[int, RegisteredSchema], schema: RegisteredSchema | None, reason: str
) -> None:
    if schema is not None:
        registry[9] = schema
    decoded = decode_tables(FORMAT, [b"\0\0\0\0\x09\0", _written(8, ITEM, {"sku": "x"})])
    ((place, why),) = bad(decoded)
    assert place == 0
    assert why.startswith(f"written with schema 9: {reason}"), why
    assert sorted(decoded.schemas) == ["schema 8", "schema 9"]


def test_a_schema_with_references(registry: dict[int, RegisteredSchema]) -> None:
    outer = record(("item", "shop.Item"), name="shop.Whole")
    registry[9] = RegisteredSchema("AVRO", json.dumps(outer), (json.dumps(ITEM),))
    (found,) = decode_tables(FORMAT, [b"\0\0\0\0\x09\2x"]).tables
    assert (found.name, found.rows.to_pylist()) == ("shop.Whole", [{"item": {"sku": "x"}}])


def test_h35_schemas_are_pinned(registry: dict[int, RegisteredSchema]) -> None:
    values = [_written(7, ORDER, {"n": 1, "note": None})]
    known = decode_tables(FORMAT, values).schemas
    pinned = pickle.loads(pickle.dumps(FORMAT.with_schemas(known)))
    assert decode_tables(pinned, values).tables[0].rows.num_rows == 1
    assert FORMAT.names_schemas
    registry[7] = _registered(ITEM)
    with pytest.raises(IdentityError, match="schema 7 is now another schema"):
        decode_tables(pinned, values)


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(found=st.lists(cases(), min_size=1, max_size=2), data=st.data())
def test_rows_are_those_of_the_format_with_the_schema(
    registry: dict[int, RegisteredSchema], found: list[Case], data: st.DataObject
) -> None:
    schemas = [record(("v", case.schema), name=f"T{number}") for number, case in enumerate(found)]
    values = []
    for number, (case, schema) in enumerate(zip(found, schemas, strict=True)):
        registry[20 + number] = _registered(schema)
        for _ in range(data.draw(st.integers(1, 3))):
            value = _written(20 + number, schema, {"v": data.draw(case.values)})
            values.append((number, value[: data.draw(st.sampled_from([len(value), len(value), len(value) - 1]))]))
    values = data.draw(st.permutations(values))
    decoded = decode_tables(FORMAT, [value for _, value in values])
    for number, schema in enumerate(schemas):
        places = [at for at, each in enumerate(values) if each[0] == number]
        one = AvroFormat(json.dumps(schema), WRITERS).decode(pa.array([values[at][1] for at in places], pa.binary()))
        assert [each for each in bad(decoded) if each[0] in places] == [(places[e.index], e.reason) for e in one.bad]
        rows = [each.rows for each in decoded.tables if each.name == f"T{number}"]
        assert repr([each.to_pylist() for each in rows]) == repr([one.rows.to_pylist()] if one.rows.num_rows else [])
        assert all(each.schema == one.rows.schema for each in rows)


def _entry(**given: Any) -> FormatEntry:
    adapter: TypeAdapter[FormatEntry] = TypeAdapter(AnyFormat)
    return adapter.validate_python({"type": "avro", **given})


_REGISTRY: Final = {"encoding": "confluent", "registry": {"url": "http://localhost:8081"}}


def test_the_entry_needs_no_schema_where_a_registry_has_it() -> None:
    entry = _entry(**_REGISTRY, truncate_nanoseconds=True)
    assert entry.describes_itself
    assert (entry.schema_text, entry.extras) == ("", frozenset({"avro", "registry"}))
    built = entry.build()
    assert isinstance(built, SelfDescribingAvro)
    assert built.truncate
    assert not _entry(schema=json.dumps(ORDER), **_REGISTRY).describes_itself


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "neither schema nor schema_file"),
        ({"encoding": "single-object"}, "neither schema nor schema_file"),
        ({"encoding": "confluent"}, "confluent without a registry"),
        ({**_REGISTRY, "schema": "{}", "schema_file": "a"}, "both schema and schema_file"),
        ({**_REGISTRY, "writer_schema_files": ["a"]}, "the registry has the writers' schemas"),
    ],
)
def test_other_entries_need_a_schema(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        _entry(**keys)

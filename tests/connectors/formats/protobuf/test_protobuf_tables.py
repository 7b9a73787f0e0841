"""Protobuf without a schema in the spec: each record is read as the message that it names."""

from __future__ import annotations

import pickle
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from connectors.api.format import AnyFormat, FormatEntry
from connectors.formats.protobuf.protobuf_format import ProtobufFormat, Reader
from connectors.formats.protobuf.self_describing import SelfDescribingProtobuf
from connectors.formats.protobuf.writers import RegisteredWriters
from connectors.schema_registry.client import Connection, RegisteredSchema
from eos.errors import IdentityError
from tests.connectors.formats.protobuf.written import compiled
from tests.connectors.formats.tables import bad, decode_tables
from tests.connectors.schema_registry.known import give_schemas
from tests.searches import examples

_WRITERS: Final = RegisteredWriters(Connection("http://127.0.0.1:1"))
_FORMAT: Final = SelfDescribingProtobuf(_WRITERS)
_SHOP: Final = """
syntax = "proto3"; package shop;
message Order { int64 n = 1; optional string note = 2; message Item { string sku = 1; } }
message User { string name = 1; Order last = 2; }
"""
_LATER: Final = (
    'syntax = "proto3"; package shop; message Order { int64 n = 1; optional string note = 2; bool paid = 3; }'
)
_ORDER, _ITEM, _USER = b"\0", b"\4\0\0", b"\2\2"
"""Places of the messages, as they follow the id."""
_MESSAGES: Final = [(7, _ORDER, "shop.Order"), (7, _ITEM, "shop.Order.Item"), (7, _USER, "shop.User")]


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> dict[int, RegisteredSchema]:
    found = {7: _registered(_SHOP), 8: _registered(_LATER)}
    give_schemas(monkeypatch, found)
    return found


def _registered(text: str) -> RegisteredSchema:
    return RegisteredSchema("PROTOBUF", text)


def _written(schema_id: int, place: bytes, body: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4) + place + body


def test_each_message_is_a_table(registry: dict[int, RegisteredSchema]) -> None:
    registry[9] = _registered(_SHOP.replace("shop;", "shop; // the same columns"))
    values = [
        _written(7, _ORDER, b"\x08\1\x12\1a"),
        _written(7, _ITEM, b"\x0a\1x"),
        None,
        _written(9, _ORDER, b"\x08\2"),
        _written(7, _ORDER, b"\x08"),
        _written(8, _ORDER, b"\x08\3\x18\1"),
        _written(7, _USER, b"\x0a\1u\x12\2\x08\5"),
        b"\1\0\0\0\7\0",
    ]
    decoded = decode_tables(_FORMAT, values, [b"\0\0\0\0\x63"] * 8)
    assert [(each.name, each.key, each.places.tolist(), each.rows.to_pylist()) for each in decoded.tables] == [
        ("shop.Order", (), [0, 3], [{"n": 1, "note": "a"}, {"n": 2, "note": None}]),
        ("shop.Order.Item", (), [1], [{"sku": "x"}]),
        ("shop.Order", (), [5], [{"n": 3, "note": None, "paid": True}]),
        ("shop.User", (), [6], [{"name": "u", "last": {"n": 5, "note": None}}]),
    ]
    found = bad(decoded)
    assert [place for place, _ in found] == [2, 4, 7]
    assert found[0][1] == "a record without a value names no schema, and belongs to no table"
    assert found[2][1] == "not in Confluent's wire format: another first byte, or too short"
    assert decoded.schemas == {f"schema {at}": each.fingerprint for at, each in registry.items()}
    assert _FORMAT.decode(pa.array(values, pa.binary())).rows.num_rows == 5


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (None, "the schema registry does not have it"),
        (RegisteredSchema("JSON", "{}"), "it is of the kind JSON, not PROTOBUF"),
        (_registered('syntax = "proto3"; message {'), "it cannot be read"),
        (_registered('syntax = "proto3"; message M {}'), ""),
        (_registered('syntax = "proto3"; message M { int32 _topic = 1; }'), "column _topic has the name of a column"),
        (_registered('syntax = "proto3"; message M { int32 a = 1; int32 A = 2; }'), "two columns are named A"),
        (_registered('syntax = "proto3"; message M { M again = 1; }'), ""),
        (_registered('syntax = "proto3"; enum E { A = 0; }'), "it has no message at [0]"),
    ],
)
def test_a_message_without_columns_makes_its_records_bad(
    registry: dict[int, RegisteredSchema], schema: RegisteredSchema | None, reason: str
) -> None:
    if schema is not None:
        registry[9] = schema
    decoded = decode_tables(_FORMAT, [_written(9, _ORDER, b""), _written(7, _ITEM, b"\x0a\1x")])
    ((place, why),) = bad(decoded)
    assert place == 0
    assert why.startswith(f"written with schema 9: {reason}"), why
    assert len(why) > len("written with schema 9: ") + 10
    assert sorted(decoded.schemas) == ["schema 7", "schema 9"]


def test_a_message_that_contains_itself_may_stay_bytes(registry: dict[int, RegisteredSchema]) -> None:
    registry[9] = _registered('syntax = "proto3"; message M { M again = 1; int32 n = 2; }')
    decoded = decode_tables(
        SelfDescribingProtobuf(_WRITERS, frozenset({"M", "shop.Absent"})),
        [_written(9, _ORDER, b"\x0a\2\x10\3\x10\1"), _written(7, _ITEM, b"\x0a\1x")],
    )
    assert [each.rows.to_pylist() for each in decoded.tables] == [[{"again": b"\x10\3", "n": 1}], [{"sku": "x"}]]


def test_h35_schemas_are_pinned(registry: dict[int, RegisteredSchema]) -> None:
    values = [_written(7, _ORDER, b"\x08\1")]
    known = decode_tables(_FORMAT, values).schemas
    pinned = pickle.loads(pickle.dumps(_FORMAT.with_schemas(known)))
    assert decode_tables(pinned, values).tables[0].rows.num_rows == 1
    assert _FORMAT.names_schemas
    registry[7] = _registered(_LATER)
    with pytest.raises(IdentityError, match="schema 7 is now another schema"):
        decode_tables(pinned, values)


@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(written=st.lists(st.tuples(st.sampled_from(_MESSAGES), st.binary(max_size=12) | st.just(b"\x0a\1x"))))
def test_rows_are_those_of_the_format_with_the_message(
    registry: dict[int, RegisteredSchema], written: list[tuple[tuple[int, bytes, str], bytes]]
) -> None:
    del registry
    values = [_written(schema_id, place, body) for (schema_id, place, _), body in written]
    decoded = decode_tables(_FORMAT, values)
    for message in ("shop.Order", "shop.Order.Item", "shop.User"):
        places = [at for at, ((_, _, name), _) in enumerate(written) if name == message]
        one = ProtobufFormat(Reader(compiled(_SHOP), message), _WRITERS)
        expected = one.decode(pa.array([values[at] for at in places], pa.binary()))
        assert [e for e in bad(decoded) if e[0] in places] == [(places[e.index], e.reason) for e in expected.bad]
        found = [each.rows.to_pylist() for each in decoded.tables if each.name == message]
        assert repr(found) == repr([expected.rows.to_pylist()] if expected.rows.num_rows else [])


def _entry(**given: Any) -> FormatEntry:
    adapter: TypeAdapter[FormatEntry] = TypeAdapter(AnyFormat)
    return adapter.validate_python({"type": "protobuf", **given})


_REGISTRY: Final = {"encoding": "confluent", "registry": {"url": "http://localhost:8081"}}


def test_the_entry_needs_no_schema_where_a_registry_has_it() -> None:
    entry = _entry(**_REGISTRY, truncate_nanoseconds=True, as_bytes=["shop.Order"])
    assert entry.describes_itself
    assert (entry.schema_text, entry.extras) == ("", frozenset({"protobuf", "registry"}))
    built = entry.build()
    assert isinstance(built, SelfDescribingProtobuf)
    assert (built.truncate, built.as_bytes) == (True, frozenset({"shop.Order"}))
    assert not _entry(schema=_SHOP, message="shop.Order", **_REGISTRY).describes_itself


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "no schema"),
        ({"message": "shop.Order"}, "no schema"),
        ({"message": "shop.Order", **_REGISTRY}, "no schema"),
        ({"schema": _SHOP}, "none of its messages is named"),
        ({"schema": _SHOP, **_REGISTRY}, "none of its messages is named"),
        ({"encoding": "confluent"}, "confluent without a registry"),
    ],
)
def test_other_entries_need_a_schema_and_a_message(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        _entry(**keys)

"""JSON behind the id of a JSON Schema: what is reported, what is pinned (H35), and what is bad."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.api.decoding import Format
from connectors.formats.ddl import parse_ddl
from connectors.formats.entry import JsonEntry
from connectors.formats.json_recognition import recognize_json
from connectors.formats.json_values import JsonFormat
from connectors.formats.registered_json import RegisteredJsonFormat
from connectors.schema_registry.client import Connection, RegisteredSchema
from connectors.schema_registry.entry import RegistryEntry
from connectors.testing.formats import FormatCompliance
from eos.errors import IdentityError
from tests.connectors.schema_registry.known import give_schemas
from tests.searches import examples
from twophase.schemas import UNKNOWN

_TEXT = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}})
_SCHEMA = RegisteredSchema("JSON", _TEXT)
_FORMAT = RegisteredJsonFormat(parse_ddl("n BIGINT"), Connection("http://127.0.0.1:1"))
_HEAD = b"\0\0\0\0\7"


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> dict[int, RegisteredSchema]:
    """The schemas of a registry by id. Tests on servers have a real one."""
    found = {7: _SCHEMA, 8: _SCHEMA}
    give_schemas(monkeypatch, found)
    return found


def _values(*values: bytes | None) -> pa.Array:
    return pa.array(values, pa.binary())


@pytest.mark.usefixtures("registry")
class TestCompliance(FormatCompliance):
    def make_format(self) -> Format:
        return _FORMAT

    def encode(self, numbers: Sequence[int]) -> Sequence[bytes]:
        return [(b"\0\0\0\0\7" if each % 3 else b"\0\0\0\0\x08") + b'{"n": %d}' % each for each in numbers]

    def bad_values(self) -> Sequence[bytes]:
        return [b'{"n": 1}', _HEAD, _HEAD + b"x", b"\1" + _HEAD[1:] + b'{"n":1}', b"\0\0\0\0\x09" + b'{"n":1}']

    def test_another_process_decodes_the_same(self) -> None:
        """Another process has no given schemas: it would ask the registry."""
        assert pickle.loads(pickle.dumps(_FORMAT)) == _FORMAT


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (None, "written with schema 7: the schema registry does not have it"),
        (RegisteredSchema("AVRO", '"long"'), "written with schema 7: it is of the kind AVRO, not JSON"),
        (RegisteredSchema("PROTOBUF", 'syntax = "proto3";'), "written with schema 7: it is of the kind PROTOBUF, not"),
        (_SCHEMA, ""),
        (RegisteredSchema("JSON", "not JSON"), ""),
    ],
)
def test_h35_a_schema_is_reported_also_where_no_record_decodes(
    registry: dict[int, RegisteredSchema], schema: RegisteredSchema | None, reason: str
) -> None:
    del registry[7]
    if schema is not None:
        registry[7] = schema
    decoded = _FORMAT.decode(_values(_HEAD + b'{"n": 5}'))
    assert decoded.schemas == {"schema 7": UNKNOWN if schema is None else schema.fingerprint}
    assert [each.reason.startswith(reason) for each in decoded.bad] == ([True] if reason else [])
    assert decoded.rows.num_rows + len(decoded.bad) == 1


def test_h35_a_pinned_name_has_its_schema_or_the_task_fails(registry: dict[int, RegisteredSchema]) -> None:
    pinned = pickle.loads(pickle.dumps(_FORMAT.with_schemas({"schema 7": _SCHEMA.fingerprint})))
    assert pinned.decode(_values(_HEAD + b'{"n": 5}')).rows.to_pylist() == [{"n": 5}]
    registry[7] = RegisteredSchema("AVRO", '"long"')
    with pytest.raises(IdentityError, match="schema 7 is now another schema"):
        pinned.decode(_values(_HEAD + b'{"n": 5}'))
    del registry[7]
    with pytest.raises(IdentityError, match="schema 7 is now unknown"):
        pinned.decode(_values(_HEAD + b'{"n": 5}'))


def test_records_without_a_value(registry: dict[int, RegisteredSchema]) -> None:
    assert _FORMAT.decode(_values(None, _HEAD + b'{"n": 1}', None)).rows.column("n").to_pylist() == [None, 1, None]
    required = RegisteredJsonFormat(parse_ddl("n BIGINT NOT NULL"), Connection("http://127.0.0.1:1"))
    assert [each.index for each in required.decode(_values(None, _HEAD + b'{"n": 1}', None)).bad] == [0, 2]


def _decimal(properties: object) -> RegisteredSchema:
    return RegisteredSchema("JSON", json.dumps({"type": "object", "properties": properties}))


def test_decimals_that_connect_wrote_as_bytes_are_refused(registry: dict[int, RegisteredSchema]) -> None:
    """The base64 text `1234` of three bytes is a number, too, and another one."""
    as_bytes = {"type": "string", "title": "org.apache.kafka.connect.data.Decimal", "connect.type": "bytes"}
    as_number = {"type": "number", "title": "org.apache.kafka.connect.data.Decimal", "connect.type": "bytes"}
    nullable = {"oneOf": [{"type": "null"}, as_bytes]}
    decoder = RegisteredJsonFormat(
        parse_ddl("n DECIMAL(10,2), o STRUCT<n: DECIMAL(10,2)>, b BINARY"), Connection("http://127.0.0.1:1")
    )
    value = _values(_HEAD + b'{"n": "1234", "o": {"n": "1234"}, "b": "1234"}')
    for properties, column in (
        ({"n": as_bytes}, "n"),
        ({"n": nullable}, "n"),
        ({"o": {"type": "object", "properties": {"n": nullable}}}, "o.n"),
        ({"o": {"oneOf": [{"type": "null"}, {"type": "object", "properties": {"n": as_bytes}}]}}, "o.n"),
    ):
        registry[7] = _decimal(properties)
        (bad,) = decoder.decode(value).bad
        assert bad.reason == (
            f"written with schema 7: its field {column} is written as bytes, and the column is DECIMAL; use BINARY"
        )
    for fine in ({"b": as_bytes}, {"n": {"type": "string"}}, {"n": {"type": "number"}}, {"other": as_bytes}):
        registry[7] = _decimal(fine)
        assert not decoder.decode(value).bad
    registry[7] = _decimal({"n": as_number})
    assert not decoder.decode(value).bad


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(st.sampled_from([7, 8]), st.binary(max_size=12) | st.just(b'{"n": 1}')), max_size=10))
def test_behind_the_id_a_value_is_as_in_plain_json(records: list[tuple[int, bytes]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        give_schemas(patch, {7: _SCHEMA, 8: _SCHEMA})
        found = _FORMAT.decode(_values(*(b"\0" + number.to_bytes(4) + text for number, text in records)))
    plain = JsonFormat(parse_ddl("n BIGINT")).decode(_values(*(text for _, text in records)))
    assert found.rows.equals(plain.rows)
    assert found.bad == plain.bad


@pytest.mark.parametrize(
    "keys",
    [
        {"encoding": "confluent"},
        {"registry": {"url": "http://localhost:8081"}},
        {"envelope": "connect", "encoding": "confluent", "registry": {"url": "http://localhost:8081"}},
        {"envelope": "other"},
    ],
)
def test_keys_that_do_not_go_together(keys: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"registry|envelope"):
        JsonEntry.model_validate({"type": "json", "schema": "n BIGINT", **keys})


def test_extras_and_the_format_that_is_built() -> None:
    keys = {"type": "json", "schema": "n BIGINT", "encoding": "confluent", "registry": {"url": "http://localhost:8081"}}
    entry = JsonEntry.model_validate(keys)
    assert entry.extras == {"registry"}
    assert isinstance(entry.build(), RegisteredJsonFormat)


def test_a_sample(registry: dict[int, RegisteredSchema]) -> None:
    found = recognize_json([_HEAD + b'{"n": 1}'], RegistryEntry.model_validate({"url": "http://localhost:8081"}))
    assert found is not None
    assert found.keys == {"encoding": "confluent", "schema": "n BIGINT"}
    assert found.needs_registry
    registry[7] = RegisteredSchema("AVRO", '"long"')
    assert recognize_json([_HEAD + b'{"n": 1}'], RegistryEntry.model_validate({"url": "http://localhost:8081"})) is None

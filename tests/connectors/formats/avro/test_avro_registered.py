"""Records whose writers' schemas are in a registry: what is reported of them, and what is pinned (H35)."""

from __future__ import annotations

import json
import pickle

import pyarrow as pa
import pytest

from connectors.formats.avro.avro_format import AvroFormat
from connectors.formats.avro.writers import RegisteredWriters
from connectors.schema_registry.client import Connection, RegisteredSchema
from eos.errors import IdentityError
from tests.connectors.formats.avro.written import encode, record
from tests.connectors.schema_registry.known import give_schemas
from twophase.schemas import UNKNOWN

_READER = json.dumps(record(("n", "long")))
_FORMAT = AvroFormat(_READER, RegisteredWriters(Connection("http://127.0.0.1:1")))
_SCHEMA = RegisteredSchema("AVRO", _READER)
_SPACES = RegisteredSchema("AVRO", json.dumps(json.loads(_READER), indent=1))
_SWAPPED = RegisteredSchema("AVRO", json.dumps(record(("m", "long"), ("n", "long"))))
_UNREADABLE = RegisteredSchema("AVRO", '{"type": "odd"}')
_INCOMPATIBLE = RegisteredSchema("AVRO", json.dumps(record(("n", "string"))))
_JSON = RegisteredSchema("JSON", _READER)
_PROTOBUF = RegisteredSchema("PROTOBUF", 'syntax = "proto3";')
_VALUES = pa.array([b"\0\0\0\0\7" + encode(record(("n", "long")), {"n": 5})], pa.binary())


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> dict[int, RegisteredSchema]:
    """The schemas of a registry by id. Tests on servers have a real one."""
    found: dict[int, RegisteredSchema] = {}
    give_schemas(monkeypatch, found)
    return found


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (None, "written with schema 7: the schema registry does not have it"),
        (_JSON, "written with schema 7: it is of the kind JSON, not AVRO"),
        (_PROTOBUF, "written with schema 7: it is of the kind PROTOBUF, not AVRO"),
        (_UNREADABLE, "written with schema 7: it cannot be read"),
        (_INCOMPATIBLE, "written with schema 7: n: written as string, and read as long"),
        (_SWAPPED, "n: the record ends too early"),
    ],
)
def test_h35_a_schema_is_reported_also_where_no_record_decodes(
    registry: dict[int, RegisteredSchema], schema: RegisteredSchema | None, reason: str
) -> None:
    if schema is not None:
        registry[7] = schema
    decoded = _FORMAT.decode(_VALUES)
    assert decoded.rows.num_rows == 0
    assert reason in decoded.bad[0].reason
    assert decoded.schemas == {"schema 7": UNKNOWN if schema is None else schema.fingerprint}


def test_h35_a_pinned_name_has_its_schema_or_the_task_fails(registry: dict[int, RegisteredSchema]) -> None:
    pinned = pickle.loads(pickle.dumps(_FORMAT.with_schemas({"schema 7": _SCHEMA.fingerprint})))
    for schema in (_SCHEMA, _SPACES):
        registry[7] = schema
        assert pinned.decode(_VALUES).rows.to_pylist() == [{"n": 5}]
    for other in (_SWAPPED, _JSON, _PROTOBUF, _UNREADABLE, _INCOMPATIBLE):
        registry[7] = other
        with pytest.raises(IdentityError, match="schema 7 is now another schema"):
            pinned.decode(_VALUES)
    del registry[7]
    with pytest.raises(IdentityError, match="schema 7 is now unknown"):
        pinned.decode(_VALUES)
    assert pinned.with_schemas({}).decode(_VALUES).bad


def test_fingerprints_differ_in_whatever_changes_the_meaning() -> None:
    all_different = {
        each.fingerprint
        for each in (
            *(_SCHEMA, _SWAPPED, _UNREADABLE, _INCOMPATIBLE, _JSON, _PROTOBUF),
            RegisteredSchema("AVRO", _READER, (_READER,)),
            RegisteredSchema("AVRO", json.dumps({**json.loads(_READER), "aliases": ["x"]})),
        )
    }
    assert len(all_different) == 8
    assert _SPACES.fingerprint == _SCHEMA.fingerprint

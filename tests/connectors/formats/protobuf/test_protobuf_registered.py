"""Records whose writers' schemas are in a registry: their headers, the reported schemas, and the pinned ones (H35)."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.schema_registry.common.protobuf import _create_index_array
from confluent_kafka.schema_registry.common.serde import SchemaId

from connectors.formats.protobuf import compiler
from connectors.formats.protobuf.descriptors import message_named
from connectors.formats.protobuf.protobuf_format import ProtobufFormat, Reader
from connectors.formats.protobuf.writers import RegisteredWriters, newest_of
from connectors.schema_registry.client import Connection, RegisteredSchema
from eos.errors import IdentityError, SourceError
from tests.connectors.formats.protobuf.written import compiled, decode, rows
from tests.connectors.schema_registry.known import give_schemas
from twophase.schemas import UNKNOWN

_READER: Final = """
syntax = "proto3"; package t;
message First { message Inner { message Deep { int32 n = 1; } } }
message All { int64 n = 1; string s = 2; }
"""
_FORMAT: Final = ProtobufFormat(Reader(compiled(_READER), "t.All"), RegisteredWriters(Connection("http://127.0.0.1:1")))
_SCHEMA: Final = RegisteredSchema("PROTOBUF", _READER)
_NEWER: Final = RegisteredSchema(
    "PROTOBUF", 'syntax = "proto3"; package t; message All { bytes s = 2; uint32 n = 1; repeated All more = 3; }'
)
_INCOMPATIBLE: Final = RegisteredSchema("PROTOBUF", 'syntax = "proto3"; package t; message All { float n = 1; }')
_UNREADABLE: Final = RegisteredSchema("PROTOBUF", 'syntax = "proto3"; message {')
_ABSENT_IMPORT: Final = RegisteredSchema("PROTOBUF", 'syntax = "proto3"; import "a.proto"; message M { int32 n = 1; }')
_JSON: Final = RegisteredSchema("JSON", "{}")
_HEAD: Final = b"\0\0\0\0\7"
_BODY: Final = b"\x08\x05\x12\x01x"


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> dict[int, RegisteredSchema]:
    """The schemas of a registry by id. Tests on servers have a real one."""
    found: dict[int, RegisteredSchema] = {}
    give_schemas(monkeypatch, found)
    return found


def test_headers_of_confluents_client(registry: dict[int, RegisteredSchema]) -> None:
    """The place of each message, as the client writes it."""
    registry[7] = _SCHEMA
    for name in ("t.First", "t.First.Inner", "t.First.Inner.Deep", "t.All"):
        place = _create_index_array(message_named(compiled(_READER), name))
        head = SchemaId("PROTOBUF", 7, None, place).id_to_bytes()
        decoded = decode(_FORMAT, head + _BODY)
        if name == "t.All":
            assert rows(decoded) == [{"n": 5, "s": "x"}]
        else:
            assert [each.reason for each in decoded.bad] == [
                f"written with schema 7: the record is a {name}, not a t.All"
            ]


def test_the_first_message_has_a_short_header(registry: dict[int, RegisteredSchema]) -> None:
    registry[7] = _NEWER
    registry[8] = _SCHEMA
    other = b"\0\0\0\0\x08\x02\x02"
    decoded = decode(_FORMAT, _HEAD + b"\0" + _BODY, other + _BODY, _HEAD + b"\2\0" + _BODY, other, _HEAD + b"\0")
    assert rows(decoded) == [{"n": 5, "s": "x"}] * 3 + [{"n": 0, "s": ""}] * 2
    assert decoded.schemas == {"schema 7": _NEWER.fingerprint, "schema 8": _SCHEMA.fingerprint}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "not in Confluent's wire format: another first byte, or too short"),
        (b"\1" + _HEAD[1:] + b"\0", "not in Confluent's wire format: another first byte, or too short"),
        (_HEAD[:4], "not in Confluent's wire format: another first byte, or too short"),
        (_HEAD, "the header ends too early"),
        (_HEAD + b"\x80", "the header ends too early"),
        (_HEAD + b"\x06\x00\x02", "the header ends too early"),
        (_HEAD + b"\x01", "the header has a negative number of message indexes, or more than 32"),
        (_HEAD + b"\x42" + b"\0" * 33, "the header has a negative number of message indexes, or more than 32"),
        (
            _HEAD + b"\xff\xff\xff\xff\x0f" + bytes(9),
            "the header has a negative number of message indexes, or more than 32",
        ),
        (
            _HEAD + b"\x80\x80\x80\x80\x10" + bytes(9),
            "the header has a negative number of message indexes, or more than 32",
        ),
        (_HEAD + b"\xff" * 11, "the header has a message index that no schema has"),
        (_HEAD + b"\x02\x01", "the header has a message index that no schema has"),
        (_HEAD + b"\x02\x80\x80\x80\x80\x10", "the header has a message index that no schema has"),
        (_HEAD + b"\x02\x04", "written with schema 7: it has no message at [2]"),
        (_HEAD + b"\x40" + b"\0" * 32, f"written with schema 7: it has no message at {[0] * 32}"),
        (_HEAD + b"\x04\x02\x00", "written with schema 7: it has no message at [1, 0]"),
        (b"\0\0\0\0\x09\0", "written with schema 9: the schema registry does not have it"),
        (b"\0\xff\xff\xff\xff\0", "written with schema 4294967295: the schema registry does not have it"),
        (_HEAD + b"\2\2\x08", "the message ends too early"),
    ],
)
def test_wrong_headers(registry: dict[int, RegisteredSchema], value: bytes, reason: str) -> None:
    registry[7] = _SCHEMA
    good = _HEAD + b"\2\2" + _BODY
    decoded = decode(_FORMAT, good, value, good)
    assert [(each.index, each.reason) for each in decoded.bad] == [(1, reason)]
    assert rows(decoded) == [{"n": 5, "s": "x"}] * 2


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (None, "written with schema 7: the schema registry does not have it"),
        (_JSON, "written with schema 7: it is of the kind JSON, not PROTOBUF"),
        (_UNREADABLE, "written with schema 7: it cannot be read: not a .proto file: schema.proto:1:28:"),
        (_ABSENT_IMPORT, "a.proto: File not found"),
        (_INCOMPATIBLE, "written with schema 7: n: written as float, and read as int64"),
        (_SCHEMA, "written with schema 7: the record is a t.First, not a t.All"),
    ],
)
def test_h35_a_schema_is_reported_also_where_no_record_decodes(
    registry: dict[int, RegisteredSchema], schema: RegisteredSchema | None, reason: str
) -> None:
    if schema is not None:
        registry[7] = schema
    decoded = decode(_FORMAT, _HEAD + b"\0" + _BODY)
    assert decoded.rows.num_rows == 0
    assert reason in decoded.bad[0].reason
    assert decoded.schemas == {"schema 7": UNKNOWN if schema is None else schema.fingerprint}


def test_h35_a_pinned_name_has_its_schema_or_the_task_fails(registry: dict[int, RegisteredSchema]) -> None:
    pinned = pickle.loads(pickle.dumps(_FORMAT.with_schemas({"schema 7": _NEWER.fingerprint})))
    value = _HEAD + b"\0" + _BODY
    registry[7] = _NEWER
    assert rows(decode(pinned, value)) == [{"n": 5, "s": "x"}]
    for other in (_SCHEMA, _JSON, _UNREADABLE, _INCOMPATIBLE):
        registry[7] = other
        with pytest.raises(IdentityError, match="schema 7 is now another schema"):
            decode(pinned, value)
    del registry[7]
    with pytest.raises(IdentityError, match="schema 7 is now unknown"):
        decode(pinned, value)
    assert decode(pinned.with_schemas({}), value).bad


def test_imports_over_several_levels(registry: dict[int, RegisteredSchema]) -> None:
    inner = 'syntax = "proto3"; package i; message Money { int64 units = 1; }'
    middle = 'syntax = "proto3"; package m; import "inner/money.proto"; message Item { i.Money price = 1; }'
    text = """syntax = "proto3"; package t; import "items.proto"; import "google/protobuf/timestamp.proto";
    message All { int64 n = 1; m.Item item = 4; google.protobuf.Timestamp at = 5; }"""
    imports = (("items.proto", middle), ("inner/money.proto", inner))
    registry[7] = RegisteredSchema("PROTOBUF", text, (inner, middle), imports)
    assert rows(decode(_FORMAT, _HEAD + b"\0" + _BODY)) == [{"n": 5, "s": "x"}]
    for wrong in ("../up.proto", "/tmp/up.proto", "a/../../up.proto", "a\0b", "x" * 201, ""):
        registry[7] = RegisteredSchema("PROTOBUF", text, (inner, middle), (*imports, (wrong, inner)))
        assert "is outside of its folder" in decode(_FORMAT, _HEAD + b"\0" + _BODY).bad[0].reason
    registry[7] = RegisteredSchema("PROTOBUF", text, (inner, middle), (*imports, ("inner", inner)))
    assert "is a file and a folder" in decode(_FORMAT, _HEAD + b"\0" + _BODY).bad[0].reason
    registry[7] = RegisteredSchema("PROTOBUF", text, (inner, middle), (*imports, ("items.proto", inner)))
    assert "imports two files of one name" in decode(_FORMAT, _HEAD + b"\0" + _BODY).bad[0].reason


def test_the_newest_schema_of_a_sample(registry: dict[int, RegisteredSchema]) -> None:
    from connectors.formats.protobuf.indexes import Written

    registry.update({7: _SCHEMA, 8: _NEWER, 9: _JSON})
    connection = Connection("http://127.0.0.1:1")
    found = newest_of(connection, [Written(8, (0,)), Written(7, (1,))])
    assert found == (8, "t.All", _NEWER)
    several: list[list[Any]] = [
        [Written(8, (0,)), Written(7, (0,))],
        [Written(8, (0,)), Written(9, (0,))],
        [Written(8, (0,)), Written(10, (0,))],
    ]
    assert [newest_of(connection, each) for each in several] == [None] * 3


@pytest.mark.parametrize("way", ["no compiler", "no room", "killed", "too slow"])
def test_no_record_is_bad_because_the_compiler_does_not_run(
    registry: dict[int, RegisteredSchema], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, way: str
) -> None:
    registry[7] = RegisteredSchema("PROTOBUF", f"{_READER}// {way}")
    program = tmp_path / "python"
    match way:
        case "no compiler":
            monkeypatch.setattr(compiler, "find_spec", lambda _name: None)
        case "no room":
            monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
        case "killed":
            program.write_text("#!/bin/sh\nkill -KILL $$\n")
        case "too slow":
            program.write_text("#!/bin/sh\nexec sleep 60\n")
            monkeypatch.setattr(compiler, "_LONGEST_S", 0.2)
    if program.exists():
        program.chmod(0o755)
        monkeypatch.setattr("sys.executable", str(program))
    with pytest.raises(SourceError, match="the compiler of Protobuf does not run"):
        decode(_FORMAT, _HEAD + b"\2\2" + _BODY)


def test_a_text_that_ends_the_compiler_is_bad(
    registry: dict[int, RegisteredSchema], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    registry[7] = RegisteredSchema("PROTOBUF", f"{_READER}// a crash")
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nkill -SEGV $$\n")
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program))
    (bad,) = decode(_FORMAT, _HEAD + b"\2\2" + _BODY).bad
    assert "protoc ends by signal 11" in bad.reason

"""Schemas in a registry that nobody would write: their records are rows, or bad for a reason, in bounded time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pytest

from connectors.formats.protobuf.protobuf_format import ProtobufFormat
from connectors.formats.protobuf.writers import RegisteredWriters
from connectors.schema_registry.client import Connection, RegisteredSchema
from tests.connectors.formats.bounds import MB, bounded
from tests.connectors.formats.protobuf.written import reader_of
from tests.connectors.schema_registry.known import give_schemas

_HEAD: Final = 'syntax = "proto3"; package t; '
_ALL: Final = "message All { int64 n = 1; } "
_FORMAT: Final = ProtobufFormat(reader_of(_HEAD + _ALL).reader, RegisteredWriters(Connection("http://127.0.0.1:1")))
_VALUES: Final = [b"\0\0\0\0\x07\0\x08\x05", b"\0\0\0\0\x08\0\x08\x06", b"\0\0\0\0\x07\0\x08"]


def _nested(levels: int) -> str:
    return _ALL + "".join(f"message M{at} {{ " for at in range(levels)) + "int32 x = 1;" + "}" * levels


def _enum(count: int) -> str:
    names = "".join(f"A{at} = {at};" for at in range(count))
    return f"message All {{ int64 n = 1; E e = 2; }} enum E {{ {names} }}"


def _fields(count: int) -> str:
    return "message All { int64 n = 1;" + "".join(f"int32 f{at} = {20_000 + at};" for at in range(count)) + "}"


_BAD: Final[dict[str, tuple[Callable[[], str], dict[str, str], str]]] = {
    "messages in messages": (lambda: _nested(10_000), {}, "Reached maximum recursion limit"),
    "options in options": (
        lambda: _ALL + "option (x) = {" + "a:{" * 10_000 + "}" * 10_000 + "};",
        {},
        'Option "(x)" unknown',
    ),
    "brackets": (
        lambda: "message All { int64 n = 1 [json_name = " + "(" * 100_000 + "]; }",
        {},
        "Expected string for JSON name",
    ),
    "names of an enum": (lambda: _enum(1_000_000), {}, "more than 4,000,000 characters"),
    "fields": (lambda: _fields(100_000), {}, "exceeds the limit of 65535"),
    "50 MB": (lambda: "/*" + "x" * 50 * MB + "*/" + _ALL, {}, "more than 4,000,000 characters"),
    "50 MB of imports": (
        lambda: 'import "a.proto"; ' + _ALL,
        {"a.proto": "/*" + "x" * 50 * MB + "*/"},
        "more than 4,000,000 characters",
    ),
    "imports in a circle": (
        lambda: 'import "a.proto"; ' + _ALL,
        {"a.proto": 'syntax="proto3"; import "b.proto";', "b.proto": 'syntax="proto3"; import "a.proto";'},
        "recursively imports itself",
    ),
    "an import of itself": (lambda: 'import "schema.proto"; ' + _ALL, {}, "recursively imports itself"),
    "a device": (lambda: 'import "/dev/zero"; ' + _ALL, {}, "File not found"),
    "another folder": (lambda: 'import "../../../etc/passwd"; ' + _ALL, {}, "are not allowed in the virtual path"),
    "a name that is a statement": (lambda: 'message All { int32 "; DROP TABLE" = 2; }', {}, "Expected field name"),
    "NUL": (lambda: "message All\0 { int64 n = 1; }", {}, "Invalid control characters"),
    "a map": (lambda: "message All { map<int64, int64> n = 1; }", {}, "written as a map"),
}


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> dict[int, RegisteredSchema]:
    found = {8: RegisteredSchema("PROTOBUF", _HEAD + _ALL)}
    give_schemas(monkeypatch, found)
    return found


@pytest.mark.parametrize(("text", "imports", "reason"), _BAD.values(), ids=_BAD)
def test_records_of_a_hostile_schema_are_bad(
    registry: dict[int, RegisteredSchema], text: Callable[[], str], imports: dict[str, str], reason: str
) -> None:
    registry[7] = RegisteredSchema("PROTOBUF", _HEAD + text(), tuple(imports.values()), tuple(imports.items()))
    with bounded(30, 1_000 * MB):
        decoded = _FORMAT.decode(pa.array(_VALUES, pa.binary()))
    assert decoded.rows.to_pylist() == [{"n": 6}]
    assert [each.index for each in decoded.bad] == [0, 2]
    assert all(each.reason.startswith("written with schema 7: ") for each in decoded.bad)
    assert reason in decoded.bad[0].reason
    assert len(decoded.bad[0].reason) < 1_000


@pytest.mark.parametrize(
    "text",
    [
        lambda: _enum(100_000),
        lambda: _fields(10_000),
        lambda: _nested(25),
        lambda: _ALL + "".join(f"message M{at} {{ M{at + 1} m = 1; }}" for at in range(5_000)) + "message M5000 { }",
        lambda: _ALL + "".join(f"message M{at} {{ int32 a = 1; }}" for at in range(50_000)),
        lambda: _ALL + "message __proto__ { int32 a = 1; __proto__ constructor = 2; }",
        lambda: "message All { int64 n = 1; All all = 2; repeated All more = 3; map<string, All> by = 4; }",
        lambda: _ALL + "// \ud800",
    ],
    ids=["names", "fields", "messages", "a chain", "many messages", "__proto__", "itself", "half a character"],
)
def test_a_large_schema_has_rows(registry: dict[int, RegisteredSchema], text: Callable[[], str]) -> None:
    registry[7] = RegisteredSchema("PROTOBUF", _HEAD + text())
    with bounded(30, 1_000 * MB):
        decoded = _FORMAT.decode(pa.array(_VALUES, pa.binary()))
    assert decoded.rows.to_pylist() == [{"n": 5}, {"n": 6}]
    assert [each.reason for each in decoded.bad] == ["the message ends too early"]

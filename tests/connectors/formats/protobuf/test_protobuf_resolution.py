"""Writers' messages that differ from the reader's: fields match by numbers, and by types that are written alike."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from connectors.formats.protobuf.protobuf_format import ProtobufFormat, Reader
from connectors.formats.protobuf.writers import RegisteredWriters
from connectors.schema_registry.client import Connection, RegisteredSchema
from tests.connectors.formats.protobuf.written import class_of, compiled, decode, rows

_HEAD = b"\0\0\0\0\7\0"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Write a message with one schema, and read it with another."""

    def run(writer: str, reader: str, *written: dict[str, Any]) -> Any:
        texts = [f'syntax = "proto3"; package t; {body}' for body in (writer, reader)]
        schema = RegisteredSchema("PROTOBUF", texts[0])
        monkeypatch.setattr("connectors.formats.registered.schemas_of", lambda _, ids: dict.fromkeys(ids, schema))
        form = ProtobufFormat(Reader(compiled(texts[1]), "t.All"), RegisteredWriters(Connection("http://127.0.0.1:1")))
        return decode(form, *(_HEAD + class_of(texts[0])(**each).SerializeToString() for each in written))

    return run


@pytest.mark.parametrize(
    ("writer", "reader", "values", "expected"),
    [
        ("int32", "int64", [-5, 2**31 - 1], [-5, 2**31 - 1]),
        ("int64", "int32", [-(2**31), 2**31, 7], [-(2**31), 7]),
        ("int64", "uint32", [-1, 2**32 - 1, 2**32], [2**32 - 1]),
        ("int64", "uint64", [-1, 2**63 - 1], [Decimal(2**63 - 1)]),
        ("uint64", "int64", [2**63, 2**63 - 1], [2**63 - 1]),
        ("uint64", "bool", [0, 1, 2], [False, True]),
        ("bool", "int32", [True], [1]),
        ("sint64", "sint32", [-(2**31), -(2**31) - 1], [-(2**31)]),
        ("fixed32", "sfixed32", [2**31 - 1, 2**31], [2**31 - 1]),
        ("sfixed32", "fixed32", [-1, 5], [5]),
        ("fixed64", "sfixed64", [2**63, 1], [1]),
        ("sfixed64", "fixed64", [-1, 2], [Decimal(2)]),
        ("bytes", "string", [b"a", b"\xff"], ["a"]),
        ("string", "bytes", ["ä"], ["ä".encode()]),
        ("int32", "E", [0, 5, 6], ["Z", "Y"]),
        ("E", "int64", [5], [5]),
    ],
)
def test_types_that_are_written_alike(
    read: Any, writer: str, reader: str, values: list[Any], expected: list[Any]
) -> None:
    """A value that the reader's type does not have is bad: Google's library would cut bits off."""
    more = "enum E { Z = 0; Y = 5; }"
    bodies = [f"{more} message All {{ optional {kind} v = 3; repeated {kind} w = 4; }}" for kind in (writer, reader)]
    decoded = read(*bodies, *({"v": value, "w": [value, value]} for value in values))
    assert rows(decoded) == [{"v": value, "w": [value, value]} for value in expected]
    assert len(decoded.bad) == len(values) - len(expected)


@pytest.mark.parametrize(
    ("writer", "reader", "reason"),
    [
        ("int32 v = 1;", "sint32 v = 1;", "v: written as int32, and read as sint32"),
        ("float v = 1;", "double v = 1;", "v: written as float, and read as double"),
        ("fixed32 v = 1;", "float v = 1;", "v: written as fixed32, and read as float"),
        ("string v = 1;", "Part v = 1;", "v: written as string, and read as message"),
        ("Part v = 1;", "bytes v = 1;", "v: written as message, and read as bytes"),
        ("repeated int32 v = 1;", "int32 v = 1;", "v: written as a repeated field, and read as one value"),
        ("int32 v = 1;", "repeated int32 v = 1;", "v: written as one value, and read as a repeated field"),
        ("map<int32, int32> v = 1;", "repeated Pair v = 1;", "v: written as a map, and read as a repeated field"),
        ("map<int32, string> v = 1;", "map<int32, Part> v = 1;", "v[].value: written as string, and read as message"),
        ("Part v = 1;", "Other v = 1;", "v.n: written as int32, and read as double"),
    ],
)
def test_types_that_are_not_are_refused_with_the_place(read: Any, writer: str, reader: str, reason: str) -> None:
    """Google's library would leave these fields out."""
    more = (
        "message Part { int32 n = 1; } message Other { double n = 1; } message Pair { int32 key = 1; int32 value = 2; }"
    )
    decoded = read(f"message All {{ {writer} }} {more}", f"message All {{ {reader} }} {more}", {})
    assert [each.reason for each in decoded.bad] == [f"written with schema 7: {reason}"]


def test_fields_match_by_number(read: Any) -> None:
    writer = """message All { Part part = 9; double gone = 8; int32 old = 7; }
    message Part { string name = 2; int32 gone = 1; }"""
    reader = """message Piece { string label = 2; }
    message All { optional int64 fresh = 7; Piece piece = 9; optional int32 later = 10; }"""
    decoded = read(writer, reader, {"part": {"name": "a", "gone": 5}, "gone": 0.5, "old": 3}, {})
    assert rows(decoded) == [
        {"fresh": 3, "piece": {"label": "a"}, "later": None},
        {"fresh": 0, "piece": None, "later": None},
    ]


def test_a_default_that_the_writer_does_not_write_is_not_null(read: Any) -> None:
    """A writer without presence leaves out 0. Google's library with the reader's message would show no value."""
    more = "enum E { Z = 0; Y = 1; }"
    kinds = {"a": "int32", "b": "string", "c": "E", "d": "bool", "e": "uint64"}
    fields = [f"{kind} {name} = {number};" for number, (name, kind) in enumerate(kinds.items(), 1)]
    writer = f"message All {{ {' '.join(fields)} int32 f = 6; int32 g = 7; }} {more}"
    optional = " ".join(f"optional {each}" for each in fields)
    reader = f"message All {{ {optional} oneof o {{ int32 f = 6; int32 g = 7; }} }} {more}"
    decoded = read(writer, reader, {}, {"a": 5, "f": 1})
    zero = {"a": 0, "b": "", "c": "Z", "d": False, "e": Decimal(0), "f": None, "g": None}
    assert rows(decoded) == [zero, {**zero, "a": 5, "f": 1}]
    assert rows(read(reader, reader, {})) == [dict.fromkeys("abcdefg")]
    assert rows(read(reader, writer, {})) == [{**zero, "f": 0, "g": 0}]


def test_a_default_without_a_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [
        'syntax = "proto3"; package t; message All { int32 e = 1; }',
        'syntax = "proto2"; package t; message All { optional E e = 1; } enum E { ONE = 1; }',
    ]
    schema = RegisteredSchema("PROTOBUF", texts[0])
    monkeypatch.setattr("connectors.formats.registered.schemas_of", lambda _, ids: dict.fromkeys(ids, schema))
    form = ProtobufFormat(Reader(compiled(texts[1]), "t.All"), RegisteredWriters(Connection("http://127.0.0.1:1")))
    (bad,) = decode(form, _HEAD + b"\x08\x01").bad
    assert "e: absent means 0 for the writer, and the reader's enum has no name for 0" in bad.reason

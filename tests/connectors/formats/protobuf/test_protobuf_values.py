"""Values of each type, written by Google's library: rows are equal to its messages."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connectors.formats.protobuf import wire
from eos.errors import SpecError
from tests.connectors.formats.protobuf.written import (
    EVERYTHING,
    OLDER,
    class_of,
    decode,
    descriptor_of,
    messages,
    reader_of,
    row_of,
    rows,
    same,
)
from tests.searches import examples

_SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=examples(50))


@pytest.fixture(params=["by steps of all messages", "one message after another"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways in which fields are found."""
    monkeypatch.setattr(wire, "FEW", 0 if request.param == "by steps of all messages" else 1_000)


def _check(text: str, written: list[Message]) -> None:
    decoded = decode(reader_of(text), *(each.SerializeToString() for each in written))
    decoded.rows.validate(full=True)
    assert decoded.bad == ()
    assert len(decoded.rows) == len(written)
    for found, message in zip(rows(decoded), written, strict=True):
        assert same(found, row_of(message)), (found, message)


@_SETTINGS
@given(st.lists(messages(descriptor_of(EVERYTHING)), min_size=1, max_size=5))
def test_messages_of_proto3(written: list[Message]) -> None:
    _check(EVERYTHING, written)


@_SETTINGS
@given(st.lists(messages(descriptor_of(OLDER)), min_size=1, max_size=5))
def test_messages_of_proto2(written: list[Message]) -> None:
    _check(OLDER, written)


@_SETTINGS
@given(st.lists(messages(descriptor_of(EVERYTHING), 12), min_size=2, max_size=4))
def test_messages_behind_each_other_are_merged(written: list[Message]) -> None:
    """Also fields that a message has several times, and members of a oneof that replace each other."""
    joined = b"".join(each.SerializeToString() for each in written)
    decoded = decode(reader_of(EVERYTHING), joined, joined)
    assert decoded.bad == ()
    expected = row_of(class_of(EVERYTHING).FromString(joined))
    assert all(same(row, expected) for row in rows(decoded))


def test_the_columns() -> None:
    text = """
    syntax = "proto3"; package t;
    import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
    import "google/protobuf/wrappers.proto"; import "google/protobuf/any.proto";
    enum E { Z = 0; } message Part { bool b = 1; }
    message All {
      int32 a = 1; sint64 b = 2; fixed32 c = 3; uint64 d = 4; optional float e = 5; E f = 6; bytes g = 7; Part h = 8;
      repeated Part i = 9; map<int32, Part> j = 10; google.protobuf.Timestamp k = 11;
      google.protobuf.Duration l = 12; google.protobuf.UInt32Value m = 13; oneof o { string n = 14; }
      google.protobuf.Any p = 15;
    }"""
    part = pa.struct([pa.field("b", pa.bool_(), nullable=False)])
    seconds = [pa.field("seconds", pa.int64(), nullable=False), pa.field("nanos", pa.int32(), nullable=False)]
    packed = [pa.field("type_url", pa.string(), nullable=False), pa.field("value", pa.binary(), nullable=False)]
    never_null = {"a", "b", "c", "d", "f", "g", "i", "j"}
    kinds = {
        "a": pa.int32(),
        "b": pa.int64(),
        "c": pa.int64(),
        "d": pa.decimal128(20, 0),
        "e": pa.float32(),
        "f": pa.string(),
        "g": pa.binary(),
        "h": part,
        "i": pa.list_(pa.field("element", part, nullable=False)),
        "j": pa.map_(pa.int32(), pa.field("value", part, nullable=False)),
        "k": pa.timestamp("us", "UTC"),
        "l": pa.struct(seconds),
        "m": pa.int64(),
        "n": pa.string(),
        "p": pa.struct(packed),
    }
    assert reader_of(text).schema == pa.schema([pa.field(n, k, nullable=n not in never_null) for n, k in kinds.items()])


def test_absent_fields() -> None:
    text = """
    syntax = "proto3"; package t; import "google/protobuf/wrappers.proto";
    enum E { Z = 0; Y = 1; } message Part { string s = 1; }
    message All { int32 a = 1; optional int32 b = 2; E c = 3; Part d = 4; repeated int32 e = 5; map<int32, Part> f = 6;
      google.protobuf.Int32Value g = 7; oneof o { int32 h = 8; } uint64 i = 9; string j = 10; bool k = 11; }"""
    (row,) = rows(decode(reader_of(text), b""))
    assert row == {
        **dict.fromkeys("bdgh"),
        "a": 0,
        "c": "Z",
        "e": [],
        "f": {},
        "i": Decimal(0),
        "j": "",
        "k": False,
    }
    (row,) = rows(decode(reader_of(text), b"\x10\x00\x22\x00\x32\x00\x3a\x00\x40\x00"))
    assert row["b"] == row["g"] == row["h"] == 0
    assert (row["d"], row["f"]) == ({"s": ""}, {0: {"s": ""}})


def test_defaults_of_proto2_are_not_in_the_rows() -> None:
    (row,) = rows(decode(reader_of(OLDER), b"\x08\x01"))
    assert (row["id"], row["n"], row["mood"]) == (1, None, None)


def test_packed_and_single_numbers_are_read_in_their_order() -> None:
    text = 'syntax = "proto3"; package t; message All { repeated sint32 n = 1; repeated fixed32 f = 2; }'
    value = b"\x08\x02\x0a\x03\x04\x80\x01\x0a\x00\x08\x06" + b"\x15\x01\0\0\0\x12\x08\x02\0\0\0\x03\0\0\0"
    decoded = decode(reader_of(text), value, b"", value)
    assert [row["n"] for row in rows(decoded)] == [[1, 2, 64, 3], [], [1, 2, 64, 3]]
    assert [row["f"] for row in rows(decoded)] == [[1, 2, 3], [], [1, 2, 3]]
    assert row_of(class_of(text).FromString(value)) == rows(decoded)[0]


def test_a_time_has_microseconds() -> None:
    text = """syntax = "proto3"; package t; import "google/protobuf/timestamp.proto";
    message All { google.protobuf.Timestamp t = 1; }"""
    first, last = -62_135_596_800, 253_402_300_799
    given_: list[dict[str, int]] = [
        {"seconds": first},
        {"seconds": last, "nanos": 999_999_000},
        {"seconds": -1, "nanos": 999_999_999},
        {"seconds": first - 1},
        {"seconds": last + 1},
        {"nanos": 1_000_000_000},
        {"nanos": -1_000},
        {"seconds": 2**63 - 1},
    ]
    values = [class_of(text)(t=each).SerializeToString() for each in given_]
    decoded = decode(reader_of(text), *values)
    outside = "t: not a timestamp of the years 1 to 9999"
    finer = "t: nanoseconds, which TIMESTAMP does not have"
    assert [(each.index, each.reason) for each in decoded.bad] == [(2, finer), *((at, outside) for at in range(3, 8))]
    cut = decode(reader_of(text, truncate=True), *values)
    assert [each["t"] for each in rows(cut)] == [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
    ]
    assert [each.index for each in cut.bad] == [3, 4, 5, 6, 7]


_TREE = """
syntax = "proto3"; package t; import "google/protobuf/struct.proto";
message Tree { int32 n = 1; repeated Tree children = 2; }
message All { int32 id = 1; Tree tree = 2; google.protobuf.Struct more = 3; map<string, Tree> named = 4; }
"""


def test_messages_that_contain_themselves_may_stay_bytes() -> None:
    with pytest.raises(SpecError, match=r"tree.children\[\]: the Protobuf message t.Tree contains itself") as refused:
        _ = reader_of(_TREE).schema
    assert "as_bytes: [t.Tree]" in (refused.value.remedy or "")
    form = reader_of(_TREE, as_bytes=frozenset({"t.Tree", "google.protobuf.Struct"}))
    kind: Any = class_of(_TREE)
    message = kind(id=5, tree={"n": 1, "children": [{"n": 2}]}, more={"a": 1.5}, named={"x": {"n": 3}})
    part = {"tree": message.tree.SerializeToString(), "more": message.more.SerializeToString()}
    bare: dict[str, Any] = {"id": 0, "tree": None, "more": None, "named": {}}
    decoded = decode(form, message.SerializeToString(), b"", b"\x12\x02\x08\x01\x12\x04\x12\x02\x08\x02")
    assert decoded.bad == ()
    assert rows(decoded) == [
        {"id": 5, **part, "named": {"x": message.named["x"].SerializeToString()}},
        bare,
        {**bare, "tree": message.tree.SerializeToString()},
    ]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("message Empty {} message All { optional Empty e = 1; }", "e: the Protobuf message t.Empty has no fields"),
        ("message All { reserved 1; }", "the Protobuf message t.All has no fields"),
        ("message All { optional group Part = 1 { optional int32 n = 1; } }", "part: a group"),
        (
            "message Set { option message_set_wire_format = true; extensions 4 to max; } "
            "message All { optional Set s = 1; }",
            "s: the message set t.Set has no columns",
        ),
    ],
)
def test_messages_that_have_no_columns(body: str, reason: str) -> None:
    with pytest.raises(SpecError, match=reason):
        _ = reader_of(f'syntax = "proto2"; package t; {body}').schema


def test_a_short_schema_with_very_many_columns_is_refused() -> None:
    levels = " ".join(f"message L{n} {{ L{n + 1} a = 1; L{n + 1} b = 2; L{n + 1} c = 3; }}" for n in range(20))
    with pytest.raises(SpecError, match="more than 10,000 fields"):
        _ = reader_of(f'syntax = "proto3"; package t; {levels} message L20 {{ int32 n = 1; }}', "t.L0").schema


def test_editions() -> None:
    text = """
    edition = "2023"; package t;
    enum E { Z = 0; } message Part { int32 n = 1; }
    message All { int32 a = 1; int32 b = 2 [features.field_presence = IMPLICIT];
      repeated int32 c = 3 [features.repeated_field_encoding = EXPANDED];
      string d = 4 [features.utf8_validation = NONE];
      int32 e = 5 [features.field_presence = LEGACY_REQUIRED]; Part f = 6; }"""
    assert [each.name for each in reader_of(text).schema if not each.nullable] == ["b", "c", "e"]
    kind: Any = class_of(text)
    _check(text, [kind(a=1, c=[1, 2], d="x", e=4, f={"n": 5}), kind(e=0, b=7)])
    delimited = text.replace("Part f = 6", "Part f = 6 [features.message_encoding = DELIMITED]")
    with pytest.raises(SpecError, match="f: a group, or a message with the encoding of a group"):
        _ = reader_of(delimited).schema


def test_a_name_of_an_enum_with_two_names_is_the_first() -> None:
    (row,) = rows(decode(reader_of(EVERYTHING), class_of(EVERYTHING)(color=1).SerializeToString()))
    assert row["color"] == "RED"


_CHOICE = """
syntax = "proto3"; package t; message Part { int32 n = 1; repeated int32 m = 2; }
message All { oneof o { int32 a = 1; Part b = 2; Part c = 3; } Part d = 4; }
"""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"\x08\x05\x12\x02\x08\x07", {"b": {"n": 7, "m": []}}),
        (b"\x12\x02\x08\x07\x08\x05", {"a": 5}),
        (b"\x12\x02\x08\x07\x08\x05\x12\x02\x10\x01", {"b": {"n": 0, "m": [1]}}),
        (b"\x12\x02\x08\x07\x12\x02\x10\x01", {"b": {"n": 7, "m": [1]}}),
        (b"\x12\x02\x10\x07\x1a\x00\x12\x02\x10\x01\x12\x02\x10\x02", {"b": {"n": 0, "m": [1, 2]}}),
        (b"\x22\x04\x08\x07\x10\x01\x22\x04\x10\x02\x08\x08", {"d": {"n": 8, "m": [1, 2]}}),
    ],
)
def test_the_last_member_of_a_oneof_counts_and_messages_are_merged(value: bytes, expected: dict[str, Any]) -> None:
    row = {**dict.fromkeys("abcd"), **expected}
    assert row_of(class_of(_CHOICE).FromString(value)) == row
    decoded = decode(reader_of(_CHOICE), value, b"", b"\x08\x01", value)
    assert rows(decoded) == [row, dict.fromkeys("abcd"), {**dict.fromkeys("abcd"), "a": 1}, row]


def test_a_record_without_a_required_field_is_bad() -> None:
    """Of each kind, also inside of messages. Google's library parses such a message."""
    text = """
    syntax = "proto2"; package t;
    import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
    message Leaf { optional int32 k = 1; } message Part { required int32 n = 1; required Leaf leaf = 2; }
    message All { required Part a = 1; required google.protobuf.Timestamp b = 2; required uint64 g = 7;
      required google.protobuf.Int32Value c = 3; required bytes d = 4; optional Part e = 5; repeated Part f = 6; }"""
    kind: Any = class_of(text)
    good = kind(a={"n": 1, "leaf": {}}, b={}, c={}, d=b"x", g=1)
    value = good.SerializeToString()
    bare = [kind(**{name: getattr(good, name) for name in "abcdg" if name != left_out}) for left_out in "abcdg"]
    values = [each.SerializePartialToString() for each in bare]
    decoded = decode(reader_of(text), *values, value + b"\x2a\x00", value + b"\x32\x02\x08\x01", value)
    decoded.rows.validate(full=True)
    assert [each.reason for each in decoded.bad] == [
        f"{name}: required, and absent" for name in ("a", "b", "c", "d", "g", "e.n", "f[].leaf")
    ]
    assert rows(decoded) == [row_of(good)]

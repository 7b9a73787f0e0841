"""Schemas of these tests, messages by Google's library, and the rows that they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any, Final

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

from connectors.api.decoding import Decoded
from connectors.formats.protobuf.compiler import compile_text
from connectors.formats.protobuf.protobuf_format import ProtobufFormat, Reader
from connectors.formats.protobuf.well_known import TIMESTAMP, WRAPPERS

SCALARS: Final = (
    *("int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32", "sfixed64"),
    *("float", "double", "bool", "string", "bytes"),
)
_KEYS: Final = [each for each in SCALARS if each not in ("float", "double", "bytes")]
_WRAPPED: Final = sorted(WRAPPERS)


def _fields(begin: int, pattern: str, kinds: Sequence[str] = SCALARS) -> str:
    return "\n".join(pattern.format(kind=kind, name=kind, number=begin + at) for at, kind in enumerate(kinds))


_WRAPPER_FIELDS: Final = "\n".join(f"  {kind} w{at} = {100 + at};" for at, kind in enumerate(_WRAPPED))

EVERYTHING: Final = f"""
syntax = "proto3";
package t;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/any.proto";
import "google/protobuf/wrappers.proto";
enum Color {{ option allow_alias = true; NONE = 0; RED = 1; ROT = 1; BLUE = 7; DEEP = -3; }}
message Leaf {{ sint64 n = 1; string s = 2; repeated int32 parts = 4; }}
message Branch {{ Leaf leaf = 1; repeated Leaf leaves = 2; map<string, Leaf> named = 3; optional bool flag = 16; }}
message All {{
{_fields(1, "  {kind} one_{name} = {number};")}
{_fields(21, "  optional {kind} may_{name} = {number};")}
{_fields(41, "  repeated {kind} many_{name} = {number};")}
{_fields(61, "  map<{kind}, string> by_{name} = {number};", _KEYS)}
{_fields(81, "  map<string, {kind}> of_{name} = {number};")}
{_WRAPPER_FIELDS}
  Color color = 120; optional Color may_color = 121; repeated Color colors = 122; map<int32, Color> color_of = 123;
  Branch branch = 130; repeated Branch branches = 131; map<int64, Branch> branch_of = 132;
  google.protobuf.Timestamp at = 140; repeated google.protobuf.Timestamp times = 141;
  map<bool, google.protobuf.Timestamp> time_of = 142;
  google.protobuf.Duration took = 143; google.protobuf.Any any = 144;
  repeated google.protobuf.Int64Value boxes = 145; map<string, google.protobuf.StringValue> box_of = 146;
  oneof choice {{ int32 a = 536870911; string b = 151; Leaf c = 152; Color d = 153; Branch e = 154; }}
  oneof other {{ Leaf f = 160; Leaf g = 161; }}
  repeated int32 loose = 170 [packed = false]; repeated double loose_double = 171 [packed = false];
}}
"""

OLDER: Final = """
syntax = "proto2";
package t;
enum Mood { GOOD = 4; BAD = 5; }
enum Degree { ZERO = 0; ONE = 1; }
message Inner { required int32 n = 1; optional string s = 2 [default = "x"]; }
message All {
  required int64 id = 1; optional int32 n = 2 [default = 5]; optional Mood mood = 3; repeated Mood moods = 4;
  repeated int32 loose = 5; repeated int32 tight = 6 [packed = true]; optional Inner inner = 7;
  repeated Inner inners = 8;
  map<string, Degree> degree_of = 9; map<string, Inner> inner_of = 10; optional bytes raw = 11;
  optional string text = 12;
  oneof choice { string a = 13; Inner b = 14; } extensions 100 to 200;
}
"""


@cache
def compiled(text: str) -> bytes:
    """Return the descriptors of a .proto file."""
    return compile_text(text, {})


@cache
def descriptor_of(text: str, name: str = "t.All") -> Descriptor:
    """Return a message of a .proto file, in a pool of Google's library."""
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(compiled(text)).file:
        pool.Add(file)
    return pool.FindMessageTypeByName(name)


def class_of(text: str, name: str = "t.All") -> type[Message]:
    """Return the class of Google's library for a message."""
    return GetMessageClass(descriptor_of(text, name))


def reader_of(text: str, name: str = "t.All", **options: Any) -> ProtobufFormat:
    """Return the format that reads a message without a header."""
    return ProtobufFormat(Reader(compiled(text), name, **options))


def decode(form: ProtobufFormat, *values: bytes | None) -> Decoded:
    """Decode values as one batch."""
    return form.decode(pa.array(values, pa.binary()))


class RefusedError(Exception):
    """Google's library has a value that no column holds."""


def row_of(message: Message) -> dict[str, Any]:
    """Return the row that a message of Google's library stands for. Raises RefusedError."""
    return {field.name: _column(message, field) for field in message.DESCRIPTOR.fields}


def _column(message: Message, field: Any) -> Any:
    value = getattr(message, field.name)
    if field.type == FieldDescriptor.TYPE_MESSAGE and field.message_type.GetOptions().map_entry:
        kinds = field.message_type.fields_by_name
        pairs = {key: value[key] for key in value}
        return {_value(key, kinds["key"]): _value(each, kinds["value"]) for key, each in pairs.items()}
    if field.is_repeated:
        return [_value(each, field) for each in value]
    if field.is_required and not message.HasField(field.name):
        raise RefusedError("required")
    return _value(value, field) if not field.has_presence or message.HasField(field.name) else None


def _value(value: Any, field: Any) -> Any:
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        if field.message_type.full_name in WRAPPERS:
            return _value(value.value, field.message_type.fields_by_name["value"])
        return _time(value) if field.message_type.full_name == TIMESTAMP else row_of(value)
    if field.type == FieldDescriptor.TYPE_ENUM:
        for each in field.enum_type.values:
            if each.number == value:
                return each.name
        raise RefusedError("a number without a name")
    if field.type in (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64):
        return Decimal(value)
    return value


def _time(value: Any) -> datetime:
    if not -62_135_596_800 <= value.seconds <= 253_402_300_799 or not 0 <= value.nanos < 1_000_000_000:
        raise RefusedError("not a timestamp")
    if value.nanos % 1_000:
        raise RefusedError("nanoseconds")
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=value.seconds, microseconds=value.nanos // 1_000)


def rows(decoded: Decoded) -> list[dict[str, Any]]:
    """Return the rows as Python's values, with maps as dicts."""
    return [_plain(decoded.rows.schema, row) for row in decoded.rows.to_pylist()]


def _plain(kind: Any, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(kind, pa.Schema) or pa.types.is_struct(kind):
        return {field.name: _plain(field.type, value[field.name]) for field in kind}
    if pa.types.is_map(kind):
        return {key: _plain(kind.item_type, each) for key, each in value}
    return [_plain(kind.value_type, each) for each in value] if pa.types.is_list(kind) else value


def _integers(bits: int, signed: bool) -> st.SearchStrategy[int]:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return st.sampled_from([low, high, 0, 1, 127, 128, 2**28]) | st.integers(low, high)


_BY_TYPE: Final = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), _integers(32, True)),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), _integers(64, True)),
    **dict.fromkeys(("uint32", "fixed32"), _integers(32, False)),
    **dict.fromkeys(("uint64", "fixed64"), _integers(64, False)),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "string": st.text(max_size=6),
    "bytes": st.binary(max_size=6),
}
_TYPE_NAMES: Final = {getattr(FieldDescriptor, f"TYPE_{kind.upper()}"): kind for kind in SCALARS}


@st.composite
def messages(draw: st.DrawFn, descriptor: Descriptor, most: int = 6) -> Message:
    """Messages of Google's library with a few of their fields set, in a schema without required fields but these."""
    message = GetMessageClass(descriptor)()
    chosen = draw(st.lists(st.sampled_from(list(descriptor.fields)), max_size=most, unique_by=lambda each: each.number))
    for field in {each.number: each for each in [*chosen, *(f for f in descriptor.fields if f.is_required)]}.values():
        _fill(draw, message, field)
    return message


def _fill(draw: st.DrawFn, message: Message, field: Any) -> None:
    target = getattr(message, field.name)
    if field.type == FieldDescriptor.TYPE_MESSAGE and field.message_type.GetOptions().map_entry:
        kinds = field.message_type.fields_by_name
        for _ in range(draw(st.integers(1, 3))):
            key = draw(_scalars(kinds["key"]))
            if kinds["value"].type == FieldDescriptor.TYPE_MESSAGE:
                target[key].CopyFrom(draw(_inner(kinds["value"].message_type)))
            else:
                target[key] = draw(_scalars(kinds["value"]))
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        if not field.is_repeated:
            target.CopyFrom(draw(_inner(field.message_type)))
            target.SetInParent()
        else:
            for _ in range(draw(st.integers(1, 3))):
                target.add().CopyFrom(draw(_inner(field.message_type)))
    elif field.is_repeated:
        target.extend(draw(st.lists(_scalars(field), min_size=1, max_size=5)))
    else:
        setattr(message, field.name, draw(_scalars(field)))


def _inner(descriptor: Descriptor) -> st.SearchStrategy[Message]:
    if descriptor.full_name == TIMESTAMP:
        seconds, micros = st.integers(-62_135_596_800, 253_402_300_799), st.integers(0, 999_999)
        kind: Any = GetMessageClass(descriptor)
        return st.builds(lambda s, u: kind(seconds=s, nanos=u * 1_000), seconds, micros)
    return messages(descriptor, 3)


def _scalars(field: Any) -> st.SearchStrategy[Any]:
    if field.type == FieldDescriptor.TYPE_ENUM:
        return st.sampled_from([each.number for each in field.enum_type.values])
    return _BY_TYPE[_TYPE_NAMES[field.type]]


def same(left: Any, right: Any) -> bool:
    """Whether two rows are equal; NaN equals NaN, and 0.0 is not -0.0."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return repr(left) == repr(right)
    return type(left) is type(right) and bool(left == right)

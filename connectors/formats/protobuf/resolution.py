"""The plan that reads a writer's message into the columns of the reader's message. Fields match by their numbers.

Source: Protocol Buffers Documentation, "Updating A Message Type". Types match where the wire format is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from connectors.formats.protobuf.message import FieldStep, MapField, MessageStep, MessageValue, Repeated, Singular
from connectors.formats.protobuf.values import UINT64, BytesValue, Coding, EnumValue, NumberValue, TextValue, Value
from connectors.formats.protobuf.walk import FIXED32, FIXED64, VARINT
from connectors.formats.protobuf.well_known import TIMESTAMP, WRAPPERS, TimestampValue, WrapperValue
from eos.errors import SpecError

_MOST_FIELDS: Final = 10_000
"""Columns and their parts that a message may have. A short schema can name one type exponentially often."""

_INT32: Final = (-(2**31), 2**31 - 1)
_INT64: Final = (-(2**63), 2**63 - 1)
_UINT32: Final = (0, 2**32 - 1)
_UINT64: Final = (0, 2**64 - 1)

_NAMES: Final[Mapping[int, str]] = {
    getattr(FieldDescriptor, each): each.removeprefix("TYPE_").lower()
    for each in dir(FieldDescriptor)
    if each.startswith("TYPE_")
}
_CODINGS: Final[Mapping[str, Coding]] = {
    "bool": Coding(VARINT, "unsigned", 0, 1),
    "enum": Coding(VARINT, "signed", *_INT32),
    "int32": Coding(VARINT, "signed", *_INT32),
    "int64": Coding(VARINT, "signed", *_INT64),
    "uint32": Coding(VARINT, "unsigned", *_UINT32),
    "uint64": Coding(VARINT, "unsigned", *_UINT64),
    "sint32": Coding(VARINT, "zigzag", *_INT32),
    "sint64": Coding(VARINT, "zigzag", *_INT64),
    "fixed32": Coding(FIXED32, "<u4", *_UINT32),
    "fixed64": Coding(FIXED64, "<u8", *_UINT64),
    "sfixed32": Coding(FIXED32, "<i4", *_INT32),
    "sfixed64": Coding(FIXED64, "<i8", *_INT64),
    "float": Coding(FIXED32, "<f4"),
    "double": Coding(FIXED64, "<f8"),
}
_COLUMNS: Final[Mapping[str, pa.DataType]] = {
    "bool": pa.bool_(),
    **dict.fromkeys(("int32", "sint32", "sfixed32"), pa.int32()),
    **dict.fromkeys(("int64", "sint64", "sfixed64", "uint32", "fixed32"), pa.int64()),
    **dict.fromkeys(("uint64", "fixed64"), UINT64),
    "float": pa.float32(),
    "double": pa.float64(),
}
_ALIKE: Final = (
    frozenset({"bool", "enum", "int32", "int64", "uint32", "uint64"}),
    frozenset({"sint32", "sint64"}),
    frozenset({"fixed32", "sfixed32"}),
    frozenset({"fixed64", "sfixed64"}),
    frozenset({"string", "bytes"}),
)
"""Types that the wire format writes alike."""


_Inside: TypeAlias = tuple[str, ...]
"""Names of the messages around a field."""


class IncompatibleError(Exception):
    """The writer's message cannot be read as the reader's. Its text names the field."""


class Resolution:
    """The plans of one reader. Raises SpecError for a type that no column can have, IncompatibleError for a writer."""

    def __init__(self, as_bytes: frozenset[str], *, truncate: bool) -> None:
        self._as_bytes = as_bytes
        self._truncate = truncate
        self._fields = 0

    def message(self, writer: Descriptor, reader: Descriptor, what: str = "", inside: _Inside = ()) -> MessageStep:
        """Return the plan of a message. `inside`: the messages around it."""
        if reader.full_name in inside:
            message = f"{what}: the Protobuf message {reader.full_name} contains itself, and a column cannot"
            raise SpecError(message, remedy=_remedy(reader))
        if reader.GetOptions().message_set_wire_format:
            raise SpecError(f"{what}: the message set {reader.full_name} has no columns", remedy=_remedy(reader))
        if not reader.fields:
            where = f"{what}: " if what else ""
            remedy = _remedy(reader) if what else "give another message"
            raise SpecError(f"{where}the Protobuf message {reader.full_name} has no fields", remedy=remedy)
        written = writer.fields_by_number
        fields = [
            self._field(written.get(each.number, each), each, what, (*inside, reader.full_name))
            for each in reader.fields
        ]
        places = {each.number: at for at, each in enumerate(reader.fields)}
        oneofs = [tuple(places[each.number] for each in oneof.fields) for oneof in reader.oneofs]
        return MessageStep(tuple(fields), tuple(each for each in oneofs if len(each) > 1), what)

    def _field(self, writer: FieldDescriptor, reader: FieldDescriptor, around: str, inside: _Inside) -> FieldStep:
        self._fields += 1
        if self._fields > _MOST_FIELDS:
            raise SpecError(f"the Protobuf message has more than {_MOST_FIELDS:,} fields with all its parts")
        what = f"{around}.{reader.name}".removeprefix(".")
        if _shape(writer) != _shape(reader):
            raise IncompatibleError(f"{what}: written as {_shape(writer)}, and read as {_shape(reader)}")
        if _is_map(reader):
            return self._map(writer, reader, what, inside)
        if reader.is_repeated:
            value = self._value(writer, reader, f"{what}[]", inside)
            kind = pa.list_(pa.field("element", value.type, nullable=False))
            return Repeated(reader.number, pa.field(reader.name, kind, nullable=False), value, what)
        value = self._value(writer, reader, what, inside)
        field = pa.field(reader.name, value.type, nullable=reader.has_presence and not reader.is_required)
        has_default = not reader.has_presence or (not writer.has_presence and not _excludes_others(reader))
        if has_default and value.default is None:
            raise IncompatibleError(f"{what}: absent means 0 for the writer, and the reader's enum has no name for 0")
        return Singular(
            reader.number,
            field,
            value,
            what,
            merges=_is_message(reader),
            has_default=has_default,
            required=reader.is_required and not has_default,
        )

    def _map(self, writer: FieldDescriptor, reader: FieldDescriptor, what: str, inside: _Inside) -> MapField:
        """Return the plan of a map. In an entry, an absent key or value has its type's default."""
        steps = []
        for written, read in zip(_entry(writer), _entry(reader), strict=True):
            place = f"{what}[].{read.name}"
            value = self._value(written, read, place, inside)
            field = pa.field(read.name, value.type, nullable=False)
            is_message = _is_message(read)
            steps.append(
                Singular(
                    read.number,
                    field,
                    value,
                    place,
                    merges=is_message,
                    has_default=not is_message,
                    absent_is_empty=is_message,
                )
            )
        key, item = steps
        kind = pa.map_(key.field.type, item.field)
        entry = MessageStep((key, item), what=f"{what}[]", is_entry=True)
        return MapField(reader.number, pa.field(reader.name, kind, nullable=False), entry, what)

    def _value(self, writer: FieldDescriptor, reader: FieldDescriptor, what: str, inside: _Inside) -> Value:
        written, read = _NAMES[writer.type], _NAMES[reader.type]
        if read == "group":
            message = f"{what}: a group, or a message with the encoding of a group, which is not supported"
            raise SpecError(message, remedy="leave the field out of the schema: it is then skipped")
        if written != read and not any({written, read} <= alike for alike in _ALIKE):
            raise IncompatibleError(f"{what}: written as {written}, and read as {read}")
        if read == "message":
            return self._message(_inner(writer), _inner(reader), what, inside)
        if read in ("string", "bytes"):
            return TextValue(what) if read == "string" else BytesValue(what)
        coding = _CODINGS[written]
        if read == "enum":
            names = _names(reader)
            return EnumValue(what, coding, names, names.get(0))
        low, high = max(coding.low, _CODINGS[read].low), min(coding.high, _CODINGS[read].high)
        return NumberValue(what, coding, low, high, _COLUMNS[read], read)

    def _message(self, writer: Descriptor, reader: Descriptor, what: str, inside: _Inside) -> Value:
        if reader.full_name in self._as_bytes:
            return BytesValue(what)
        step = self.message(writer, reader, what, inside)
        if reader.full_name == TIMESTAMP:
            return TimestampValue(what, step, self._truncate)
        return WrapperValue(step) if reader.full_name in WRAPPERS else MessageValue(step)


def _remedy(reader: Descriptor) -> str:
    return f"leave the field out of the schema, or keep its bytes: as_bytes: [{reader.full_name}]"


def _names(field: FieldDescriptor) -> dict[int, str]:
    """Return the name of each number of an enum: the first one, if a number has several."""
    assert field.enum_type is not None
    names: dict[int, str] = {}
    for each in field.enum_type.values:
        names.setdefault(each.number, each.name)
    return names


def _inner(field: FieldDescriptor) -> Descriptor:
    assert field.message_type is not None
    return field.message_type


def _is_message(field: FieldDescriptor) -> bool:
    return field.type == FieldDescriptor.TYPE_MESSAGE


def _is_map(field: FieldDescriptor) -> bool:
    return _is_message(field) and bool(_inner(field).GetOptions().map_entry)


def _entry(field: FieldDescriptor) -> tuple[FieldDescriptor, FieldDescriptor]:
    """Return the key and the value of a map."""
    fields = _inner(field).fields_by_name
    return fields["key"], fields["value"]


def _excludes_others(field: FieldDescriptor) -> bool:
    """Whether it is a member of a oneof with several: of these, an absent one has no value."""
    return field.containing_oneof is not None and len(field.containing_oneof.fields) > 1


def _shape(field: FieldDescriptor) -> str:
    """Return how often a message has the field, for messages."""
    if _is_map(field):
        return "a map"
    return "a repeated field" if field.is_repeated else "one value"

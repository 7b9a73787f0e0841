"""Writers of records in each format: this project's encoders, and the libraries that users write with."""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar, Final, Protocol

import fastavro
import pyarrow as pa
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

from connectors.api.decoding import Format
from connectors.api.encoding import Encoder, MessagePart
from connectors.formats.avro.avro_format import AvroFormat
from connectors.formats.avro.avro_rows import AvroRows
from connectors.formats.avro.writers import RegisteredWriters as AvroWriters
from connectors.formats.ddl import parse_ddl
from connectors.formats.json_rows import JsonRows
from connectors.formats.protobuf.compiler import compile_text
from connectors.formats.protobuf.descriptors import needed
from connectors.formats.protobuf.protobuf_format import ProtobufFormat, Reader
from connectors.formats.protobuf.writers import RegisteredWriters as ProtobufWriters
from connectors.formats.registered_json import RegisteredJsonFormat
from connectors.schema_registry.client import Connection
from connectors.schema_registry.registration import Registration
from integration_tests.round_trips.columns import (
    COLUMNS,
    DAY_US,
    FIRST_DAY,
    FIRST_US,
    LAST_US,
    REFUSED,
    Column,
    decimals,
    iso,
    iso_day,
    moment,
)

Row = tuple[int, str, Any]
"""The id of a row, the one column that is not NULL, and its value."""


class RecordWriter(Protocol):
    """Writes rows as the records of one topic."""

    columns: dict[str, Column]
    entry: dict[str, Any]
    """The entry `format` of a spec."""
    absent: ClassVar[Mapping[str, Any]]
    """Values of columns that a record does not have, if they are not NULL."""

    def format(self) -> Format:
        """Return the format that reads the records."""

    def encode(self, rows: Sequence[Row]) -> list[bytes]:
        """Return a record for each row."""


def ddl_of(columns: Mapping[str, Column]) -> str:
    """Return the columns as Spark writes them, and a column `id` in front."""
    return ", ".join(["id BIGINT NOT NULL", *(f"{name} {each.type}" for name, each in columns.items())])


def _but(*without: str, **others: Column) -> dict[str, Column]:
    return {**{name: each for name, each in COLUMNS.items() if name not in without}, **others}


class OurWriter:
    """The encoder of a Kafka sink."""

    absent: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, url: str, topic: str, kind: str) -> None:
        self._is_avro = kind == "avro"
        # JSON has neither bytes nor numbers that are not finite; the sink refuses them before a record is written.
        finite = st.floats(allow_nan=False, allow_infinity=False)
        narrow = st.floats(width=32, allow_nan=False, allow_infinity=False)
        single, real = ([each for each in COLUMNS[name].edges if math.isfinite(each)] for name in ("single", "real"))
        self.columns = (
            dict(COLUMNS)
            if self._is_avro
            else _but(
                *("bytes", "part"),
                single=COLUMNS["single"].but(edges=single, values=narrow),
                real=COLUMNS["real"].but(edges=real, values=finite),
            )
        )
        self._connection = Connection(url)
        self._schema = parse_ddl(ddl_of(self.columns))
        rows = AvroRows if self._is_avro else JsonRows
        opened = rows(Registration(self._connection)).open(MessagePart("s", topic, "value"), self._schema)
        self._encoder: Encoder = opened
        self.entry = {
            "type": kind,
            "encoding": "confluent",
            "registry": {"url": url},
            "schema": opened.used.text if self._is_avro else ddl_of(self.columns),
        }

    def format(self) -> Format:
        if self._is_avro:
            return AvroFormat(self._encoder.used.text, AvroWriters(self._connection))
        return RegisteredJsonFormat(self._schema, self._connection)

    def encode(self, rows: Sequence[Row]) -> list[bytes]:
        arrays = [pa.array([row[0] for row in rows], pa.int64())]
        arrays += [
            _array(each.arrow, [value if column == name else None for _, column, value in rows])
            for name, each in self.columns.items()
        ]
        found: list[bytes] = self._encoder.encode(pa.record_batch(arrays, schema=self._schema)).to_pylist()
        return found


def _array(kind: pa.DataType, values: Sequence[Any]) -> pa.Array:
    """Return a column of values in the form in which they are compared."""
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).view(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).view(kind)
    if pa.types.is_struct(kind):
        parts = [_array(each.type, [value and value[each.name] for value in values]) for each in kind]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=pa.array([value is None for value in values]))
    if pa.types.is_map(kind):
        return pa.array([value if value is None else list(value.items()) for value in values], kind)
    return pa.array(values, kind)


def _logical(kind: str, logical: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical, **more}


_LONG: Final = st.integers(-(2**63), 2**63 - 1)
_PART: Final = {
    "type": "record",
    "name": "Part",
    "fields": [
        {"name": "text", "type": "string"},
        {"name": "day", "type": _logical("int", "date")},
        {"name": "at", "type": _logical("long", "timestamp-micros")},
        {"name": "bytes", "type": "bytes"},
        {"name": "x", "type": "double"},
    ],
}


def _time(micros: int) -> str:
    seconds, rest = divmod(micros, 1_000_000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:06}"


def _of_nanos(nanos: int) -> Any:
    return nanos // 1_000 if nanos % 1_000 == 0 else REFUSED


def _of_millis(millis: int) -> Any:
    return millis * 1_000 if abs(millis) <= (2**63 - 1) // 1_000 else REFUSED


def _avro_columns() -> dict[str, Column]:
    kinds = {
        "yes": "boolean",
        "middle": "int",
        "big": "long",
        "single": "float",
        "real": "double",
        "text": "string",
        "bytes": "bytes",
        "price": _logical("bytes", "decimal", precision=9, scale=2),
        "exact": _logical("bytes", "decimal", precision=38, scale=18),
        "numbers": {"type": "array", "items": "long"},
        "facts": {"type": "map", "values": "boolean"},
        "part": _PART,
    }
    at, day, text = COLUMNS["at"], COLUMNS["day"], COLUMNS["text"]
    far = (*at.edges, 2**63 - 1, -(2**63), FIRST_US - 1, LAST_US + 1)
    nanos = (0, 1, -1, 999, 1_000, -1_000, 2**63 - 1, -(2**63), 2**63 - 808)
    millis = (0, -1, moment(FIRST_DAY) // 1_000, 2**63 - 1, -(2**63), (2**63 - 1) // 1_000)
    times = (0, 1, DAY_US - 1, DAY_US, -1)
    fixed = {"type": "fixed", "name": "Fixed", "size": 16}
    own = {
        "day": day.but(kind=_logical("int", "date"), edges=(*day.edges, 2**31 - 1, -(2**31), FIRST_DAY - 1)),
        "at": at.but(kind=_logical("long", "timestamp-micros"), edges=far, values=at.values | _LONG),
        "local": COLUMNS["local"].but(kind=_logical("long", "local-timestamp-micros"), edges=far),
        "millis": at.but(kind=_logical("long", "timestamp-millis"), edges=millis, values=_LONG, expected=_of_millis),
        "nanos": at.but(kind=_logical("long", "timestamp-nanos"), edges=nanos, values=_LONG, expected=_of_nanos),
        "clock": text.but(
            kind=_logical("long", "time-micros"),
            edges=times,
            values=st.integers(0, DAY_US - 1),
            expected=lambda value: _time(value) if 0 <= value < DAY_US else REFUSED,
        ),
        "uuid": text.but(
            kind=_logical("string", "uuid"), edges=("00000000-0000-0000-0000-000000000000",), values=st.uuids().map(str)
        ),
        "enum": text.but(
            kind={"type": "enum", "name": "E", "symbols": ["A", "B"]}, edges=("A", "B"), values=st.sampled_from("AB")
        ),
        "fixed": decimals(38, 0).but(kind={**fixed, "logicalType": "decimal", "precision": 38, "scale": 0}),
    }
    return {**{name: COLUMNS[name].but(kind=kind) for name, kind in kinds.items()}, **own}


class FastavroWriter:
    """fastavro, which is given numbers of days and of units of time as the specification has them."""

    absent: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, url: str, topic: str) -> None:
        self.columns = _avro_columns()
        fields: list[dict[str, Any]] = [{"name": "id", "type": "long"}]
        fields += [{"name": name, "type": ["null", each.kind]} for name, each in self.columns.items()]
        self._text = json.dumps({"type": "record", "name": "Row", "fields": fields})
        self._id = SchemaRegistryClient({"url": url}).register_schema(f"{topic}-value", Schema(self._text, "AVRO"))
        self._parsed = fastavro.parse_schema(json.loads(self._text))
        self._url = url
        self.entry = {"type": "avro", "encoding": "confluent", "registry": {"url": url}, "schema": self._text}

    def format(self) -> Format:
        return AvroFormat(self._text, AvroWriters(Connection(self._url)))

    def encode(self, rows: Sequence[Row]) -> list[bytes]:
        found = []
        for number, name, value in rows:
            content = io.BytesIO()
            content.write(b"\0" + self._id.to_bytes(4))
            fastavro.schemaless_writer(content, self._parsed, {"id": number, name: self.columns[name].written(value)})
            found.append(content.getvalue())
        return found


def _json_columns() -> dict[str, Column]:
    """Return columns whose `written` gives the text of JSON."""
    text = json.dumps
    single, real = COLUMNS["single"], COLUMNS["real"]
    surrogates = ("\ud800", "a\udfff", "\udc00\ud800")
    part = COLUMNS["part"]
    return {
        **{name: each.but(written=json.dumps) for name, each in COLUMNS.items()},
        "single": single.but(
            written=text, expected=lambda value: value if math.isfinite(value) else REFUSED
        ),  # NaN and Infinity, as Python's json writes them
        "real": real.but(written=text, expected=lambda value: value if math.isfinite(value) else REFUSED),
        "text": COLUMNS["text"].but(
            written=text,
            edges=(*COLUMNS["text"].edges, *surrogates),
            expected=lambda value: REFUSED if any(0xD800 <= ord(each) < 0xE000 for each in value) else value,
        ),
        "bytes": COLUMNS["bytes"].but(written=lambda value: text(base64.b64encode(value).decode())),
        "day": COLUMNS["day"].but(written=lambda days: text(iso_day(days))),
        "at": COLUMNS["at"].but(written=lambda micros: text(iso(micros, "Z"))),
        "local": COLUMNS["local"].but(written=lambda micros: text(iso(micros, ""))),
        "price": COLUMNS["price"].but(written=str),
        "exact": COLUMNS["exact"].but(
            written=lambda value: format(value, "f"),
            edges=(*COLUMNS["exact"].edges, Decimal("1e-19"), Decimal(10) ** 20),
            expected=lambda value: REFUSED if value == Decimal("1e-19") or value.copy_abs() >= 10**20 else value,
        ),
        "part": part.but(written=lambda value: text(part.expected(value))),
    }


class JsonWriter:
    """Python's json, behind the id of a JSON Schema."""

    absent: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, url: str, topic: str) -> None:
        self.columns = _json_columns()
        schema = Schema(json.dumps({"type": "object"}), "JSON")
        self._id = SchemaRegistryClient({"url": url}).register_schema(f"{topic}-value", schema)
        self._url = url
        ddl = ddl_of(self.columns)
        self.entry = {"type": "json", "encoding": "confluent", "registry": {"url": url}, "schema": ddl}

    def format(self) -> Format:
        return RegisteredJsonFormat(parse_ddl(ddl_of(self.columns)), Connection(self._url))

    def encode(self, rows: Sequence[Row]) -> list[bytes]:
        head = b"\0" + self._id.to_bytes(4)
        return [
            head + f'{{"id":{number},"{name}":{self.columns[name].written(value)}}}'.encode()
            for number, name, value in rows
        ]


_MESSAGE: Final = """
syntax = "proto3"; package trips; import "google/protobuf/timestamp.proto";
message Part { string text = 1; bytes bytes = 2; double x = 3; google.protobuf.Timestamp at = 4; }
enum E { A = 0; B = 1; }
message Row {
  int64 id = 1; optional bool yes = 2; optional int32 middle = 3; optional int64 big = 4; optional float single = 5;
  optional double real = 6; optional string text = 7; optional bytes bytes = 8; google.protobuf.Timestamp at = 9;
  optional uint64 unsigned = 10; optional sint64 zigzag = 11; optional sfixed32 fixed = 12; optional E enum = 13;
  repeated int64 numbers = 14; map<string, bool> facts = 15; Part part = 16; optional uint32 half = 17;
}
"""


def _timestamp(nanos_or_micros: tuple[int, int]) -> Any:
    micros, nanos = nanos_or_micros
    return micros if nanos == 0 else REFUSED


def _protobuf_columns() -> dict[str, Column]:
    names = ("yes", "middle", "big", "single", "real", "text", "bytes")
    at, big = COLUMNS["at"], COLUMNS["big"]
    with_nanos = st.tuples(at.values, st.sampled_from([0, 0, 0, 1]))
    unsigned = (0, 1, 2**63, 2**64 - 1)
    return {
        **{name: COLUMNS[name] for name in names},
        "at": at.but(
            edges=[*((each, 0) for each in at.edges), (0, 1), (-1, 999)], values=with_nanos, expected=_timestamp
        ),
        "unsigned": Column("DECIMAL(20,0)", unsigned, st.integers(0, 2**64 - 1), expected=Decimal),
        "zigzag": big,
        "fixed": COLUMNS["middle"],
        "half": Column("BIGINT", (0, 2**32 - 1), st.integers(0, 2**32 - 1)),
        "enum": COLUMNS["text"].but(edges=("A", "B"), values=st.sampled_from("AB")),
        "numbers": COLUMNS["numbers"],
        "facts": COLUMNS["facts"],
        "part": Column(
            "STRUCT<text: STRING, bytes: BINARY, x: DOUBLE, at: TIMESTAMP>",
            [{**each, "at": moment(0, 1)} for each in COLUMNS["part"].edges],
            COLUMNS["part"].values,
            expected=lambda value: {k: v for k, v in COLUMNS["part"].expected(value).items() if k != "day"},
        ),
    }


class ProtobufWriter:
    """Google's library, behind Confluent's header."""

    absent: ClassVar[Mapping[str, Any]] = {"numbers": [], "facts": {}}

    def __init__(self, url: str, topic: str) -> None:
        self.columns = _protobuf_columns()
        self._id = SchemaRegistryClient({"url": url}).register_schema(f"{topic}-value", Schema(_MESSAGE, "PROTOBUF"))
        self._url = url
        self._descriptors = compile_text(_MESSAGE, {})
        pool = DescriptorPool()
        for file in FileDescriptorSet.FromString(self._descriptors).file:
            pool.Add(file)
        self._class: Any = GetMessageClass(pool.FindMessageTypeByName("trips.Row"))
        message = "trips.Row"
        self.entry: dict[str, Any] = {
            "type": "protobuf",
            "message": message,
            "schema": _MESSAGE,
            "encoding": "confluent",
        }
        self.entry |= {"registry": {"url": url}}

    def format(self) -> Format:
        reader = Reader(needed(self._descriptors, "trips.Row"), "trips.Row")
        return ProtobufFormat(reader, ProtobufWriters(Connection(self._url)))

    def encode(self, rows: Sequence[Row]) -> list[bytes]:
        # One index in front of the message, which is 1: the second message of the schema.
        head = b"\0" + self._id.to_bytes(4) + b"\x02\x02"
        return [head + self._message(*row).SerializeToString() for row in rows]

    def _message(self, number: int, name: str, value: Any) -> Any:
        message = self._class(id=number)
        match name:
            case "at":
                _set(message.at, *value)
            case "part":
                message.part.text, message.part.bytes, message.part.x = value["text"], value["bytes"], value["x"]
                _set(message.part.at, value["at"])
            case "numbers":
                message.numbers.extend(value)
            case "facts":
                message.facts.update(value)
            case "enum":
                message.enum = "AB".index(value)
            case _:
                setattr(message, name, value)
        return message


def _set(timestamp: Any, micros: int, nanos: int = 0) -> None:
    timestamp.seconds, rest = divmod(micros, 1_000_000)
    timestamp.nanos = rest * 1_000 + nanos


WRITERS: Final[Mapping[str, Callable[[str, str], RecordWriter]]] = {
    "avro of the sink": lambda url, topic: OurWriter(url, topic, "avro"),
    "avro of fastavro": FastavroWriter,
    "json of the sink": lambda url, topic: OurWriter(url, topic, "json"),
    "json of python": JsonWriter,
    "protobuf of google": ProtobufWriter,
}
"""Each is called with the registry's address and the topic."""

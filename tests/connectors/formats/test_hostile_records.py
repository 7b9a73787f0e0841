"""Records that nobody would write, of every format: each is a row or bad, in bounded time and memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pytest

from connectors.api.decoding import Decoded, Format
from connectors.formats.avro.avro_format import AvroFormat
from connectors.formats.avro.writers import RegisteredWriters as AvroWriters
from connectors.formats.connect_json import ConnectJsonFormat
from connectors.formats.csv.csv_format import CsvFormat
from connectors.formats.csv.fields import Dialect
from connectors.formats.ddl import parse_ddl
from connectors.formats.debezium.avro_events import AvroEvents
from connectors.formats.debezium.debezium_format import DebeziumFormat
from connectors.formats.debezium.json_events import JsonEvents
from connectors.formats.debezium.upsert_format import UpsertFormat
from connectors.formats.json_values import JsonFormat
from connectors.formats.protobuf.protobuf_format import ProtobufFormat
from connectors.formats.protobuf.writers import RegisteredWriters as ProtobufWriters
from connectors.formats.registered_json import RegisteredJsonFormat
from connectors.schema_registry.client import Connection, RegisteredSchema
from tests.connectors.formats.avro.written import record
from tests.connectors.formats.binlog_json.written import canal_format, maxwell_format
from tests.connectors.formats.bounds import MB, bounded
from tests.connectors.formats.debezium.registered import encoded, envelope, event
from tests.connectors.formats.protobuf.written import reader_of
from tests.connectors.schema_registry.known import give_schemas

_REGISTRY: Final = Connection("http://127.0.0.1:1")
_DDL: Final = "id BIGINT NOT NULL, price DECIMAL(38,10), note STRING"
_ROW: Final = parse_ddl(_DDL)
_DEEP: Final = 100_000
_AVRO: Final = record(
    ("id", "long"),
    ("price", ["null", {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10}]),
    ("note", ["null", "string"]),
)
_EVENTS: Final = envelope({"id": "long", "note": ["null", "string"]})
_PROTO: Final = 'syntax = "proto3"; package t; message All { int64 id = 1; string price = 2; string note = 3; }'
_SCHEMAS: Final = {
    7: RegisteredSchema("AVRO", json.dumps(_AVRO)),
    8: RegisteredSchema("AVRO", json.dumps(_EVENTS)),
    9: RegisteredSchema("JSON", '{"type": "object"}'),
    10: RegisteredSchema("PROTOBUF", _PROTO),
}


def _long(number: int) -> bytes:
    """Return a number as Avro writes it, zig-zag."""
    return _varint(number << 1)


def _varint(number: int) -> bytes:
    content = bytearray()
    while number > 0x7F:
        content.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*content, number])


def _sized(content: bytes, size: Callable[[int], bytes]) -> bytes:
    return size(len(content)) + content


@dataclass(frozen=True)
class Subject:
    """A format, and its records in parts."""

    make: Callable[[], Format]
    of_text: Callable[[bytes], bytes]
    """A record with the id 5 and this note, without a price."""
    of_price: Callable[[bytes], bytes] | None = None
    """A record with the id 5 and this text of a JSON number as the price."""
    is_registered: bool = False
    is_nested: bool = True
    """Whether the format has values in values."""


def _json(form: bytes) -> tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]:
    """Return the functions of a document with the row's object in the place of ROW."""
    return (
        lambda note: form.replace(b"ROW", b'{"id":5,"note":"' + note + b'"}'),
        lambda price: form.replace(b"ROW", b'{"id":5,"price":' + price + b"}"),
    )


_NAMES: Final = b'{"database":"shop","table":"orders",'
_FORMATS: Final[dict[str, Subject]] = {
    "json": Subject(lambda: JsonFormat(_ROW), *_json(b"ROW")),
    "json of a registry": Subject(
        lambda: RegisteredJsonFormat(_ROW, _REGISTRY), *_json(b"\0\0\0\0\x09ROW"), is_registered=True
    ),
    "json of Connect": Subject(
        lambda: ConnectJsonFormat(_ROW),
        *_json(
            b'{"schema":{"type":"struct","fields":[{"field":"id","type":"int64"},{"field":"price","type":"double"},'
            b'{"field":"note","type":"string"}]},"payload":ROW}'
        ),
    ),
    "csv": Subject(
        lambda: CsvFormat(_ROW, Dialect(), ""),
        lambda note: b'5,,"' + note + b'"',
        lambda price: b"5," + price + b",",
        is_nested=False,
    ),
    "debezium in json": Subject(
        lambda: DebeziumFormat(_ROW, JsonEvents(_ROW)), *_json(b'{"before":null,"after":ROW,"op":"c","ts_ms":1}')
    ),
    "upsert": Subject(lambda: UpsertFormat(_ROW, JsonEvents(_ROW)), *_json(b"ROW")),
    "maxwell": Subject(lambda: maxwell_format(_DDL), *_json(_NAMES + b'"type":"insert","ts":1,"data":ROW}')),
    "canal": Subject(
        lambda: canal_format(_DDL),
        lambda note: _NAMES + b'"type":"INSERT","es":1,"isDdl":false,"data":[{"id":"5","note":"' + note + b'"}]}',
        lambda price: _NAMES + b'"type":"INSERT","es":1,"isDdl":false,"data":[{"id":"5","price":"' + price + b'"}]}',
    ),
    "avro": Subject(
        lambda: AvroFormat(json.dumps(_AVRO), AvroWriters(_REGISTRY)),
        lambda note: b"\0\0\0\0\x07\x0a\0\x02" + _sized(note, _long),
        is_registered=True,
    ),
    "debezium in avro": Subject(
        lambda: DebeziumFormat(_ROW, AvroEvents(_ROW, AvroWriters(_REGISTRY))),
        lambda note: encoded(8, _EVENTS, event("c", after={"id": 5, "note": note.decode()})),
        is_registered=True,
    ),
    "protobuf": Subject(
        lambda: ProtobufFormat(reader_of(_PROTO).reader, ProtobufWriters(_REGISTRY)),
        lambda note: b"\0\0\0\0\x0a\0\x08\x05\x1a" + _sized(note, _varint),
        is_registered=True,
    ),
}
_EACH: Final = pytest.mark.parametrize("subject", _FORMATS.values(), ids=_FORMATS)


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    give_schemas(monkeypatch, _SCHEMAS)


def _decode(subject: Subject, values: Sequence[bytes]) -> Decoded:
    decoded = subject.make().decode(pa.array(values, pa.binary()))
    decoded.rows.validate(full=True)
    found = {*decoded.record_indices(len(values)).tolist(), *(each.index for each in decoded.bad), *decoded.omitted}
    assert found == set(range(len(values))), "each record is rows, bad or omitted"
    return decoded


@_EACH
def test_a_truncated_record_is_bad(subject: Subject) -> None:
    """At each byte, between whole records."""
    whole = subject.of_text(b"abc")
    values = [each for at in range(len(whole)) for each in (whole, whole[:at])]
    decoded = _decode(subject, values)
    rows = [row for row in decoded.rows.to_pylist() if row["note"] == "abc"]
    assert len(rows) >= len(whole)
    # A shorter record is a whole one of another content in CSV and in Protobuf, and in no other format.
    others = decoded.rows.num_rows - len(whole)
    assert others <= (len(b"abc") + 4 if subject is _FORMATS["csv"] or subject is _FORMATS["protobuf"] else 0)
    assert all(len(each.reason) < 500 for each in decoded.bad)


@_EACH
def test_another_first_byte_is_bad(subject: Subject) -> None:
    whole = subject.of_text(b"abc")
    others = [bytes([first]) + whole[1:] for first in range(256) if first not in (whole[0], 0x20, 0x09, 0x0A, 0x0D)]
    decoded = _decode(subject, [whole, *others, whole])
    if subject is _FORMATS["csv"]:  # its first byte is a digit of the id
        assert decoded.rows.num_rows == 2 + 9
    else:
        assert decoded.rows.num_rows == 2
        assert len(decoded.bad) == len(others)


@pytest.mark.parametrize("subject", [each for each in _FORMATS.values() if each.is_registered])
def test_an_unknown_id_is_bad(subject: Subject) -> None:
    whole = subject.of_text(b"abc")
    values = [whole, *(b"\0" + number.to_bytes(4) + whole[5:] for number in (0, 99, 2**31, 2**32 - 1))]
    decoded = _decode(subject, values)
    assert decoded.rows.num_rows == 1
    assert all(each.reason.endswith("the schema registry does not have it") for each in decoded.bad), decoded.bad


@_EACH
def test_a_number_of_ten_thousand_digits_is_bad(subject: Subject) -> None:
    if subject.of_price is None:  # Avro's are in test_avro_hostile.py, and Protobuf has no decimals
        return
    digits = b"9" * 10_000
    wrong = [digits, b"-" + digits, b"0." + digits, b"1e9999999", b"1e-9999999", b"1E" + digits, digits + b"." + digits]
    wrong += [b"9" * count for count in range(77, 400)]
    with bounded(10, 500 * MB):
        decoded = _decode(
            subject, [each for price in wrong for each in (subject.of_price(price), subject.of_text(b"x"))]
        )
    assert [row["note"] for row in decoded.rows.to_pylist()] == ["x"] * len(wrong)
    assert len(decoded.bad) == len(wrong)


@_EACH
def test_values_in_values_are_bad(subject: Subject) -> None:
    """100,000 levels, where a value is expected and where a record is."""
    inner = [b"[" * _DEEP + b"]" * _DEEP, b'{"a":' * _DEEP + b"1" + b"}" * _DEEP, b"[" * _DEEP, b'{"a":' * _DEEP]
    values = [*inner, subject.of_text(b"x")]
    if subject.of_price is not None and subject.is_nested and subject is not _FORMATS["canal"]:
        values += map(subject.of_price, inner)
    with bounded(20, 500 * MB):
        decoded = _decode(subject, values)
    assert [row["note"] for row in decoded.rows.to_pylist()] == ["x"]
    assert len(decoded.bad) == len(values) - 1
    assert all(len(each.reason) < 1_000 for each in decoded.bad)


@pytest.mark.search(3)
@_EACH
def test_a_record_of_a_hundred_megabytes_is_a_row_or_bad(subject: Subject) -> None:
    """Whole, cut off, and with a byte that is not UTF-8 in its middle. The records around it are rows."""
    size = 100 * MB
    whole, small = subject.of_text(b"a" * size), subject.of_text(b"x")
    middle = whole.index(b"a" * 1_000) + size // 2
    with bounded(60, 1_500 * MB):
        decoded = _decode(subject, [small, whole, small])
        assert decoded.bad == ()
        assert [len(each) for each in decoded.rows.column("note").to_pylist()] == [1, size, 1]
    for wrong in (whole[:middle], whole[:middle] + b"\xff" + whole[middle + 1 :]):
        with bounded(60, 1_500 * MB):
            decoded = _decode(subject, [small, wrong, small])
        assert [row["note"] for row in decoded.rows.to_pylist()] == ["x", "x"]
        assert [each.index for each in decoded.bad] == [1]
        assert len(decoded.bad[0].reason) < 1_000


_ROWS: Final = 300_000


def _canal(data: str, kind: str = "INSERT", old: str = "null") -> bytes:
    return _NAMES + f'"type":"{kind}","es":1,"isDdl":false,"data":[{data}],"old":[{old}]}}'.encode()


@pytest.mark.parametrize(
    ("value", "rows", "reason"),
    [
        (lambda: _canal(",".join(f'{{"id":"{n}"}}' for n in range(_ROWS))), _ROWS, ""),
        (
            lambda: _canal(
                ",".join(f'{{"id":"{n}"}}' for n in range(_ROWS)),
                "UPDATE",
                ",".join(f'{{"id":"{n + _ROWS}"}}' for n in range(_ROWS)),
            ),
            2 * _ROWS,
            "",
        ),
        (lambda: _canal(",".join(f'{{"id":"x{n}"}}' for n in range(_ROWS))), 0, "id: does not fit BIGINT"),
        (lambda: _canal(",".join(["{}"] * _ROWS)), 0, "id is NOT NULL"),
        (lambda: _canal(",".join(["null"] * _ROWS)), 0, "a row of `data` is null"),
        (lambda: _canal(",".join([f'{{"id":"{n}"}}' for n in range(_ROWS)] + ['{"id":7}'])), 0, "expected string"),
        (lambda: _canal(",".join(f'{{"id":"{n}"}}' for n in range(_ROWS)))[:-9], 0, "not valid JSON"),
        (lambda: _canal(",".join(['{"id":"1"}'] * _ROWS), "UPDATE", '{"id":"1"}'), 0, "`old` has another number"),
    ],
    ids=["rows", "keys", "no numbers", "empty", "nulls", "the last", "cut off", "uneven"],
)
def test_a_document_with_hundreds_of_thousands_of_rows(value: Callable[[], bytes], rows: int, reason: str) -> None:
    subject = _FORMATS["canal"]
    small = subject.of_text(b"x")
    with bounded(30, 1_500 * MB):
        decoded = _decode(subject, [small, value(), small])
    assert decoded.rows.num_rows == 2 + rows
    assert [each.index for each in decoded.bad] == [1] * (rows == 0)
    assert all(reason in each.reason and len(each.reason) < 500 for each in decoded.bad)

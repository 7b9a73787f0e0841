"""Records of each format as bytes: the rows of the comparison in JSON, and changes of these rows."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from benchmarks.bench.formats.changes import DELETED, OPERATIONS, Changes
from benchmarks.bench.topic import AMOUNTS, PARTITIONS, USERS

_TIME_S: Final = 1_795_219_200  # 2026-11-21T00:00:00Z
_FILE: Final = "binlog.000003"
_FIRST_POSITION: Final = 157
_BYTES_OF_EVENT: Final = 300  # in the binlog


class Record(NamedTuple):
    """One record of a topic."""

    partition: int
    key: bytes | None
    value: bytes | None


def framed(schema_id: int) -> bytes:
    """Return the bytes in front of a record: zero, and the id of its schema."""
    return b"\0" + schema_id.to_bytes(4)


def avro_rows(count: int, schema_id: int) -> Iterator[Record]:
    """Yield the rows in Avro."""
    head, end = framed(schema_id), b"\x02" + _varint(2 * 1000 * _TIME_S)
    users = [b"\x02" + _avro_text(_user(number)) for number in range(USERS)]
    amounts = [b"\x02" + struct.pack("<d", number + 0.25) for number in range(AMOUNTS)]
    for n in range(count):
        yield Record(
            n % PARTITIONS, None, b"%b%b%b%b%b" % (head, _varint(2 * n), users[n % USERS], amounts[n % AMOUNTS], end)
        )


def protobuf_rows(count: int, schema_id: int | None) -> Iterator[Record]:
    """Yield the rows in Protobuf. Behind the id is the index of the message in its schema: 0. None: no id in front."""
    head = b"" if schema_id is None else framed(schema_id) + b"\0"
    timestamp = b"\x08" + _varint(_TIME_S)
    end = b"\x22" + _varint(len(timestamp)) + timestamp
    users = [b"\x12" + _varint(len(_user(number))) + _user(number) for number in range(USERS)]
    amounts = [b"\x19" + struct.pack("<d", number + 0.25) for number in range(AMOUNTS)]
    for n in range(count):
        number = b"\x08" + _varint(n) if n else b""
        yield Record(n % PARTITIONS, None, b"%b%b%b%b%b" % (head, number, users[n % USERS], amounts[n % AMOUNTS], end))


def json_events(changes: Changes) -> Iterator[Record]:
    """Yield the change events in JSON without schemas, as Debezium's connector for MySQL writes them.

    A tombstone follows each deletion.
    """
    row = '{"id":%d,"user":"user-%d","amount":%d.25,"ts":' + f"{_TIME_S}000000}}"
    event = (
        '{"before":%s,"after":%s,"source":{"version":"3.5.0.Final","connector":"mysql","name":"shop","ts_ms":%d000,'
        '"snapshot":"false","db":"shop","sequence":null,"ts_us":%d000000,"ts_ns":%d000000000,"table":"compared",'
        f'"server_id":223344,"gtid":null,"file":"{_FILE}","pos":%d,"row":0,"thread":7,"query":null}},'
        '"transaction":null,"op":"%s","ts_ms":%d120,"ts_us":%d120345,"ts_ns":%d120345678}'
    )
    for n, (operation, key, before, after) in enumerate(_values(changes)):
        user, at, named = key % USERS, _TIME_S + n // 1000, b'{"id":%d}' % key
        values = ["null" if amount < 0 else row % (key, user, amount) for amount in (before, after)]
        text = event % (*values, at, at, at, _position(n), OPERATIONS[operation], at, at, at)
        yield Record(n % PARTITIONS, named, text.encode())
        if operation == DELETED:
            yield Record(n % PARTITIONS, named, None)


def avro_events(changes: Changes, key_id: int, value_id: int) -> Iterator[Record]:
    """Yield the same events in Avro, as Connect's AvroConverter writes them."""
    key_head, head = framed(key_id), framed(value_id)
    users = [b"\x02" + _avro_text(_user(number)) for number in range(USERS)]
    amounts = [b"\x02" + struct.pack("<d", number + 0.25) for number in range(AMOUNTS)]
    row_end = b"\x02" + _varint(2 * 1_000_000 * _TIME_S)
    origin = b"".join(map(_avro_text, (b"3.5.0.Final", b"mysql", b"shop")))
    place = b"\0" + _avro_text(b"false") + _avro_text(b"shop") + b"\0"  # `snapshot` to `sequence`
    server = b"\x02" + _avro_text(b"compared") + _varint(2 * 223_344) + b"\0" + _avro_text(_FILE.encode())
    source_end = b"\0" + b"\x02" + _varint(2 * 7) + b"\0" + b"\0"  # `row`, `thread`, `query`; and `transaction`
    operations = [_avro_text(operation.encode()) for operation in OPERATIONS]
    last_at, of_source, of_event = 0, b"", b""
    for n, (operation, key, before, after) in enumerate(_values(changes)):
        at = _TIME_S + n // 1000
        if at != last_at:
            last_at = at
            millis, micros, nanos = (_varint(2 * unit * at) for unit in (1000, 1_000_000, 1_000_000_000))
            of_source = origin + millis + place + b"\x02" + micros + b"\x02" + nanos + server
            later = (at * 1000 + 120, at * 1_000_000 + 120_345, at * 1_000_000_000 + 120_345_678)
            of_event = b"".join(b"\x02" + _varint(2 * each) for each in later)
        named = _varint(2 * key)
        start = b"\x02" + named + users[key % USERS]
        values = [b"\0" if amount < 0 else start + amounts[amount] + row_end for amount in (before, after)]
        position = _varint(2 * _position(n))
        yield Record(
            n % PARTITIONS,
            key_head + named,
            b"".join((head, *values, of_source, position, source_end, operations[operation], of_event)),
        )
        if operation == DELETED:
            yield Record(n % PARTITIONS, key_head + named, None)


def _values(changes: Changes) -> Iterator[tuple[int, int, int, int]]:
    columns = (changes.operations, changes.ids, changes.before, changes.after)
    return zip(*(column.tolist() for column in columns), strict=True)


def _position(number: int) -> int:
    return _FIRST_POSITION + _BYTES_OF_EVENT * number


def _user(number: int) -> bytes:
    return b"user-%d" % number


def _avro_text(text: bytes) -> bytes:
    return _varint(2 * len(text)) + text


def _varint(number: int) -> bytes:
    """Encode a number that is not negative. Avro's numbers are doubled before: the last bit is the sign."""
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)

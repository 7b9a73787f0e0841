"""Records and schemas that a producer wrote by mistake or on purpose."""

from __future__ import annotations

import decimal
import json
import time
from typing import Any, Final

import pytest

from connectors.formats.avro import cursor
from connectors.formats.avro.avro_format import AvroFormat
from connectors.formats.avro.writers import OneWriter
from eos.errors import SpecError
from tests.connectors.formats.avro.written import decode, encode, record

_BEHIND: Final = ("behind", "long")


def _bad(schema: Any, content: bytes) -> str:
    """Return why the one record is bad."""
    decoded = decode(schema, [content])
    assert decoded.rows.num_rows == 0
    (bad,) = decoded.bad
    return bad.reason


@pytest.mark.parametrize(
    ("kind", "content", "reason"),
    [
        ("int", b"\xff\xff\xff\xff\xff\x01", "f: a number out of the range of its type"),
        ("int", b"", "f: the record ends too early"),
        ("long", b"\x80" * 3, "f: the record ends too early"),
        ("long", b"\xff" * 9 + b"\x02", "f: a number has more than 64 bits"),
        ("long", b"\xff" * 12, "f: a number has more than 64 bits"),
        ("boolean", b"\x02", "f: neither true nor false"),
        ("double", b"1234567", "f: the record ends too early"),
        ("string", b"\x04a", "f: the record ends before the value"),
        ("string", b"\x01", "f: a negative length"),
        ("string", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01a", "f: the record ends before the value"),
        ("string", b"\x04\xff\xfe", "f: not UTF-8"),
        ("string", b"\x02ab", "1 bytes follow the last field"),
        (["null", "long"], b"\x04", "f: a union has no such branch"),
        (["null", "long"], b"\x01", "f: a union has no such branch"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "f: not one of 1 symbols"),
        ({"type": "array", "items": "long"}, b"\xfe\xff\xff\xff\x0f", "f: more items than the record has bytes for"),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\x0f\0", "f: more items than the record has bytes for"),
        ({"type": "array", "items": "long"}, b"\x02\x02", "f: the record ends too early"),
        ({"type": "array", "items": "long"}, b"\x04\x02\xff", "f[]: the record ends too early"),
        (
            {"type": "array", "items": "long"},
            b"\x04\x02" + b"\xff" * 9 + b"\x02\0",
            "f[]: a number has more than 64 bits",
        ),
        (
            {"type": "array", "items": "int"},
            b"\x02\xff\xff\xff\xff\xff\x01\0",
            "f[]: a number out of the range of its type",
        ),
        ({"type": "array", "items": "double"}, b"\x04" + bytes(12), "f: more items than the record has bytes for"),
        ({"type": "array", "items": "boolean"}, b"\x04\x01\x02\0", "f[]: neither true nor false"),
        ({"type": "map", "values": "long"}, b"\x02\x02\xff\x02\0", "f: not UTF-8"),
        ({"type": "int", "logicalType": "time-millis"}, b"\x01", "f: a number out of the range of its type"),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            b"\xfe" + b"\xff" * 8 + b"\x01",
            "f: a number out of the range of its type",
        ),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, b"\x00", "f: a decimal without bytes"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, b"\x02\x64", "f: more than 2 digits"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, b"\x02\x9c", "f: more than 2 digits"),
    ],
)
def test_each_fault_is_named(kind: Any, content: bytes, reason: str) -> None:
    assert _bad(record(("f", kind)), content) == reason


def test_a_fault_in_a_deep_place_is_named() -> None:
    inner = record(("b", {"type": "map", "values": ["null", "boolean"]}), name="Inner")
    schema = record(("a", {"type": "array", "items": inner}))
    content = encode(schema, {"a": [{"b": {}}, {"b": {"key": True}}]})
    assert _bad(schema, content.replace(b"\x01", b"\x07")) == "a[].b{}: neither true nor false"


def test_items_that_are_read_one_after_another_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that a record has, in each of its arrays: each costs a step, whatever the number of records. Not so numbers
    that are read at once."""
    monkeypatch.setattr(cursor, "MOST_ITEMS", 11)
    pair = record(("n", {"type": "array", "items": record(("i", "int"), name="Inner")}), name="Pair")
    schema = record(("f", {"type": "array", "items": pair}), ("g", {"type": "array", "items": "int"}))

    def of(outer: int, inner: int, numbers: int = 0) -> bytes:
        return encode(schema, {"f": [{"n": [{"i": 1}] * inner}] * outer, "g": [7] * numbers})

    written = [of(2, 4), of(2, 5), of(12, 0), of(2, 4, 1_000), of(1, 10)]
    decoded = decode(schema, written)
    assert [len(row["f"][0]["n"]) for row in decoded.rows.to_pylist()] == [4, 4, 10]
    assert [(each.index, each.reason) for each in decoded.bad] == [
        (1, "f[].n: the record has more than 11 items"),
        (2, "f: the record has more than 11 items"),
    ]


def test_blocks_of_numbers_are_bounded_and_numbers_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read and skipped. A block is as many bytes as a number, and costs a step."""
    monkeypatch.setattr(cursor, "MOST_ITEMS", 10)
    for kind, value in (("int", b"\x0e"), ("double", bytes(8)), ("boolean", b"\x01")):
        writer = record(("f", {"type": "array", "items": kind}), _BEHIND)
        one_by_one, at_once = (b"\x02" + value) * 10, b"\xc8\x01" + value * 100
        sized = b"\xc7\x01" + bytes([len(value) * 200 & 0x7F | 0x80, len(value) * 200 >> 7]) + value * 100
        written = [blocks + b"\0\x02" for blocks in (one_by_one, b"\x02" + value + one_by_one, at_once, sized)]
        for reader in (writer, record(_BEHIND)):
            decoded = decode(reader, written, writer)
            assert decoded.rows.column("behind").to_pylist() == [1, 1, 1]
            if reader is writer:
                assert [len(each) for each in decoded.rows.column("f").to_pylist()] == [10, 100, 100]
            assert [(each.index, each.reason) for each in decoded.bad] == [(1, "f: the record has more than 10 items")]


def test_a_hundred_thousand_records_in_a_record_and_one_more() -> None:
    schema = record(("f", {"type": "array", "items": record(("i", "int"), name="Inner")}))
    began = time.monotonic()
    assert _bad(schema, encode(schema, {"f": [{"i": 1}] * 100_001})) == "f: the record has more than 100,000 items"
    assert time.monotonic() - began < 10


def test_a_decimal_of_ten_thousand_digits() -> None:
    """One that has so many bytes and few digits is a value."""
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0}
    schema = record(("f", kind))
    huge = (10**10_000).to_bytes(4_200)
    padded = (-7).to_bytes(4_200, signed=True)
    written = [encode(record(("f", "bytes")), {"f": each}) for each in (huge, padded, b"\x80" + bytes(15), b"\x05")]
    decoded = decode(schema, written)
    assert decoded.rows.column("f").to_pylist() == [decimal.Decimal(-7), decimal.Decimal(5)]
    assert [(each.index, each.reason) for each in decoded.bad] == [
        (0, "f: more than 38 digits"),
        (2, "f: more than 38 digits"),
    ]


def test_a_type_in_itself_can_be_skipped_to_a_depth() -> None:
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    writer = record(("tree", node), _BEHIND)

    def tree(depth: int) -> Any:
        value: Any = None
        for _ in range(depth):
            value = {"next": value}
        return {"tree": value, "behind": depth}

    written = [encode(writer, tree(10)), b"\x02" * 100_000 + b"\0\x02", encode(writer, tree(20))]
    decoded = decode(record(_BEHIND), written, writer)
    assert decoded.rows.column("behind").to_pylist() == [10, 20]
    assert [each.reason for each in decoded.bad] == ["tree: nested deeper than 64 levels"]


def test_a_type_in_itself_is_no_column() -> None:
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    with pytest.raises(SpecError, match="Node contains itself"):
        _ = AvroFormat(json.dumps(node), OneWriter("")).schema


def test_a_short_schema_with_many_columns_is_refused() -> None:
    """Each level doubles them."""
    kind: Any = record(("x", "int"), name="L0")
    for level in range(1, 40):
        kind = record(("a", kind), ("b", f"L{level - 1}"), name=f"L{level}")
    began = time.monotonic()
    with pytest.raises(SpecError, match="more than 10,000 fields"):
        _ = AvroFormat(json.dumps(kind), OneWriter("")).schema
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "3",
        "null",
        '{"type": "record"}',
        '"unknown"',
        '["null", ["null"]]',
        '{"type": "fixed", "name": "F"}',
        "[" * 100_000,
    ],
)
def test_a_text_that_is_no_schema(text: str) -> None:
    with pytest.raises(SpecError, match="Avro schema"):
        _ = AvroFormat(text, OneWriter(text)).schema


def test_a_precision_that_spark_has_not() -> None:
    schema = record(("f", {"type": "bytes", "logicalType": "decimal", "precision": 65, "scale": 30}))
    with pytest.raises(SpecError, match="65 digits"):
        _ = AvroFormat(json.dumps(schema), OneWriter("")).schema


def _doubled(levels: int, leaf: str) -> dict[str, Any]:
    """A short schema that names each type twice."""
    inner: Any = leaf
    for level in range(levels):
        first = {"name": "a", "type": inner}
        inner = {"type": "record", "name": f"R{level}", "fields": [first, {"name": "b", "type": _name(inner)}]}
    return record(("n", "long"), ("skipped", inner))


def _name(kind: Any) -> Any:
    return kind["name"] if isinstance(kind, dict) else kind


@pytest.mark.parametrize("leaf", ["null", "int"])
def test_a_field_that_is_skipped_has_a_bounded_number_of_parts(leaf: str) -> None:
    with pytest.raises(SpecError, match="skipped: the fields that are skipped up to here have more than 10,000 parts"):
        decode(record(("n", "long")), [], _doubled(40, leaf))
    assert decode(record(("n", "long")), [b"\2" + b"\2" * 64], _doubled(6, "int")).bad == ()


@pytest.mark.parametrize(("truncate", "whole"), [(False, 1), (True, 2)])
def test_nanoseconds(truncate: bool, whole: int) -> None:
    """They are refused where there are any, or cut off towards the past."""
    schema = record(("f", {"type": "long", "logicalType": "timestamp-nanos"}))
    written = [encode(record(("f", "long")), {"f": nanos}) for nanos in (-1_000, -1)]
    decoded = decode(schema, written, truncate=truncate)
    micros = [round(each.timestamp() * 1e6) for each in decoded.rows.column("f").to_pylist()]
    assert micros == [-1] * whole
    assert [each.reason for each in decoded.bad] == ["f: has nanoseconds, and the column microseconds"] * (2 - whole)


def test_the_items_of_a_bad_record_are_not_those_of_its_neighbours() -> None:
    schema = record(("f", {"type": "array", "items": "long"}), _BEHIND)
    written = [encode(schema, {"f": list(range(at * 100, at * 100 + at)), "behind": at}) for at in range(40)]
    for at in range(1, 40, 3):
        written[at] = b"\x08\x02\x80\x80"
    decoded = decode(schema, written)
    assert [each.index for each in decoded.bad] == list(range(1, 40, 3))
    good = [at for at in range(40) if at % 3 != 1]
    assert decoded.rows.to_pylist() == [{"f": list(range(at * 100, at * 100 + at)), "behind": at} for at in good]


def test_of_two_equal_keys_of_a_map_the_later_counts() -> None:
    schema = record(("f", {"type": "map", "values": "long"}), _BEHIND)
    decoded = decode(schema, [b"\x06\x02a\x02\x02b\x04\x02a\x06\0\x0a", b"\x02\x02a\x08\0\x0a"])
    assert decoded.rows.to_pylist() == [{"f": [("b", 2), ("a", 3)], "behind": 5}, {"f": [("a", 4)], "behind": 5}]


def test_an_array_in_blocks_with_sizes() -> None:
    schema = record(("f", {"type": "array", "items": "string"}), _BEHIND)
    decoded = decode(schema, [b"\x03\x08\x02a\x02b\x02\x02c\0\x0a", b"\0\x0a", b"\x02\x02d\x01\x04\x02e\0\x0a"])
    assert decoded.rows.to_pylist() == [
        {"f": ["a", "b", "c"], "behind": 5},
        {"f": [], "behind": 5},
        {"f": ["d", "e"], "behind": 5},
    ]

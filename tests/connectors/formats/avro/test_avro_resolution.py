"""How records of one schema are read with another: Avro's rules, and where they are refused."""

from __future__ import annotations

import io
import random
from typing import Any, Final

import fastavro
import pyarrow as pa
import pytest

from eos.errors import SpecError
from tests.connectors.formats.avro.written import decode, encode, record

_ENUM: Final = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
_WIDER: Final = {"type": "enum", "name": "E", "symbols": ["B", "C", "A"]}


def _read(writer: Any, reader: Any, *values: Any) -> list[Any]:
    schema = record(("f", writer), ("behind", "long"))
    written = [encode(schema, {"f": value, "behind": 7}) for value in values]
    decoded = decode(record(("f", reader), ("behind", "long")), written, schema)
    assert decoded.bad == ()
    assert decoded.rows.column("behind").to_pylist() == [7] * len(values)
    return list(decoded.rows.column("f").to_pylist())


@pytest.mark.parametrize(
    ("writer", "reader", "values", "expected"),
    [
        ("int", "long", [1, -1], [1, -1]),
        ("int", "float", [1, -3], [1.0, -3.0]),
        ("int", "double", [2**31 - 1], [2.0**31 - 1]),
        ("long", "float", [2**40], [2.0**40]),
        ("long", "double", [-5], [-5.0]),
        ("float", "double", [0.5], [0.5]),
        ("string", "bytes", ["ä"], ["ä".encode()]),
        ("bytes", "string", ["ä".encode()], ["ä"]),
        ("long", ["null", "long"], [3], [3]),
        (["null", "long"], "long", [3], [3]),
        (["null", "int"], ["null", "long"], [3, None], [3, None]),
        (["int", "null"], ["null", "double"], [3, None], [3.0, None]),
        (["null", "string", "int"], ["null", "string"], ["a", None], ["a", None]),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, [[1, 2], []], [[1, 2], []]),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "double"}, [{"a": 1}], [[("a", 1.0)]]),
        (_ENUM, _WIDER, ["A", "B"], ["A", "B"]),
        (_WIDER, {**_ENUM, "default": "B"}, ["A", "C"], ["A", "B"]),
        (
            "long",
            {"type": "long", "logicalType": "local-timestamp-micros"},
            [0],
            [pa.scalar(0, pa.timestamp("us")).as_py()],
        ),
        ("string", ["null", "bytes", "string"], ["a"], [{"member_bytes": None, "member_string": "a"}]),
        ("int", ["string", "double"], [1], [{"member_string": None, "member_double": 1.0}]),
        (
            ["null", "string", "int"],
            ["null", "string", "long"],
            ["a", 1, None],
            [{"member_string": "a", "member_long": None}, {"member_string": None, "member_long": 1}, None],
        ),
    ],
)
def test_types_that_match(writer: Any, reader: Any, values: list[Any], expected: list[Any]) -> None:
    assert _read(writer, reader, *values) == expected


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        ("long", "int"),
        ("double", "float"),
        ("string", "long"),
        ("boolean", "int"),
        ({"type": "fixed", "name": "F", "size": 2}, {"type": "fixed", "name": "F", "size": 3}),
        ({"type": "fixed", "name": "F", "size": 2}, {"type": "fixed", "name": "G", "size": 2}),
        (_ENUM, {**_ENUM, "name": "Other"}),
        ({"type": "array", "items": "string"}, {"type": "array", "items": "int"}),
        ({"type": "long", "logicalType": "timestamp-millis"}, {"type": "long", "logicalType": "timestamp-micros"}),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
        ),
        (["null", "string"], "long"),
    ],
)
def test_types_that_do_not_match_are_refused_with_the_place(writer: Any, reader: Any) -> None:
    with pytest.raises(SpecError, match="cannot be read with the reader's: f"):
        decode(record(("f", reader)), [], record(("f", writer)))


def test_a_branch_that_the_reader_cannot_take_is_a_bad_record() -> None:
    writer, reader = record(("f", ["null", "string", "int"])), record(("f", "string"))
    decoded = decode(reader, [encode(writer, {"f": value}) for value in ("a", 1, None, "b")], writer)
    assert decoded.rows.column("f").to_pylist() == ["a", "b"]
    assert [(each.index, each.reason) for each in decoded.bad] == [
        (1, "f: written as int, and read as string"),
        (2, "f: written as null, and read as string"),
    ]


def test_a_symbol_that_the_reader_lacks_is_a_bad_record() -> None:
    writer, reader = record(("f", _WIDER)), record(("f", _ENUM))
    decoded = decode(reader, [encode(writer, {"f": value}) for value in "ACB"], writer)
    assert decoded.rows.column("f").to_pylist() == ["A", "B"]
    assert [(each.index, each.reason) for each in decoded.bad] == [(1, "f: the reader's schema has no symbol C")]


def test_fields_by_name_alias_and_default() -> None:
    """In another order; those that only the writer has are stepped over, whatever they are."""
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    unread = record(("a", "string"), ("b", {"type": "array", "items": ["null", "double"]}), ("c", "boolean"), name="X")
    writer = record(("tree", node), ("old", "int"), ("unread", unread), ("kept", "string"))
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    reader = {
        "type": "record",
        "name": "Other",
        "fields": [
            {"name": "kept", "type": "string"},
            {"name": "new", "type": "long", "aliases": ["old"]},
            {"name": "words", "type": {"type": "array", "items": "string"}, "default": ["x", "y"]},
            {"name": "price", "type": decimal, "default": "\u0001\u0002"},
            {"name": "note", "type": ["null", "string"], "default": None},
            {"name": "inner", "type": record(("n", "int"), name="Inner"), "default": {"n": 5}},
        ],
    }
    value = {
        "tree": {"next": {"next": {"next": None}}},
        "old": 3,
        "unread": {"a": "abc", "b": [1.0, None, 2.0], "c": True},
        "kept": "k",
    }
    decoded = decode(reader, [encode(writer, value)] * 2, writer)
    (row, other) = decoded.rows.to_pylist()
    assert row == other
    assert str(row.pop("price")) == "2.58"
    assert row == {"kept": "k", "new": 3, "words": ["x", "y"], "note": None, "inner": {"n": 5}}


def test_a_field_without_a_default_must_be_written() -> None:
    with pytest.raises(SpecError, match="missing: the writer's schema lacks it, and the reader's has no default"):
        decode(record(("f", "int"), ("missing", "int")), [], record(("f", "int")))


def test_a_wrong_default_is_refused() -> None:
    reader = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int", "default": "three"}]}
    with pytest.raises(SpecError):
        decode(reader, [], record(("f", "int")))


@pytest.mark.parametrize("kind", ["long", "string", ["null", "double"], {"type": "array", "items": "int"}])
def test_a_schema_that_is_no_record_has_one_column(kind: Any) -> None:
    values: dict[str, list[Any]] = {"long": [1, 2], "string": ["a", "b"]}
    given = values.get(str(kind), [None, 0.5] if isinstance(kind, list) else [[1], []])
    decoded = decode(kind, [encode(kind, value) for value in given])
    assert decoded.rows.schema.names == ["value"]
    assert decoded.rows.column("value").to_pylist() == given


@pytest.mark.parametrize("seed", range(20))
def test_as_fastavro_resolves(seed: int) -> None:
    """A reader with some of the writer's fields, in another order, each of a type that takes it."""
    chance = random.Random(seed)
    types: dict[str, tuple[list[Any], Any]] = {
        "int": (["int", "long", "double", ["null", "int"], ["null", "long"]], lambda: chance.randrange(-9, 9)),
        "long": (["long", "double", ["null", "long"]], lambda: chance.randrange(-(2**40), 2**40)),
        "string": (["string", ["null", "string"], "bytes"], lambda: chance.choice(["", "a", "ß"])),
        "float": (["float", "double"], lambda: float(chance.randrange(100))),
    }
    names = {f"f{at}": chance.choice(list(types)) for at in range(8)}
    writer = record(*names.items())
    chosen = chance.sample(list(names), 5)
    reader = record(*((name, chance.choice(types[names[name]][0])) for name in chosen))
    rows = [{name: types[kind][1]() for name, kind in names.items()} for _ in range(50)]
    written = [encode(writer, row) for row in rows]
    decoded = decode(reader, written, writer)
    parsed = fastavro.parse_schema(writer), fastavro.parse_schema(reader)
    assert decoded.rows.to_pylist() == [fastavro.schemaless_reader(io.BytesIO(each), *parsed) for each in written]

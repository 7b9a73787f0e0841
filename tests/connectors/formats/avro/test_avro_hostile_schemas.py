"""Schemas in a registry that nobody would write: their records are rows, or bad for a reason, in bounded time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pytest

from connectors.api.decoding import Decoded
from connectors.formats.avro.avro_format import AvroFormat
from connectors.formats.avro.inlining import inlined
from connectors.formats.avro.nodes import DEEPEST, parse_schema
from connectors.formats.avro.self_describing import SelfDescribingAvro
from connectors.formats.avro.writers import OneWriter, RegisteredWriters
from connectors.formats.ddl import parse_ddl
from connectors.formats.debezium.avro_events import AvroEvents
from connectors.formats.debezium.debezium_format import DebeziumFormat
from connectors.schema_registry.client import Connection, RegisteredSchema
from eos.errors import SpecError
from tests.connectors.formats.avro.written import decode, record
from tests.connectors.formats.bounds import MB, bounded
from tests.connectors.formats.debezium.registered import encoded, envelope, event
from tests.connectors.formats.tables import bad as bad_of_tables
from tests.connectors.formats.tables import decode_tables
from tests.connectors.schema_registry.known import give_schemas

_WRITERS: Final = RegisteredWriters(Connection("http://127.0.0.1:1"))
_READER: Final = json.dumps(record(("n", "long")))
_MANY: Final = 1_000_000
_DEEP: Final = 10_000


def _beside(kind: str) -> str:
    """A record with the field n, and a field of this type behind it."""
    return f'{{"type":"record","name":"R","fields":[{{"name":"n","type":"long"}},{{"name":"other","type":{kind}}}]}}'


def _arrays(levels: int) -> str:
    return '{"type":"array","items":' * levels + '"int"' + "}" * levels


def _records(levels: int) -> str:
    kind = '"int"'
    for level in range(levels):
        kind = f'{{"type":"record","name":"L{level}","fields":[{{"name":"x","type":{kind}}}]}}'
    return kind


def _chain(levels: int) -> str:
    """Flat text, in which each record names the one before: all of them are a branch of one union."""
    branches: list[Any] = [record(("x", "int"), name="L0")]
    branches += [record(("x", f"L{level - 1}"), name=f"L{level}") for level in range(1, levels)]
    return json.dumps(branches)


def _doubled(levels: int) -> str:
    kind: Any = record(("x", "int"), name="L0")
    for level in range(1, levels):
        kind = record(("a", kind), ("b", f"L{level - 1}"), name=f"L{level}")
    return json.dumps(kind)


def _forked(levels: int) -> str:
    """Unions of two records, of which the second holds the next union."""
    kind: Any = "int"
    for level in range(levels):
        kind = ["null", record(("x", "string"), name=f"S{level}"), record(("x", kind), name=f"L{level}")]
    return json.dumps(kind)


def _enum(symbols: int) -> str:
    return json.dumps({"type": "enum", "name": "E", "symbols": [f"s{at}" for at in range(symbols)]})


def _fields(count: int) -> str:
    return json.dumps(record(("n", "long"), *((f"f{at}", "int") for at in range(1, count))))


@dataclass(frozen=True)
class Hostile:
    """A schema, and why its records are bad where the spec has a schema, and where each record is its own table."""

    text: Callable[[], str]
    given: str
    tables: str


_TOO_DEEP: Final = "it cannot be read: the Avro schema is nested too deeply"
_TOO_LARGE: Final = "it cannot be read: the Avro schema has more than 50,000 parts"
_CANNOT: Final = "it cannot be read: not an Avro schema"
_SKIPPED: Final = "other: the fields that are skipped up to here have more than 10,000 parts"
_COLUMNS: Final = "the Avro schema has more than 10,000 fields"
_DEEP_COLUMNS: Final = f"the Avro schema has columns that are nested deeper than {DEEPEST} levels"

_HOSTILE: Final[dict[str, Hostile]] = {
    "arrays in arrays": Hostile(lambda: _beside(_arrays(_DEEP)), _TOO_DEEP, _TOO_DEEP),
    "some more arrays in arrays": Hostile(lambda: _beside(_arrays(600)), _TOO_DEEP, _TOO_DEEP),
    "records in records": Hostile(lambda: _beside(_records(_DEEP)), _TOO_DEEP, _TOO_DEEP),
    "some more records in records": Hostile(lambda: _beside(_records(300)), _TOO_DEEP, _TOO_DEEP),
    "names twice": Hostile(lambda: _beside(_doubled(40)), _SKIPPED, _COLUMNS),
    "brackets": Hostile(lambda: "[" * 100_000, _TOO_DEEP, _TOO_DEEP),
    "objects": Hostile(lambda: _beside('{"type":' * 800 + '"int"' + "}" * 800), _TOO_DEEP, _TOO_DEEP),
    "symbols": Hostile(lambda: _beside(_enum(_MANY)), _TOO_LARGE, _TOO_LARGE),
    "fields": Hostile(lambda: _fields(_MANY), _TOO_LARGE, _TOO_LARGE),
    "some more fields": Hostile(
        lambda: _fields(12_000), "f10001: the fields that are skipped up to here have more", _COLUMNS
    ),
    "branches": Hostile(
        lambda: _beside(json.dumps([{"type": "fixed", "name": f"F{at}", "size": 1} for at in range(_MANY // 10)])),
        _TOO_LARGE,
        _TOO_LARGE,
    ),
    "unions": Hostile(lambda: _beside("[" * 50 + '"int"' + "]" * 50), _CANNOT, _CANNOT),
    "a huge fixed": Hostile(lambda: _beside(f'{{"type":"fixed","name":"F","size":{10**30}}}'), _CANNOT, _CANNOT),
    "a negative fixed": Hostile(lambda: _beside('{"type":"fixed","name":"F","size":-5}'), _CANNOT, _CANNOT),
    "a default of another type": Hostile(
        lambda: '{"type":"record","name":"R","fields":[{"name":"n","type":"long","default":"x"}]}', _CANNOT, _CANNOT
    ),
    "half a character": Hostile(lambda: json.dumps(record(("n", "long"), ("\ud800", "int"))), _CANNOT, _CANNOT),
    "numbers for names": Hostile(lambda: json.dumps(record(("n", "long"), (3, "int"))), _CANNOT, _CANNOT),  # type: ignore[arg-type]
    "a number of 10,000 digits": Hostile(
        lambda: f'{{"type":"fixed","name":"F","size":{"9" * 10_000}}}', _CANNOT, _CANNOT
    ),
}


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> dict[int, RegisteredSchema]:
    found: dict[int, RegisteredSchema] = {}
    give_schemas(monkeypatch, found)
    return found


def _decode(values: Sequence[bytes]) -> Decoded:
    return AvroFormat(_READER, _WRITERS).decode(pa.array(values, pa.binary()))


@pytest.mark.parametrize("hostile", _HOSTILE.values(), ids=_HOSTILE)
def test_records_of_a_hostile_schema_are_bad(registry: dict[int, RegisteredSchema], hostile: Hostile) -> None:
    registry[7] = RegisteredSchema("AVRO", hostile.text())
    registry[8] = RegisteredSchema("AVRO", _READER)
    values = [b"\0\0\0\0\x07\x0a" + bytes(20), b"\0\0\0\0\x08\x0a", b"\0\0\0\0\x07"]
    with bounded(20, 1_000 * MB):
        decoded, tables = _decode(values), decode_tables(SelfDescribingAvro(_WRITERS), values)
    assert decoded.rows.to_pylist() == [{"n": 5}]
    assert [each.index for each in decoded.bad] == [0, 2]
    assert all(each.reason.startswith(f"written with schema 7: {hostile.given}") for each in decoded.bad), decoded.bad
    assert [each.rows.to_pylist() for each in tables.tables] == [[{"n": 5}]]
    assert [place for place, _ in bad_of_tables(tables)] == [0, 2]
    assert all(why.startswith(f"written with schema 7: {hostile.tables}") for _, why in bad_of_tables(tables))


@pytest.mark.parametrize("hostile", _HOSTILE.values(), ids=_HOSTILE)
def test_change_events_of_a_hostile_schema_are_bad(registry: dict[int, RegisteredSchema], hostile: Hostile) -> None:
    """The schema is of a column that is read."""
    good = envelope({"n": "long"})
    before, after = json.dumps(envelope({"n": "long", "other": "MARK"})).split('"MARK"')
    registry[7] = RegisteredSchema("AVRO", before + hostile.text() + after)
    registry[8] = RegisteredSchema("AVRO", json.dumps(good))
    row = parse_ddl("n BIGINT, other STRING")
    values = [b"\0\0\0\0\x07" + bytes(60), encoded(8, good, event("c", after={"n": 5}))]
    with bounded(20, 1_000 * MB):
        decoded = DebeziumFormat(row, AvroEvents(row, _WRITERS)).decode(pa.array(values, pa.binary()))
    assert [row["n"] for row in decoded.rows.to_pylist()] == [5]
    assert [each.index for each in decoded.bad] == [0]


def _zeros(count: int) -> bytes:
    return b"\0\0\0\0\x07\x0a" + bytes(count)


@pytest.mark.parametrize(
    ("text", "values", "columns"),
    [
        (lambda: _fields(9_000), [_zeros(8_999)], 9_000),
        (lambda: _beside(_enum(40_000)), [_zeros(0) + b"\xfe\xf0\x04"], 2),
        (lambda: _beside(_records(62)), [_zeros(1)], 2),
        (lambda: _beside(_arrays(62)), [_zeros(1)], 2),
        (lambda: json.dumps({**record(("n", "long")), "doc": "x" * 50 * MB}), [_zeros(0)], 1),
        (lambda: json.dumps({**record(("n", "long")), "aliases": [f"a{at}" for at in range(40_000)]}), [_zeros(0)], 1),
    ],
    ids=["fields", "symbols", "records in records", "arrays in arrays", "50 MB", "aliases"],
)
def test_a_large_schema_has_rows(
    registry: dict[int, RegisteredSchema], text: Callable[[], str], values: Sequence[bytes], columns: int
) -> None:
    """Close to each bound: with a schema in the spec, and with the record's own."""
    registry[7] = RegisteredSchema("AVRO", text())
    many = [*values] * 100
    with bounded(30, 1_000 * MB):
        decoded, tables = _decode(many), decode_tables(SelfDescribingAvro(_WRITERS), many)
    assert decoded.bad == ()
    assert decoded.rows.to_pylist() == [{"n": 5}] * 100
    (table,) = tables.tables
    assert (table.rows.num_rows, table.rows.num_columns) == (100, columns)
    assert set(table.rows.column("n").to_pylist()) == {5}


def test_a_symbol_of_very_many_that_the_reader_lacks(registry: dict[int, RegisteredSchema]) -> None:
    reader = _beside(_enum(2))
    registry[7] = RegisteredSchema("AVRO", _beside(_enum(40_000)))
    values = pa.array([_zeros(0) + b"\xfe\xf0\x04", _zeros(0) + b"\x02"] * 50_000, pa.binary())
    with bounded(10, 500 * MB):
        decoded = AvroFormat(reader, _WRITERS).decode(values)
    assert decoded.rows.num_rows == len(decoded.bad) == 50_000
    assert {each.reason for each in decoded.bad} == {"other: the reader's schema has no symbol s39999"}


def test_a_union_of_very_many_branches(registry: dict[int, RegisteredSchema]) -> None:
    branches = [{"type": "fixed", "name": f"F{at}", "size": 1} for at in range(9_000)]
    registry[7] = RegisteredSchema("AVRO", _beside(json.dumps(branches)))
    with bounded(10, 500 * MB):
        decoded = _decode([_zeros(0) + bytes([0x80 | at & 0x7F, at >> 7, 0]) for at in range(0, 16_000, 2)])
        for _ in range(20):
            assert _decode([_zeros(2)]).rows.num_rows == 1
    assert decoded.rows.num_rows == 8_000


def test_unions_in_unions_are_compared_in_bounded_time(registry: dict[int, RegisteredSchema]) -> None:
    """Each level of the reader's has two candidates for each of the writer's."""
    text = _beside(_forked(30))
    registry[7] = RegisteredSchema("AVRO", text)
    with bounded(20, 500 * MB):
        (bad,) = AvroFormat(text, _WRITERS).decode(pa.array([_zeros(1)], pa.binary())).bad
    assert bad.reason == "written with schema 7: more than 100,000 ways to read the one as the other"


@pytest.mark.parametrize(
    "name", ["__proto__", '"; DROP TABLE t; --', "a\0b", "${env:HOME}", "constructor", "a.b", "\u202e"]
)
def test_names_of_fields_are_columns_or_refused(registry: dict[int, RegisteredSchema], name: str) -> None:
    registry[7] = RegisteredSchema("AVRO", json.dumps(record(("n", "long"), (name, "int"))))
    tables = decode_tables(SelfDescribingAvro(_WRITERS), [_zeros(1)])
    found = [each.rows.to_pylist() for each in tables.tables]
    assert (found, len(bad_of_tables(tables))) in (([[{"n": 5, name: 0}]], 0), ([], 1))
    assert _decode([_zeros(1)]).rows.num_rows + len(_decode([_zeros(1)]).bad) == 1


def test_schemas_that_refer_to_each_other() -> None:
    """A registry that is written to by hand could have them. `inlined` defines each type once."""
    first, second = record(("b", "B"), name="A"), record(("a", ["null", "A"]), name="B")
    with pytest.raises(SpecError, match="type B is not defined"):
        parse_schema(_beside('"A"'), (json.dumps(first), json.dumps(second)))
    text = json.loads(inlined(_beside('"A"'), (json.dumps(first), json.dumps(second))))
    assert text["fields"][1]["type"]["fields"][0]["type"]["fields"][0]["type"] == ["null", "A"]


def test_a_chain_of_names_is_bounded(registry: dict[int, RegisteredSchema]) -> None:
    """Its text is flat, and a value of its last record has 5,000 levels."""
    registry[7] = RegisteredSchema("AVRO", _beside(_chain(5_000)))
    values = [_zeros(2), _zeros(0) + b"\x8e\x4e\0"]
    with bounded(10, 500 * MB):
        decoded, tables = _decode(values), decode_tables(SelfDescribingAvro(_WRITERS), values)
    assert decoded.rows.to_pylist() == [{"n": 5}]
    assert [(each.index, each.reason) for each in decoded.bad] == [(1, "other: nested deeper than 64 levels")]
    assert {why for _, why in bad_of_tables(tables)} == {f"written with schema 7: {_DEEP_COLUMNS}"}


def test_a_chain_of_references_is_bounded(registry: dict[int, RegisteredSchema]) -> None:
    chain = [json.dumps(record(("x", f"L{level - 1}" if level else "int"), name=f"L{level}")) for level in range(900)]
    registry[7] = RegisteredSchema("AVRO", _beside('"L899"'), tuple(chain))
    with bounded(10, 500 * MB):
        (bad,) = _decode([_zeros(1)]).bad
        ((_, of_tables),) = bad_of_tables(decode_tables(SelfDescribingAvro(_WRITERS), [_zeros(1)]))
    assert bad.reason == f"written with schema 7: {_SKIPPED}"
    assert of_tables == f"written with schema 7: {_DEEP_COLUMNS}"


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("int", 2**31),
        ("long", 2**63),
        ("long", 10**400),
        ({"type": "array", "items": "int"}, [1, 2**31]),
        ({"type": "int", "logicalType": "time-millis"}, 86_400_000),
        ({"type": "long", "logicalType": "timestamp-millis"}, 2**62),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, "\x64"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, ""),
        ({"type": "record", "name": "I", "fields": [{"name": "x", "type": "int", "default": -(2**40)}]}, {}),
    ],
)
def test_a_default_that_its_type_cannot_hold_is_refused_with_the_spec(kind: Any, default: Any) -> None:
    """Not read as 0."""
    fields = [{"name": "n", "type": "long"}, {"name": "more", "type": kind, "default": default}]
    reader = json.dumps({"type": "record", "name": "R", "fields": fields})
    for writers in (_WRITERS, OneWriter(_READER)):
        with pytest.raises(SpecError, match="default"):
            AvroFormat(reader, writers).validate()


def test_a_schema_of_thousands_of_fields_is_a_readers_schema() -> None:
    """Each field is a column once, however often its type is looked up."""
    schema = json.loads(_fields(9_000))
    assert decode(schema, [b"\x0a" + bytes(8_999)]).rows.num_columns == 9_000

"""A value is written as it is, or not at all: values that servers alter silently, by two-phase commit and by a log."""

from __future__ import annotations

import datetime as dt
import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from connectors.row_bisector import RowBisector, decode_dead_letters
from eos.errors import TargetError
from integration_tests.test_made_tables import PLACES, Place
from integration_tests.test_made_tables import place as place
from twophase.ids import Scope, TransactionId, sink_key
from twophase.values import CommitOutcome


@dataclass(frozen=True)
class Case:
    """One column. `taken` values are read back by the expression `read`; each of `refused` is a bad row."""

    declared: str
    arrow: pa.DataType
    taken: Sequence[Any]
    refused: Sequence[Any] = ()
    said: str = ""
    read: str = "v"
    back: Callable[[Any], Any] = lambda value: value  # how a value that was written is shown
    seen: Callable[[Any], Any] = lambda value: value  # how a value that was read is compared

    def __str__(self) -> str:
        return f"{self.declared} {self.arrow}"


def execute(place: Place, *statements: str) -> None:
    with place.engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def write(place: Place, arrow: pa.DataType, values: Sequence[Any]) -> list[str]:
    """Write a row for each value into table t. Return the reasons of the bad rows."""
    sink = place.sink("t").open(pa.schema([("id", pa.int64()), ("v", arrow)]))
    committer = sink.committer("p")
    committer.inspect(place.incarnation, ())
    committer.claim(place.incarnation, 1)
    scope = Scope(place.incarnation, 1, place.checkpoints)
    committer.permit(scope)
    bisector, writer = RowBisector(len(values) + 1), sink.writer(TransactionId(scope, sink_key("s"), 0, 1))
    column = values if isinstance(values, pa.Array) else pa.array(values, arrow)
    bisector.write(writer, "s", pa.record_batch([pa.array(range(len(values)), pa.int64()), column], names=["id", "v"]))
    committable = writer.prepare()
    while CommitOutcome.RETRY_LATER in committer.commit(scope.checkpoint_id, [committable]):
        pass
    committer.revoke(scope)
    committer.close()
    letters = bisector.encode()
    return [] if letters is None else decode_dead_letters(letters).column("error").to_pylist()


def read(place: Place, expression: str = "v") -> list[Any]:
    """Column `expression` of table t in the order of the rows."""
    with place.engine.connect() as connection:
        return [row[0] for row in connection.exec_driver_sql(f"SELECT {expression} FROM t ORDER BY id")]


def check(place: Place, case: Case) -> None:
    """The taken values come back in their order, and each refused value is a bad row with the reason."""
    values = [*case.taken[:1], *case.refused, *case.taken[1:], None]
    reasons = write(place, case.arrow, values)
    found = [None if value is None else case.seen(value) for value in read(place, case.read)]
    assert found == [*map(case.back, case.taken), None]
    assert len(reasons) == len(case.refused)
    assert all(case.said in reason for reason in reasons), reasons


def _exactly(text: str) -> Any:
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


def _single(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def _in_utc(moment: dt.datetime) -> dt.datetime:
    return moment.astimezone(dt.UTC)


def _without_zone(moment: dt.datetime) -> dt.datetime:
    return moment.replace(tzinfo=None)


SAME_JSON = [
    '{"b":1,"a":[1.50,12345678901234567890.5]}',
    "[]",
    '"x"',
    '{"a":{"a":1},"b":[{"a":2},{"a":3}]}',
    '{"":-0.0}',
]
EQUAL_NAMES = [
    '{"a":1,"a":2}',
    '{"a" : 1, "b": 0, "a": 1}',
    '[{"x":{"longer than eight":1,"longer than eight":2}}]',
    '{"a":1,"\\u0061":2}',
    '{"":1,"":2}',
]
NOW = dt.datetime(2026, 2, 28, 23, 59, 59, 123000)
POSTGRES = [
    Case("CHAR(4)", pa.string(), ["ab", "abcd", "", " a"], ["ab ", " ", "a  "], "ends in a space", "v::text"),
    Case("BPCHAR", pa.string(), ["ab", " a"], ["ab "], "ends in a space"),
    Case("short_text", pa.string(), ["ab"], ["a "], "ends in a space", "v::text"),
    Case("VARCHAR(3)", pa.string(), ["abc", "ab ", " "], ["abc "], "longer than 3 characters"),
    Case("TEXT", pa.string(), [" a ", "\\N", "\t"]),
    Case("CITEXT", pa.string(), ["A ", "a"]),
    Case("JSONB", pa.string(), SAME_JSON, EQUAL_NAMES, "twice", "v::text", back=_exactly, seen=_exactly),
    Case(
        "JSONB",
        pa.string(),
        ['{"a":"\\\\u0000"}'],
        ['{"a":"x\\u0000"}'],
        "U+0000",
        "v::text",
        back=_exactly,
        seen=_exactly,
    ),
    Case("JSONB", pa.list_(pa.string()), [["a"], ["\\u0000"]], [["\0"]], "U+0000"),
    Case("JSON", pa.string(), [*EQUAL_NAMES, ' {"b": 1,"a":1.0e0}\n'], read="v::text"),
    Case("NUMERIC(6,2)", pa.decimal128(6, 2), [Decimal("-0.05"), Decimal("9999.99")]),
    Case("NUMERIC", pa.decimal128(38, 18), [Decimal("1e-18"), Decimal("12345678901234567890.123456789012345678")]),
    Case("NUMERIC", pa.int64(), [2**63 - 1]),
    Case("REAL", pa.float32(), [0.1, 3.4028234663852886e38, 1e-45], read="v::float8", back=_single),
    Case("REAL", pa.int16(), [-(2**15), 2**15 - 1]),
    Case("DOUBLE PRECISION", pa.float64(), [0.1, 5e-324, 1e308, float("inf"), -2.5]),
    Case("DOUBLE PRECISION", pa.int32(), [2**31 - 1]),
    Case("TIME(3)", pa.time64("us"), [NOW.time()], [dt.time(1, 2, 3, 4)], "3 digits"),
    Case("TIMESTAMP(3)", pa.timestamp("us"), [NOW], [NOW.replace(microsecond=1)], "3 digits"),
    Case("TIMESTAMP(0)", pa.timestamp("us"), [NOW.replace(microsecond=0)], [NOW], "0 digits"),
    # Without a zone they are in UTC, whatever the server's zone is.
    Case("TIMESTAMPTZ", pa.timestamp("us"), [NOW], read="v AT TIME ZONE 'UTC'"),
    Case("TIMESTAMPTZ", pa.timestamp("us", "UTC"), [NOW.replace(tzinfo=dt.UTC)], seen=_in_utc),
    Case("TIMESTAMP", pa.timestamp("us", "UTC"), [NOW.replace(tzinfo=dt.UTC)], back=_without_zone),
    Case("BYTEA", pa.binary(), [b"", bytes(range(256))]),
    Case("MACADDR", pa.string(), ["08:00:2b:01:02:03"]),
    Case("CHAR(4)", pa.string(), ["ab"], back=lambda text: text.ljust(4)),
    Case(
        "INET",
        pa.string(),
        ["10.0.0.1/24", "10.0.0.1/32"],
        read="abbrev(v)",
        back=lambda text: text.removesuffix("/32"),
    ),
    Case(
        "CIDR",
        pa.string(),
        ["10.0.0.0/24", "10.1"],
        read="v::text",
        back=lambda text: text.replace("10.1", "10.1.0.0/16"),
    ),
    Case(
        "UUID",
        pa.string(),
        ["{A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11}"],
        read="v::text",
        back=lambda text: text.lower()[1:-1],
    ),
]
NOT_TAKEN = [
    "NAME",
    '"char"',
    "BIT(3)",
    "VARBIT",
    "INTERVAL",
    "TEXT[]",
    "TIMETZ",
    "MONEY",
    "XML",
    "REAL",
    "NUMERIC(6,1)",
    "shorter_text",
]
BOTH = pytest.mark.parametrize(
    "place", [pytest.param(each, marks=pytest.mark.any_server) for each in ("postgres", "postgres log")], indirect=True
)


@BOTH
@pytest.mark.parametrize("case", POSTGRES, ids=str)
def test_postgres_takes_a_value_as_it_is_or_not_at_all(place: Place, case: Case) -> None:
    execute(
        place,
        "CREATE DOMAIN short_text AS CHAR(4)",
        *(["CREATE EXTENSION citext"] if case.declared == "CITEXT" else []),
        f"CREATE TABLE t (id BIGINT, v {case.declared})",
    )
    check(place, case)


@BOTH
@pytest.mark.parametrize("declared", NOT_TAKEN)
def test_a_type_of_postgres_that_could_alter_values_is_refused_at_the_start(place: Place, declared: str) -> None:
    execute(
        place,
        "CREATE DOMAIN short_text AS CHAR(4)",
        "CREATE DOMAIN shorter_text AS short_text",
        f"CREATE TABLE t (v {declared})",
    )
    kind = {"REAL": pa.float64(), "NUMERIC(6,1)": pa.decimal128(6, 2)}.get(declared, pa.string())
    with pytest.raises(TargetError, match=r"not supported|unaltered"):
        place.sink("t").open(pa.schema([("v", kind)]))


SETS = Case(
    *("SET('p','q','r')", pa.string(), ["p,q", "", "r", "r,p"], ["p,p", "q,r,q"], "a member twice"),
    back=lambda text: ",".join(sorted(text.split(","))),  # in the order of the column
)
OWN_FORM = Case("JSON", pa.string(), ['{"b": [1, 2.5], "a": {}}', "[18446744073709551615]"], EQUAL_NAMES, "twice")
DIGITS = Case(
    *("JSON", pa.string(), ["[0.1, -9223372036854775808]", "[1.5e300]"]),
    *(["[0.12345678901234567891]", "[18446744073709551616]", "[1.2345678901234567e10]"], "more digits than a double"),
)
MYSQL = pytest.mark.parametrize("place", ["mysql", "mysql log"], indirect=True)


@MYSQL
def test_a_set_of_mysql_keeps_every_member_that_is_written(place: Place) -> None:
    execute(place, f"CREATE TABLE t (id BIGINT, v {SETS.declared}) ENGINE = InnoDB")
    check(place, SETS)


@MYSQL
@pytest.mark.only_on("MariaDB", "MySQL stores JSON in a form of its own")
def test_the_json_of_mariadb_keeps_every_byte(place: Place) -> None:
    execute(place, "CREATE TABLE t (id BIGINT, v JSON) ENGINE = InnoDB")
    check(place, Case("JSON", pa.string(), [*EQUAL_NAMES, *DIGITS.refused, ' {"b": 1,"a":1.0e0}\n']))


@MYSQL
@pytest.mark.only_on("MySQL", "MariaDB keeps the text of JSON")
@pytest.mark.parametrize("case", [OWN_FORM, DIGITS], ids=["names", "digits"])
def test_the_json_of_mysql_loses_no_name_and_no_digit(place: Place, case: Case) -> None:
    execute(place, "CREATE TABLE t (id BIGINT, v JSON) ENGINE = InnoDB")
    reasons = write(place, case.arrow, [*case.taken, *case.refused])
    assert [json.loads(each) for each in read(place)] == [json.loads(each) for each in case.taken]
    assert len(reasons) == len(case.refused)
    assert all(case.said in reason for reason in reasons), reasons


SQLITE = [
    Case("INTEGER PRIMARY KEY", pa.int64(), [7, -1, 2**63 - 1], [None, None], "NULL"),
    Case("NUMERIC", pa.float64(), [1.0, 0.1, 1e300, 2.0**62]),
    Case("REAL", pa.float32(), [0.5, 3.4028234663852886e38]),
    Case("TEXT", pa.string(), ["007", "1e3", " 1 ", "0x10"]),
    Case("", pa.string(), ["007", "1.0"]),
]


@pytest.mark.any_server
@pytest.mark.parametrize("place", ["sqlite log"], indirect=True)
@pytest.mark.parametrize("case", SQLITE, ids=str)
def test_sqlite_takes_a_value_as_it_is_or_not_at_all(place: Place, case: Case) -> None:
    execute(place, f"CREATE TABLE t (id BIGINT, v {case.declared})")
    values = [*case.taken[:1], *case.refused, *case.taken[1:]]
    reasons = write(place, case.arrow, values)
    assert read(place) == list(case.taken)
    assert len(reasons) == len(case.refused)
    assert all(case.said in reason for reason in reasons), reasons


NESTED = pa.struct(
    [
        ("map", pa.map_(pa.string(), pa.decimal128(6, 2))),
        ("by_day", pa.map_(pa.date32(), pa.bool_())),
        ("long", pa.decimal128(38, 4)),
        ("moments", pa.list_(pa.timestamp("us", "UTC"))),
        ("local", pa.timestamp("us")),
        ("bytes", pa.binary()),
        ("double", pa.float64()),
        ("text", pa.string()),
        ("whole", pa.list_(pa.int64())),
        ("unsigned", pa.uint64()),
    ]
)
VALUE = {
    "map": [("a", Decimal("1.50")), ('b"', None)],
    "by_day": [(dt.date(2026, 1, 2), True)],
    "long": Decimal("12345678901234567.2500"),
    "moments": [NOW.replace(tzinfo=dt.UTC), None],
    "local": NOW,
    "bytes": b"\xff\x00",
    "double": 0.1,
    "text": "ü\n\\",
    "whole": [8981674328653005637, -(2**63), 2**53 + 1],  # no double has the first and the last value
    "unsigned": 2**64 - 1,
}
TEXT = (
    '{"map":{"a":1.50,"b\\"":null},"by_day":{"2026-01-02":true},"long":"12345678901234567.2500",'
    '"moments":["2026-02-28T23:59:59.123000Z",null],"local":"2026-02-28T23:59:59.123000","bytes":"/wA=",'
    '"double":0.1,"text":"ü\\u000a\\\\",'
    '"whole":[8981674328653005637,-9223372036854775808,9007199254740993],"unsigned":18446744073709551615}'
)


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_every_database_gets_the_same_text_of_a_nested_value(place: Place) -> None:
    execute(place, "CREATE TABLE t (id BIGINT, v TEXT)")
    assert write(place, NESTED, [VALUE, None]) == []
    assert read(place) == [TEXT, None]


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_a_column_of_json_keeps_every_digit_of_a_nested_value(place: Place) -> None:
    """MySQL's JSON and PostgreSQL's JSONB store numbers in a form of their own."""
    declared = {"postgresql": "JSONB", "sqlite": "TEXT"}.get(place.engine.dialect.name, "JSON")
    execute(place, f"CREATE TABLE t (id BIGINT, v {declared})")
    assert write(place, NESTED, [VALUE]) == []
    (found,) = read(place, "v" if declared == "TEXT" else "CAST(v AS CHAR(10000))")
    assert _exactly(found) == _exactly(TEXT)


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_a_map_with_equal_keys_is_a_bad_row(place: Place) -> None:
    execute(place, "CREATE TABLE t (id BIGINT, v TEXT)")
    maps = pa.MapArray.from_arrays([0, 1, 3, 5], pa.array(["a", "a", "a", "a", "b"]), pa.array([1, 2, 3, 4, 5]))
    (reason,) = write(place, maps.type, maps)
    assert "two equal keys" in reason
    assert read(place) == ['{"a":1}', '{"a":4,"b":5}']


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_a_struct_with_two_fields_of_one_name_is_refused_at_the_start(place: Place) -> None:
    execute(place, "CREATE TABLE t (v TEXT)")
    twice = pa.struct([("a", pa.int8()), ("a", pa.int8())])
    with pytest.raises(TargetError, match="cast it in a transform"):
        place.sink("t").open(pa.schema([("v", twice)]))

"""What comes back from the table is what went in, for every type; what would change on the way is refused."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connectors.log.place import LogPlace
from connectors.sql.sqlite.columns import Affinity, TargetColumn, form_of
from connectors.sql.sqlite.sink import SqliteSink
from connectors.sql.sqlite.types import TYPES
from eos.errors import BadRowError, TargetError
from twophase.ids import Scope, TransactionId, sink_key

INCARNATIONS = count()
SCOPE = Scope("c" * 20, 1, 0)


def make(folder: Path, ddl: str) -> SqliteSink:
    connection = sqlite3.connect(folder / "t.db")
    connection.executescript(f"DROP TABLE IF EXISTS t; {ddl}")
    connection.close()
    return SqliteSink("s", folder / "t.db", "t", LogPlace(folder / "log"))


def through(folder: Path, declared: Sequence[str], arrays: Sequence[pa.Array]) -> list[tuple[object, ...]]:
    """Columns through writer, segment, committer and table."""
    names = [f"v{i}" for i in range(len(arrays))]
    columns = ", ".join(f"{name} {each}" for name, each in zip(names, declared, strict=True))
    batch = pa.record_batch(arrays, names=names)
    sink = make(folder, f"CREATE TABLE t ({columns})").open(batch.schema)
    scope = Scope(f"{next(INCARNATIONS):020d}", 1, 0)
    writer = sink.writer(TransactionId(scope, sink_key("s"), 0, 1))
    writer.write(batch)
    committable = writer.prepare()
    committer = sink.committer("p")
    committer.inspect(scope.incarnation, ())
    committer.claim(scope.incarnation, 1, take_over=True)
    committer.permit(scope)
    committer.commit(0, [committable])
    connection = sqlite3.connect(folder / "t.db")
    try:
        return list(zip(*connection.execute("SELECT * FROM t ORDER BY rowid"), strict=True))
    finally:
        connection.close()


Case = tuple[str, pa.DataType, Any, Callable[[Any], object]]

MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999))
TEXT = st.text(st.characters(codec="utf-8"))


def same(value: Any) -> object:
    return value


def unsigned_zero(value: float) -> float:
    """SQLite has no -0.0: it keeps whole numbers as integers on the disk."""
    return value + 0.0


def number(value: Decimal) -> int | float:
    """As NUMERIC affinity has it: a whole number is stored as such."""
    return int(value) if value == int(value) else float(value)


def stamp(moment: datetime | time) -> str:
    return f"{moment:%H:%M:%S.%f}" if isinstance(moment, time) else f"{moment.date()} {moment:%H:%M:%S.%f}"


CASES: list[Case] = [
    ("INTEGER", pa.int64(), st.integers(-(2**63), 2**63 - 1), same),
    ("TINYINT", pa.int8(), st.integers(-128, 127), same),
    ("REAL", pa.int32(), st.integers(-(2**31), 2**31 - 1), float),
    ("BIGINT", pa.uint64(), st.integers(0, 2**63 - 1), same),
    ("TEXT", pa.uint64(), st.integers(0, 2**64 - 1), str),
    ("BOOLEAN", pa.bool_(), st.booleans(), int),
    ("DOUBLE", pa.float64(), st.floats(allow_nan=False), unsigned_zero),
    ("FLOAT", pa.float32(), st.floats(allow_nan=False, width=32), unsigned_zero),
    ("TEXT", pa.string(), TEXT, same),
    ("", pa.large_string(), TEXT, same),
    ("VARCHAR(3)", pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["a", "", 'it\'s "x"']), same),
    ("BLOB", pa.binary(), st.binary(), same),
    ("BLOB", pa.binary(4), st.binary(min_size=4, max_size=4), same),
    ("TEXT", pa.decimal128(38, 10), st.decimals(-(10**27), 10**27, places=10), lambda v: f"{v:f}"),
    ("TEXT", pa.decimal128(30, 2), st.decimals(-(10**27), 10**27, places=2), lambda v: f"{v:f}"),
    ("INTEGER", pa.decimal128(18, 0), st.integers(-(10**18) + 1, 10**18 - 1).map(Decimal), int),
    ("DECIMAL(15,3)", pa.decimal128(15, 3), st.decimals(-(10**11), 10**11, places=3), number),
    ("DATE", pa.date32(), st.dates(), str),
    ("TEXT", pa.timestamp("us"), MOMENTS, stamp),
    ("TIMESTAMP", pa.timestamp("us", "UTC"), MOMENTS.map(lambda m: m.replace(tzinfo=UTC)), lambda m: stamp(m) + "Z"),
    ("TEXT", pa.time64("us"), st.times(), stamp),
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
@given(data=st.data())
def test_values_come_back(tmp_path: Path, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 8))
    drawn = [data.draw(st.lists(st.none() | case[2], min_size=size, max_size=size)) for case in CASES]
    arrays = [pa.array(column, case[1]) for column, case in zip(drawn, CASES, strict=True)]
    found = through(tmp_path, [case[0] for case in CASES], arrays)
    for (declared, kind, _, stored), before, after in zip(CASES, drawn, found, strict=True):
        expected = [None if value is None else stored(value) for value in before]
        assert [repr(value) for value in after] == [repr(value) for value in expected], f"{kind} in {declared}"


def test_an_instant_is_stored_in_utc(tmp_path: Path) -> None:
    moment = datetime(2026, 3, 29, 3, 30, tzinfo=timezone(timedelta(hours=2)))
    array = pa.array([moment], pa.timestamp("us", "Europe/Berlin"))
    assert through(tmp_path, ["TEXT"], [array]) == [("2026-03-29 01:30:00.000000Z",)]


def test_nanoseconds_are_kept(tmp_path: Path) -> None:
    array = pa.array([1], pa.timestamp("ns"))
    assert through(tmp_path, ["TEXT"], [array]) == [("1970-01-01 00:00:00.000000001",)]


ENTRIES = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
DATED = pa.struct([("a", pa.string()), ("b", pa.date32())])
NESTED = [
    (pa.list_(pa.int64()), [1, None], [1, None]),
    (DATED, {"a": "ä", "b": date(2026, 1, 2)}, {"a": "ä", "b": "2026-01-02"}),
    (ENTRIES, [{"key": "k", "value": b"\xff"}], [{"key": "k", "value": "/w=="}]),
    (pa.map_(pa.string(), pa.decimal128(4, 2)), [("x", Decimal("1.50"))], {"x": 1.5}),
]


@pytest.mark.parametrize(("kind", "value", "expected"), NESTED, ids=[str(c[0]) for c in NESTED])
def test_nested_values_become_json(tmp_path: Path, kind: pa.DataType, value: Any, expected: object) -> None:
    ((found, null),) = through(tmp_path, ["TEXT"], [pa.array([value, None], kind)])
    assert json.loads(str(found)) == expected
    assert null is None


NOT_UTF8 = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
BAD = [
    ("INTEGER", pa.array([1, 2**63], pa.uint64()), "not in range"),
    ("REAL", pa.array([0.0, math.nan]), "NaN, which SQLite cannot store"),
    ("TEXT", pa.array([[math.nan]]), "NaN and infinity"),
    ("DATE", pa.array([2_932_896, 2_932_897], pa.date32()), "not in the years 1 to 9999"),
    ("DATE", pa.array([-719_162, -719_163, None], pa.date32()), "not in the years 1 to 9999"),
    ("TIMESTAMP", pa.array([0, 2**63 - 1], pa.timestamp("us", "UTC")), "not in the years 1 to 9999"),
    ("TIMESTAMP", pa.array([253_402_300_800_000], pa.timestamp("ms")), "not in the years 1 to 9999"),
    ("TEXT", pa.array([[2**31 - 1]], pa.list_(pa.date32())), "not in the years 1 to 9999"),
    ("INTEGER NOT NULL", pa.array([1, None, None]), "row 2, column v: NULL"),
    ("INTEGER PRIMARY KEY", pa.array([1, None, None]), "row 2, column v: NULL .* next number"),
    ("TEXT", NOT_UTF8, "UTF8"),
]


@pytest.mark.parametrize(("declared", "array", "reason"), BAD, ids=[f"{c[1].type} {c[2]}" for c in BAD])
def test_a_value_that_does_not_fit_is_refused_by_the_task(
    tmp_path: Path, declared: str, array: pa.Array, reason: str
) -> None:
    sink = make(tmp_path, f"CREATE TABLE t (v {declared})").open(pa.schema([("v", array.type)]))
    writer = sink.writer(TransactionId(SCOPE, sink_key("s"), 0, 1))
    with pytest.raises(BadRowError, match=reason) as caught:
        writer.write(pa.record_batch([array], names=["v"]))
    assert caught.value.message.startswith("table t, ")
    assert "column v: " in caught.value.message
    assert not (tmp_path / "log").exists()


def test_a_batch_of_a_wider_type_is_narrowed_or_refused(tmp_path: Path) -> None:
    sink = make(tmp_path, "CREATE TABLE t (v INTEGER)").open(pa.schema([("v", pa.int32())]))
    writer = sink.writer(TransactionId(SCOPE, sink_key("s"), 0, 1))
    writer.write(pa.record_batch([pa.array([1], pa.int64())], names=["v"]))
    with pytest.raises(BadRowError, match="not in range"):
        writer.write(pa.record_batch([pa.array([2**40], pa.int64())], names=["v"]))
    writer.abort()


LOSSY = [
    (pa.string(), "INTEGER"),  # '007' would become 7
    (pa.string(), "STRING"),  # affinity NUMERIC, whatever it looks like
    (pa.float64(), "TEXT"),  # 15 digits
    (pa.int64(), "DOUBLE"),
    (pa.int64(), "TEXT"),
    (pa.decimal128(20, 2), "DECIMAL(20,2)"),
    (pa.decimal128(19, 0), "INTEGER"),
    (pa.binary(), "TEXT"),
    (pa.timestamp("us"), "INTEGER"),
    (pa.duration("us"), "TEXT"),
    (pa.list_(pa.duration("us")), "TEXT"),
    (pa.struct([("a", pa.int8()), ("a", pa.int8())]), "TEXT"),
]


@pytest.mark.parametrize(("kind", "declared"), LOSSY, ids=[f"{k}-{d}" for k, d in LOSSY])
def test_pairs_of_types_that_change_values_are_refused(tmp_path: Path, kind: pa.DataType, declared: str) -> None:
    sink = make(tmp_path, f"CREATE TABLE t (v {declared})")
    with pytest.raises(TargetError, match="would change values of"):
        sink.open(pa.schema([("v", kind)]))


@pytest.mark.parametrize("case", CASES, ids=[f"{c[1]}-{c[0]}" for c in CASES])
def test_the_type_of_a_column_that_is_made_fits(case: Case) -> None:
    declared = TYPES.of(case[1])
    assert declared is not None
    column = TargetColumn("v", declared, nullable=True, required=False)
    assert form_of(case[1], column.affinity) is not None


DECLARED = [
    "INT",
    "CHARINT",
    "BIGINT",
    "VARCHAR(9)",
    "CLOB",
    "BLOB",
    "",
    "REAL",
    "DOUBLE",
    "NUMERIC",
    "DATE",
    "FLOATING POINT",
    "STRING",
]


@pytest.mark.parametrize("declared", DECLARED)
def test_affinity_is_what_sqlite_makes_of_the_declaration(declared: str) -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute(f"CREATE TABLE t (v {declared})")
    connection.executemany("INSERT INTO t VALUES (?)", [("1",), ("1.5",), (1,), (1.0,)])
    shown = tuple(row[0] for row in connection.execute("SELECT typeof(v) FROM t"))
    connection.close()
    expected = {
        Affinity.INTEGER: ("integer", "real", "integer", "integer"),
        Affinity.NUMERIC: ("integer", "real", "integer", "integer"),
        Affinity.REAL: ("real", "real", "real", "real"),
        Affinity.TEXT: ("text", "text", "text", "text"),
        Affinity.BLOB: ("text", "text", "integer", "real"),
    }
    assert shown == expected[TargetColumn("v", declared, nullable=True, required=False).affinity]

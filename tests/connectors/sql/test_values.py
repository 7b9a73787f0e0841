"""Values on their way to MySQL and PostgreSQL: the text that they become, and what a server would alter in silence.

What the servers make of the text is tested on real ones (integration_tests/test_values_unaltered.py).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.sql.limits import check_decimals, check_moments, check_sign, check_utf8, check_years
from connectors.sql.mysql import encode as mysql
from connectors.sql.mysql import fit as of_mysql
from connectors.sql.mysql.bulk import Bulk
from connectors.sql.mysql.encode import Stored as MySqlForm
from connectors.sql.mysql.ranges import Range
from connectors.sql.mysql.target import TargetColumn as MySqlColumn
from connectors.sql.postgres import encode as postgres
from connectors.sql.postgres import fit as of_postgres
from connectors.sql.postgres.copying import copy_data
from connectors.sql.postgres.encode import Stored as PostgresForm
from connectors.sql.postgres.partitioning import partition_columns
from connectors.sql.postgres.target import Target, TargetColumn, UniqueIndex
from connectors.testing.rows import as_spark_has
from eos.errors import BadRowError
from tests.connectors.sql.escaped_text import read_text

M, P = of_mysql.Form, of_postgres.Form
TEXT: Final = st.text(
    st.sampled_from("\\\t\n\r'N") | st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30
)
NEW_YORK: Final = pa.timestamp("us", "America/New_York")
MOMENT: Final = dt.datetime(2024, 3, 10, 7, 30, 0, 120000, tzinfo=dt.UTC)


def in_mysql(form: of_mysql.Form, values: list[Any], kind: pa.DataType, **facts: Any) -> list[str | None]:
    plan = of_mysql.ColumnPlan("v", "v", form, **facts)
    texts: list[str | None] = mysql.texts(plan, pa.array(values, kind), 1).to_pylist()
    return texts


def in_postgres(form: of_postgres.Form, values: list[Any], kind: pa.DataType, **facts: Any) -> list[str | None]:
    plan = of_postgres.ColumnPlan("v", "v", form, **facts)
    texts: list[str | None] = postgres.texts(plan, pa.array(values, kind), 1).to_pylist()
    return texts


MYSQL_TEXTS: list[tuple[of_mysql.Form, pa.DataType, Any, str, dict[str, Any]]] = [
    (M.MOMENT, NEW_YORK, MOMENT, "2024-03-10 07:30:00.120000", {}),
    (M.FLOAT, pa.float32(), 0.1, "0.10000000149011612", {"type": "float"}),
    (M.PLAIN, pa.bool_(), True, "1", {}),
    (M.PLAIN, pa.string(), " 1.50 ", "1.50", {"type": "decimal"}),
    (M.PLAIN, pa.decimal128(5, 2), Decimal("-0.05"), "-0.05", {"type": "decimal"}),
    (M.INTEGER, pa.string(), "12", "12", {}),
    (M.INTEGER, pa.uint64(), 2**64 - 1, str(2**64 - 1), {"unsigned": True}),
    (M.BITS, pa.int64(), 5, "5", {}),
    (M.TEXT, pa.string(), "b", "b", {"type": "enum", "members": ("a", "b")}),
    (M.TEXT, pa.string(), "b,a", "b,a", {"type": "set", "members": ("a", "b")}),
    (M.TEXT, pa.string(), "", "", {"type": "set", "members": ("a", "b")}),
    (M.TEXT, pa.string(), "a ", "a ", {"type": "varchar"}),
    (M.BYTES, pa.binary(), b"\0\xff", "00FF", {"type": "binary", "range": Range(length=2)}),
]


@pytest.mark.parametrize(("form", "kind", "value", "text", "facts"), MYSQL_TEXTS)
def test_the_text_that_mysql_reads(
    form: of_mysql.Form, kind: pa.DataType, value: Any, text: str, facts: dict[str, Any]
) -> None:
    assert in_mysql(form, [value, None], kind, **facts) == [text, None]


MYSQL_ALTERS: list[tuple[of_mysql.Form, pa.DataType, Any, dict[str, Any]]] = [
    (M.TEXT, pa.string(), "B", {"type": "enum", "members": ("a", "b")}),
    (M.TEXT, pa.string(), "2", {"type": "enum", "members": ("a", "b")}),
    (M.TEXT, pa.string(), "a,c", {"type": "set", "members": ("a", "b")}),
    (M.TEXT, pa.string(), "a,a", {"type": "set", "members": ("a", "b")}),
    (M.TEXT, pa.string(), "a ", {"type": "char"}),
    (M.BYTES, pa.binary(), b"a", {"type": "binary", "range": Range(length=2)}),
    (M.PLAIN, pa.int64(), None, {"fills_null": True}),
    (M.BITS, pa.int64(), -1, {}),
    (M.INTEGER, pa.string(), "0x10", {}),
    (M.INTEGER, pa.string(), "-1", {"unsigned": True}),
    (M.INTEGER, pa.decimal128(5, 2), Decimal("1.50"), {}),
    (M.FLOAT, pa.float64(), float("nan"), {"type": "double"}),
    (M.FLOAT, pa.float64(), float("-inf"), {"type": "double"}),
    (M.MOMENT, NEW_YORK, MOMENT, {"fraction": 0}),
    (M.TIME, pa.time64("us"), dt.time(1, 2, 3, 4000), {"fraction": 2}),
]


@pytest.mark.parametrize(("form", "kind", "value", "facts"), MYSQL_ALTERS)
def test_what_mysql_would_alter_is_a_bad_row(
    form: of_mysql.Form, kind: pa.DataType, value: Any, facts: dict[str, Any]
) -> None:
    with pytest.raises(BadRowError, match="row 1, column 'v'"):
        in_mysql(form, [value], kind, **facts)


def read_insert(statement: bytes) -> list[list[str | None]]:
    """What MySQL makes of `VALUES (…),(…)`, in the words of its manual; a second, naive reader."""
    rows: list[list[str | None]] = []
    characters = iter(statement.decode().partition(" VALUES ")[2])
    for character in characters:
        if character == "(":
            rows.append([])
        elif character == "N":
            assert [next(characters) for _ in range(3)] == list("ULL")
            rows[-1].append(None)
        elif character == "'":
            value = ""
            while (each := next(characters)) != "'":
                value += next(characters) if each == "\\" else each
            rows[-1].append(value)
        else:
            assert character in "),"
    return rows


@given(rows=st.lists(st.tuples(st.none() | TEXT, st.none() | TEXT), min_size=1, max_size=20))
def test_text_survives_an_insert(rows: list[tuple[str | None, str | None]]) -> None:
    batch = pa.record_batch({f"c{at}": pa.array([row[at] for row in rows], pa.string()) for at in range(2)})
    plans = [of_mysql.ColumnPlan(f"c{at}", f"c{at}", M.TEXT) for at in range(2)]
    (payload,) = Bulk("`t`", plans, local=False, max_packet_bytes=1 << 20).encode(batch, 1)
    assert isinstance(payload.statement, bytes)
    assert read_insert(payload.statement) == [list(row) for row in rows]


def read_copy(data: bytes) -> list[list[str | None]]:
    """What COPY makes of its text format."""
    assert b"\r" not in data, "a bare carriage return ends a line, too"
    return read_text(data, {"t": "\t", "n": "\n", "r": "\r"})


@given(rows=st.lists(st.tuples(st.none() | TEXT, st.none() | TEXT), min_size=1, max_size=20))
def test_text_survives_copy(rows: list[tuple[str | None, str | None]]) -> None:
    batch = pa.record_batch({f"c{at}": pa.array([row[at] for row in rows], pa.string()) for at in range(2)})
    plans = [of_postgres.ColumnPlan(f"c{at}", f"c{at}", P.TEXT) for at in range(2)]
    (data,) = copy_data(plans, batch, 1)
    assert read_copy(bytes(data)) == [list(row) for row in rows]


POSTGRES_TEXTS: list[tuple[of_postgres.Form, pa.DataType, Any, str, dict[str, Any]]] = [
    (P.MOMENT, NEW_YORK, MOMENT, "2024-03-10 07:30:00.120000Z", {}),
    (P.MOMENT, pa.timestamp("us"), MOMENT.replace(tzinfo=None), "2024-03-10 07:30:00.120000", {}),
    (P.DOUBLE, pa.float32(), 0.1, "0.10000000149011612", {}),
    (P.BYTES, pa.binary(), b"\0\xff", "\\\\x00FF", {}),
    (P.UUID, pa.string(), "{A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11}", "a0eebc999c0b4ef8bb6d6bb9bd380a11", {}),
    (P.TEXT, pa.string(), "a ", "a ", {"type": "varchar", "length": 2}),
    (P.JSON, pa.list_(pa.int32()), [1, None], "[1,null]", {"type": "json"}),
]


@pytest.mark.parametrize(("form", "kind", "value", "text", "facts"), POSTGRES_TEXTS)
def test_the_text_that_postgresql_reads(
    form: of_postgres.Form, kind: pa.DataType, value: Any, text: str, facts: dict[str, Any]
) -> None:
    assert in_postgres(form, [value, None], kind, **facts) == [text, None]


POSTGRES_ALTERS: list[tuple[of_postgres.Form, pa.DataType, Any, dict[str, Any]]] = [
    (P.TEXT, pa.string(), "a\0b", {"type": "text"}),
    (P.JSON, pa.list_(pa.string()), ["\0"], {"type": "jsonb"}),
    (P.TEXT, pa.string(), "abc ", {"type": "varchar", "length": 3}),
    (P.TEXT, pa.string(), "a ", {"type": "bpchar"}),
    (P.TEXT, pa.string(), '{"a":1,"a":2}', {"type": "jsonb"}),
    (P.TEXT, pa.string(), '{"a":"x\\u0000"}', {"type": "jsonb"}),
    (P.MOMENT, NEW_YORK, MOMENT, {"fraction": 0}),
    (P.TIME, pa.time64("us"), dt.time(1, 2, 3, 4000), {"fraction": 2}),
]


@pytest.mark.parametrize(("form", "kind", "value", "facts"), POSTGRES_ALTERS)
def test_what_postgresql_would_alter_is_a_bad_row(
    form: of_postgres.Form, kind: pa.DataType, value: Any, facts: dict[str, Any]
) -> None:
    with pytest.raises(BadRowError, match="row 1, column 'v'"):
        in_postgres(form, [value], kind, **facts)


COLUMNS: list[tuple[str, pa.DataType, list[Any], list[Any]]] = [
    ("tinyint", pa.int64(), [-128, 127], [-129, 128]),
    ("mediumint unsigned", pa.int64(), [0, 2**24 - 1], [-1, 2**24]),
    ("bigint unsigned", pa.uint64(), [2**64 - 1], []),
    ("decimal(5,2)", pa.decimal128(10, 2), [Decimal("-999.99")], [Decimal("1000.00")]),
    ("decimal(5,2) unsigned", pa.decimal128(5, 2), [Decimal("0.00")], [Decimal("-0.01")]),
    ("double unsigned", pa.float64(), [0.0, -0.0, 1e-300], [-1e-300]),
    ("varchar(2)", pa.string(), ["äö"], ["abc"]),
    ("varbinary(2)", pa.binary(), [b"ab"], [b"abc"]),
    ("tinytext", pa.string(), ["a" * 255], ["a" * 256, "ä" * 128]),
    ("tinyblob", pa.binary(), [b"a" * 255], [b"a" * 256]),
    ("date", pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31)], []),
    ("timestamp", pa.timestamp("us"), [dt.datetime(1970, 1, 1, 0, 0, 1)], [dt.datetime(1970, 1, 1)]),
    ("timestamp", pa.timestamp("us"), [dt.datetime(2038, 1, 19, 3, 14, 7)], [dt.datetime(2038, 1, 19, 3, 14, 8)]),
]


@pytest.mark.parametrize(("declared", "kind", "taken", "refused"), COLUMNS)
def test_before_a_log_what_mysql_refuses_is_a_bad_row(
    declared: str, kind: pa.DataType, taken: list[Any], refused: list[Any]
) -> None:
    """Rows of the log are applied when they are decided: then it is too late."""
    base = declared.split()[0].partition("(")[0]
    digits = [int(each) for each in declared.partition("(")[2].partition(")")[0].split(",") if each]
    precision, scale = (*digits, 0, 0)[:2]
    latest = "2038-01-19 03:14:07.999999"
    collation = "utf8mb4_bin" if "text" in base or "char" in base else ""
    column = MySqlColumn(
        *("v", base, declared, True, False, False), False, collation, precision, scale, 6, latest=latest
    )
    choose = of_mysql._BY_TYPE[base](kind, column)
    assert choose is not None
    plan = of_mysql.ColumnPlan("v", "v", choose, column.unsigned, type=base, range=Range.of(column, kind))
    form = MySqlForm((plan,))
    assert form.convert(pa.record_batch([pa.array([*taken, None], kind)], names=["v"]), 1).num_rows == len(taken) + 1
    for value in refused:
        with pytest.raises(BadRowError, match=f"row {len(taken) + 1}, column 'v'"):
            form.convert(pa.record_batch([pa.array([*taken, value], kind)], names=["v"]), 1)


POSTGRES_COLUMNS: list[tuple[of_postgres.Form, pa.DataType, list[Any], list[Any], dict[str, Any]]] = [
    (P.PLAIN, pa.int64(), [-(2**15), 2**15 - 1], [2**15, -(2**15) - 1], {"bits": 16}),
    (P.DECIMAL, pa.decimal128(10, 2), [Decimal("999.99")], [Decimal("1000.00")], {"digits": (5, 2)}),
    (P.MOMENT, pa.timestamp("us"), [dt.datetime(1, 1, 1)], [], {"dated": True}),
    (P.TEXT, pa.string(), ["it's"], ["sad"], {"members": ("it's", "ok")}),
    (P.UUID, pa.string(), ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"], ["a0eebc99"], {}),
]


@pytest.mark.parametrize(("form", "kind", "taken", "refused", "facts"), POSTGRES_COLUMNS)
def test_before_a_log_what_postgresql_refuses_is_a_bad_row(
    form: of_postgres.Form, kind: pa.DataType, taken: list[Any], refused: list[Any], facts: dict[str, Any]
) -> None:
    stored = PostgresForm((of_postgres.ColumnPlan("v", "v", form, **facts),))
    assert stored.convert(pa.record_batch([pa.array([*taken, None], kind)], names=["v"]), 1).num_rows == len(taken) + 1
    for value in refused:
        with pytest.raises(BadRowError, match=f"row {len(taken) + 1}, column 'v'"):
            stored.convert(pa.record_batch([pa.array([*taken, value], kind)], names=["v"]), 1)


@pytest.mark.parametrize("form", [MySqlForm, PostgresForm])
def test_before_a_log_text_is_utf8(form: type[MySqlForm] | type[PostgresForm]) -> None:
    """Of Spark's `CAST(value AS STRING)` it can be any bytes."""
    plan: Any = of_mysql.ColumnPlan("v", "v", M.TEXT) if form is MySqlForm else of_postgres.ColumnPlan("v", "v", P.TEXT)
    with pytest.raises(BadRowError, match="row 2, column 'v'"):
        form((plan,)).convert(pa.record_batch([as_spark_has([b"a", b"a\xff"], pa.string())], names=["v"]), 1)


def test_limits_at_their_edges() -> None:
    check_years("v", pa.array(["0001-01-01", "9999-12-31", "32767-01-01", None]), 1)
    check_moments("v", pa.array(["0000-01-01", "9999-12-31", None]), "0000-01-01", "9999-12-31 23:59:59.999999", 1)
    check_sign("v", pa.array(["-0", "-0.00", "0.1", None]), 1)
    check_decimals("v", pa.array(["99.9", "-99.9", None]), 3, 1, 1)
    check_utf8("v", pa.array(["ä", None]), 1)
    moments = partial(check_moments, low="0000-01-01", high="9999-12-31", first_row=1)
    refusals: list[tuple[Callable[[str, pa.Array], None], str]] = [
        (partial(check_years, first_row=1), "0000-12-31"),
        (partial(check_years, first_row=1), "-4712-01-01"),
        (moments, "10000-01-01"),
        (moments, "-0001-01-01"),
        (partial(check_sign, first_row=1), "-0.001"),
        (partial(check_decimals, precision=3, scale=1, first_row=1), "100.0"),
    ]
    for check, text in refusals:
        with pytest.raises(BadRowError, match="row 2"):
            check("v", pa.array([None, text], pa.string()))


def column(
    name: str, kind: str, *, nullable: bool = False, filled: bool = False, automatic: bool = False
) -> TargetColumn:
    return TargetColumn(name, kind, kind, nullable, filled, False, automatic)


POSTGRES_TABLE: Final = (
    column("id", "int8"),
    column("a", "int4"),
    column("code", "bpchar"),
    column("rate", "float8"),
    column("number", "int8", filled=True, automatic=True),
    column("note", "text", nullable=True),
    column("region", "int4", nullable=True, filled=True),
)
INDEXES: list[tuple[list[UniqueIndex], tuple[str, ...] | None]] = [
    ([], None),
    ([UniqueIndex("i", ("id",), True)], ("id",)),
    ([UniqueIndex("i", ("id", "code"), True)], ("id",)),  # CHAR knows no spaces at the end
    ([UniqueIndex("i", ("rate",), True)], ()),  # -0.0 is 0.0
    ([UniqueIndex("i", ("id",), False)], ()),  # a collation takes values for equal
    ([UniqueIndex("i", ("id",), True), UniqueIndex("j", ("a",), True)], ()),
    ([UniqueIndex("i", ("id", "a"), True), UniqueIndex("j", ("a",), True)], ("a",)),
    ([UniqueIndex("i", (None, "a"), True)], ("a",)),
    ([UniqueIndex("i", ("number",), True)], None),  # a counter that the rows do not give
    ([UniqueIndex("i", ("note",), True)], None),  # NULL is no key
    ([UniqueIndex("i", ("note",), False)], ()),  # NULLS NOT DISTINCT
    ([UniqueIndex("i", ("region",), True)], ()),  # always the same default
]


@pytest.mark.parametrize(("indexes", "expected"), INDEXES)
def test_h15_rows_of_one_key_of_postgresql_come_to_one_task(
    indexes: list[UniqueIndex], expected: tuple[str, ...] | None
) -> None:
    rows = {"id": pa.int64(), "a": pa.int32(), "code": pa.string(), "rate": pa.float64()}
    target = Target("s", "t", "p", POSTGRES_TABLE, tuple(indexes))
    assert partition_columns(target, {name: (name, kind) for name, kind in rows.items()}) == expected

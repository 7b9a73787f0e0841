"""Canal's flat messages become rows: several of a record."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.connectors.formats.binlog_json.written import canal, canal_format, changes, decode, packed, reasons, rows

FORMAT = canal_format("id BIGINT NOT NULL, name STRING")


def test_each_row_of_a_message_is_a_row_in_order() -> None:
    message = canal("INSERT", [{"id": "1", "name": "é"}, {"id": "2", "name": None}, {"id": "3", "name": ""}])
    found = rows(FORMAT, message, canal("DELETE", [{"id": "2", "name": "b"}, {"id": "1"}]))
    event = {"_position": None, "_source_ts": dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC)}
    assert found == [
        {"id": 1, "name": "é", "_op": "c", "_deleted": False, **event, "_row": 0},
        {"id": 2, "name": None, "_op": "c", "_deleted": False, **event, "_row": 1},
        {"id": 3, "name": "", "_op": "c", "_deleted": False, **event, "_row": 2},
        {"id": 2, "name": "b", "_op": "d", "_deleted": True, **event, "_row": 0},
        {"id": 1, "name": None, "_op": "d", "_deleted": True, **event, "_row": 1},
    ]


def test_an_update_of_keys_deletes_the_old_rows() -> None:
    """`old` has the values of every column that an earlier row of the message changed, also unchanged ones."""
    data = [{"id": "3", "name": "a"}, {"id": "2", "name": "b"}, {"id": "9", "name": "c"}]
    old = [{"id": "2"}, {"id": "1", "name": "B"}, {"id": "9", "name": "C"}]
    assert changes(FORMAT, canal("UPDATE", data, old)) == [
        ("d", 2, None),
        ("c", 3, "a"),
        ("d", 1, None),
        ("c", 2, "b"),
        ("u", 9, "c"),
    ]
    assert changes(FORMAT, canal("UPDATE", data[:1], [{"name": "x"}]), canal("UPDATE", data[:1])) == [
        ("u", 3, "a"),
        ("u", 3, "a"),
    ]
    assert changes(FORMAT, canal("INSERT", data[:1], old)) == [("c", 3, "a")]


def test_messages_without_rows_of_the_table_are_omitted() -> None:
    ddl: dict[str, Any] = {"isDdl": True, "sql": "…", "sqlType": None, "mysqlType": None}
    decoded = decode(
        FORMAT,
        None,
        canal("INSERT", [{"id": "x"}], table="other"),
        canal("INSERT", [{"id": "1"}], database="other"),
        *(canal(kind, None, **ddl) for kind in ("CREATE", "ALTER", "ERASE", "RENAME", "CINDEX", "DINDEX")),
        canal("QUERY", None, sql="GRANT"),
        canal("QUERY", None, isDdl=True, table="", sql="CREATE DATABASE"),
        canal("TRUNCATE", None, table="other", **ddl),
    )
    assert decoded.bad == ()
    assert decoded.omitted == tuple(range(12))


def test_a_truncation() -> None:
    truncation = canal("TRUNCATE", None, isDdl=True)
    (reason,) = reasons(FORMAT, truncation)
    assert reason.startswith("the table was truncated")
    assert decode(canal_format("id INT", truncate="skip"), truncation).omitted == (0,)


def test_positions_are_of_the_transaction() -> None:
    data = [{"id": "1"}, {"id": "2"}]
    found = rows(FORMAT, canal("INSERT", data, gtid="3E11FA47-71CA-11E1-9E33-C80AA9429562:23"))
    assert [row["_position"] for row in found] == [f"{23:020}"] * 2


def test_one_bad_row_makes_the_message_bad() -> None:
    """Its other rows are no rows, and its neighbours are."""
    bad = canal("INSERT", [{"id": "1"}, {"id": "x"}, {"id": "3"}])
    decoded = decode(FORMAT, canal("INSERT", [{"id": "5"}, {"id": "6"}]), bad, canal("DELETE", [{"id": "7"}]))
    assert decoded.rows.column("id").to_pylist() == [5, 6, 7]
    assert [(each.index, each.reason) for each in decoded.bad] == [(1, "id: does not fit BIGINT")]


def test_bad_messages() -> None:
    found = reasons(
        canal_format("id BIGINT, name STRING NOT NULL"),
        b"[]",
        packed({"type": "INSERT", "data": []}),
        canal("INSERT", None, sql="INSERT INTO orders …"),
        canal("DELETE", []),
        canal("UPDATE", [{"id": "1", "name": "a"}] * 2, [{"name": "b"}]),
        packed({"database": "shop", "table": "orders", "type": "INSERT", "data": [{"id": "1", "name": "n"}, None]}),
        canal("INSERT", [{"id": 1}]),
        canal("INSERT", [{"id": "1"}]),
        canal("DELETE", [{"name": "n"}]),
        canal("REPLACE", [{"id": "1"}]),
        canal("UPDATE", [{"id": "1", "name": "n"}], [{"id": "0x10"}]),
        canal("INSERT", [{"id": "1", "name": "n"}], es=-(2**62)),
    )
    begins = [
        "not valid JSON: not a JSON object",
        "no `database`, `table` or `type`",
        "no rows in `data`; the server must log rows",
        "no rows in `data`",
        "`old` has another number of rows",
        "a row of `data` is null",
        "field data/[]/id: expected string, found number",
        "name is NOT NULL",
        "id is in the key, and null or absent",
        "unknown type 'REPLACE'",
        "id: does not fit BIGINT",
        "its time is not in the years",
    ]
    assert len(found) == len(begins)
    for reason, begin in zip(found, begins, strict=True):
        assert reason.startswith(begin)


def test_types() -> None:
    """As Canal's `LogEventConvert` writes them."""
    decoder = canal_format(
        "id DECIMAL(20,0), price DECIMAL(38,10), at TIMESTAMP_NTZ, day DATE, photo BINARY, ratio DOUBLE, small FLOAT, "
        "bits BIGINT, hours STRING, yes BOOLEAN, year SMALLINT"
    )
    data = {
        "id": str(2**64 - 1),
        "price": "12345678901234567890.0123456789",
        "at": "2020-05-13 12:38:35.123456",
        "day": "2020-02-29",
        "photo": bytes(range(256)).decode("latin-1"),
        "ratio": "1.5E10",
        "small": "0.1",
        "bits": "5",
        "hours": "-30:00:01",
        "yes": "1",
        "year": "2020",
    }
    (row,) = rows(decoder, canal("INSERT", [data]))
    assert [row[name] for name in decoder.rows.row.names] == [
        Decimal(2**64 - 1),
        Decimal("12345678901234567890.0123456789"),
        dt.datetime(2020, 5, 13, 12, 38, 35, 123456),
        dt.date(2020, 2, 29),
        bytes(range(256)),
        1.5e10,
        pytest.approx(0.1),
        5,
        "-30:00:01",
        True,
        2020,
    ]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("INT", "2147483648"),
        ("INT", "0x10"),
        ("INT", "1.0"),
        ("INT", " 1"),
        ("INT", ""),
        ("INT", "9" * 10_000),
        ("DECIMAL(5,2)", "1.234"),
        ("DECIMAL(5,2)", "1000.00"),
        ("DOUBLE", "NaN"),
        ("DOUBLE", "inf"),
        ("DATE", "0000-00-00"),
        ("TIMESTAMP_NTZ", "0000-00-00 00:00:00"),
        ("BOOLEAN", "2"),
        ("BINARY", "\u0100"),
        ("BINARY", "\U0001f600"),
    ],
)
def test_a_text_that_does_not_fit_is_bad(kind: str, text: str) -> None:
    decoder = canal_format(f"id BIGINT, v {kind}")
    good = canal("INSERT", [{"id": "1", "v": None}])
    decoded = decode(decoder, good, canal("INSERT", [{"id": "2", "v": text}]), good)
    assert [each.reason for each in decoded.bad] == [f"v: does not fit {kind}"]
    assert decoded.rows.column("v").null_count == 2


@given(st.lists(st.one_of(st.none(), st.binary(max_size=20)), max_size=10))
def test_bytes_are_those_of_latin_1(values: list[bytes | None]) -> None:
    decoder = canal_format("id BIGINT, v BINARY")
    texts = [None if value is None else value.decode("latin-1") for value in values]
    message = canal("INSERT", [{"id": str(at), "v": text} for at, text in enumerate(texts)] or [{"id": "0"}])
    assert [row["v"] for row in rows(decoder, message)] == (values or [None])


_ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.one_of(st.none(), st.text(max_size=4))), max_size=4)
_MESSAGES = st.tuples(
    st.sampled_from(["INSERT", "UPDATE", "DELETE", "ALTER", "TRUNCATE"]), st.sampled_from(["orders", "x"]), _ROWS
)


@given(st.lists(_MESSAGES, max_size=8))
def test_random_messages_are_read_as_one_by_one(messages: list[tuple[str, str, list[Any]]]) -> None:
    """Against a reading of Python's, row by row."""
    values, expected, bad = [], [], 0
    for kind, table, changed in messages:
        data = [{"id": str(key), "name": name} for key, _, name in changed]
        old = [{"id": str(before)} for _, before, _ in changed] if kind == "UPDATE" else None
        is_ddl = kind in ("ALTER", "TRUNCATE")
        values.append(canal(kind, None if is_ddl else data, None if is_ddl else old, isDdl=is_ddl, table=table))
        if table == "x" or kind == "ALTER":
            continue
        if is_ddl or not data:
            bad += 1
            continue
        for key, before, name in changed:
            if kind == "UPDATE" and before != key:
                expected += [("d", before, None), ("c", key, name)]
            else:
                expected.append(({"INSERT": "c", "UPDATE": "u", "DELETE": "d"}[kind], key, name))
    decoded = decode(FORMAT, *values)
    assert len(decoded.bad) == bad
    assert [(row["_op"], row["id"], row["name"]) for row in decoded.rows.to_pylist()] == expected


@given(st.lists(st.one_of(st.none(), st.binary(max_size=60)), max_size=6))
def test_any_bytes_raise_nothing(values: list[bytes | None]) -> None:
    decode(FORMAT, *values, canal("INSERT", [{"id": "1"}]))


def test_a_message_of_many_rows() -> None:
    """A statement may change a whole table."""
    message = canal("UPDATE", [{"id": str(at)} for at in range(100_000)], [{"id": "-1"}] * 100_000)
    decoded = FORMAT.decode(pa.array([message]))
    assert decoded.rows.num_rows == 200_000
    assert decoded.rows.column("_row").to_pylist()[-1] == 199_999

"""Maxwell's documents become rows."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.connectors.formats.binlog_json.written import changes, decode, maxwell, maxwell_format, packed, reasons, rows

FORMAT = maxwell_format("id BIGINT NOT NULL, name STRING")


def test_each_document_is_a_row() -> None:
    found = rows(FORMAT, maxwell("insert", {"id": 1, "name": "é"}), maxwell("delete", {"id": 1, "name": "é"}))
    at = dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC)
    place = f"{6:020}:{800911:020}"
    event = {"_source_ts": at, "_row": 0}
    assert found == [
        {"id": 1, "name": "é", "_op": "c", "_deleted": False, "_position": f"{place}:1", **event},
        {"id": 1, "name": "é", "_op": "d", "_deleted": True, "_position": f"{place}:0", **event},
    ]


def test_an_update_has_the_new_values() -> None:
    """Also a null, and a column that `old` names."""
    found = changes(FORMAT, maxwell("update", {"id": 1, "name": None}, {"name": "a"}), maxwell("update", {"id": 2}))
    assert found == [("u", 1, None), ("u", 2, None)]


def test_an_update_of_the_key_deletes_the_old_row() -> None:
    found = rows(
        maxwell_format("a BIGINT, b STRING, v INT NOT NULL", "a", "b"),
        maxwell("update", {"a": 1, "b": "y", "v": 5}, {"b": "x"}),
        maxwell("update", {"a": 2, "b": "z", "v": 6}, {"v": 5}),
        maxwell("update", {"a": 2, "b": "z", "v": 6}, {"b": "z"}),
        maxwell("insert", {"a": 2, "b": "z", "v": 6}, {"b": "x"}),
    )
    assert [(row["_op"], row["_deleted"], row["a"], row["b"], row["v"], row["_row"]) for row in found] == [
        ("d", True, 1, "x", None, 0),
        ("c", False, 1, "y", 5, 1),
        ("u", False, 2, "z", 6, 0),
        ("u", False, 2, "z", 6, 0),
        ("c", False, 2, "z", 6, 0),
    ]
    assert found[0]["_position"] < found[1]["_position"]


def test_of_one_statement_the_row_that_leaves_a_key_is_before_the_row_that_gets_it() -> None:
    """`UPDATE t SET id = id + 1 ORDER BY id DESC`: two documents of one place in the binlog, in any partition."""
    leaves, gets = (
        rows(FORMAT, maxwell("update", {"id": new, "name": "n"}, {"id": old})) for old, new in ((2, 3), (1, 2))
    )
    assert (leaves[0]["id"], leaves[0]["_deleted"], gets[1]["id"], gets[1]["_deleted"]) == (2, True, 2, False)
    assert leaves[0]["_position"] < gets[1]["_position"]


def test_documents_that_are_no_rows_of_the_table_are_omitted() -> None:
    """Whatever they have: of other tables, of a schema's change, and of a bootstrap's ends."""
    definition = {"columns": [{"type": "int", "name": "id"}], "primary-key": ["id"], "id": "text", "table": "orders"}
    decoded = decode(
        FORMAT,
        None,
        maxwell("insert", {"id": "text"}, table="other"),
        maxwell("insert", {"id": 1}, database="other"),
        maxwell("insert", {"id": 1, "database_name": "shop"}, database="maxwell", table="bootstrap"),
        maxwell("bootstrap-start", {}),
        maxwell("bootstrap-insert", {"id": 7, "name": "g"}),
        maxwell("bootstrap-complete", {}),
        maxwell("table-create", None, None, **{"def": definition, "sql": "CREATE"}),
        maxwell("table-alter", None, definition, **{"def": definition, "sql": "ALTER", "ts": 1_700_000_000_000}),
        maxwell("table-drop"),
        maxwell("database-drop"),
    )
    assert decoded.bad == ()
    assert decoded.omitted == (0, 1, 2, 3, 4, 6, 7, 8, 9, 10)
    assert decoded.rows.column("_op").to_pylist() == ["r"]


def test_positions() -> None:
    def position(**more: Any) -> Any:
        (row,) = rows(FORMAT, maxwell("insert", {"id": 1}, **more))
        return row["_position"]

    server = "3E11FA47-71CA-11E1-9E33-C80AA9429562"
    assert position(position="binlog.999999:5") < position(position="binlog.1000000:4")
    assert position(position="a.b:c.000001:99") == f"{1:020}:{99:020}:1"
    assert position(position=None, gtid=f"{server}:1-77") == f"{77:020}"
    assert position(position=None, gtid=f"{server}:78") == f"{78:020}"
    assert position(position=None, gtid="0-1-100") == f"{100:020}"
    assert position(position="binlog.000001:5", gtid=f"{server}:1-77") == f"{1:020}:{5:020}:1"
    assert position(position=None, gtid=f"{server}:1-77,4E11FA47-71CA-11E1-9E33-C80AA9429562:1-5") is None
    assert position(position=None) is None
    assert position(position="", gtid="") is None


def test_bad_documents() -> None:
    found = reasons(
        maxwell_format("id BIGINT NOT NULL, name STRING NOT NULL, price DECIMAL(5,2)"),
        b"{",
        packed({"id": 1}),
        maxwell("insert"),
        maxwell("insert", "encrypted"),
        maxwell("insert", {"id": 1}),
        maxwell("delete", {"name": "n"}),
        maxwell("table-truncate"),
        maxwell("insert", {"id": 1, "name": "n", "price": 1.234}),
        maxwell("update", {"id": 1, "name": "n"}, {"id": "x"}),
        maxwell("insert", {"id": 1, "name": "n"}, ts=2**60),
    )
    begins = [
        "not",
        "no `database`, `table` or `type`",
        "no `data`",
        "field data: expected object, found string",
        "name is NOT NULL",
        "id is in the key, and null or absent",
        "unknown type 'table-truncate'",
        "field data/price: 1.234 requires scale 3",
        "field old/id: expected number, found string",
        "its time is not in the years 1 to 9999",
    ]
    assert len(found) == len(begins)
    for reason, begin in zip(found, begins, strict=True):
        assert reason.startswith(begin)


def test_types() -> None:
    """As Maxwell's columndef classes write them."""
    decoder = maxwell_format(
        "id DECIMAL(20,0), price DECIMAL(38,10), at TIMESTAMP_NTZ, moment TIMESTAMP, day DATE, flags ARRAY<STRING>, "
        "photo BINARY, ratio DOUBLE, bits BIGINT, hours STRING, details STRUCT<a: INT>"
    )
    data = (
        b'{"id":18446744073709551615,"price":12345678901234567890.0123456789,"at":"2016-10-21 05:33:37.523000",'
        b'"moment":"2016-10-21 05:33:37","day":"2020-02-29","flags":["b","c"],"photo":"AP8=","ratio":4.2341,'
        b'"bits":5,"hours":"-30:00:01","details":{"a":1,"b":2}}'
    )
    (row,) = rows(decoder, b'{"database":"shop","table":"orders","type":"insert","ts":1,"data":' + data + b"}")
    assert [row[name] for name in decoder.rows.row.names] == [
        Decimal(2**64 - 1),
        Decimal("12345678901234567890.0123456789"),
        dt.datetime(2016, 10, 21, 5, 33, 37, 523000),
        dt.datetime(2016, 10, 21, 5, 33, 37, tzinfo=dt.UTC),
        dt.date(2020, 2, 29),
        ["b", "c"],
        b"\x00\xff",
        4.2341,
        5,
        "-30:00:01",
        {"a": 1},
    ]
    (reason,) = reasons(decoder, maxwell("insert", {"id": 1, "at": "0000-00-00 00:00:00"}))
    assert reason.startswith("field data/at: Failed to parse string: '0000-00-00 00:00:00'")


_NAMES = st.one_of(st.none(), st.text(max_size=5))
_DOCUMENTS = st.tuples(
    st.sampled_from(["insert", "update", "delete", "bootstrap-insert", "table-alter", "nonsense"]),
    st.sampled_from(["orders", "orders", "orders", "other"]),
    st.integers(0, 3),
    st.one_of(st.none(), st.integers(0, 3)),
    _NAMES,
)


@given(st.lists(_DOCUMENTS, max_size=12))
def test_random_documents_are_read_as_one_by_one(documents: list[tuple[str, str, int, int | None, str | None]]) -> None:
    """Against a reading of Python's, document by document."""
    expected: list[tuple[Any, ...]] = []
    values, bad = [], 0
    for kind, table, key, old, name in documents:
        values.append(maxwell(kind, {"id": key, "name": name}, {} if old is None else {"id": old}, table=table))
        if table != "orders" or kind == "table-alter":
            continue
        if kind == "nonsense":
            bad += 1
            continue
        is_moved = kind == "update" and old is not None and old != key
        if is_moved:
            expected.append(("d", old, None))
        letter = {"insert": "c", "update": "c" if is_moved else "u", "delete": "d", "bootstrap-insert": "r"}[kind]
        expected.append((letter, key, name))
    decoded = decode(FORMAT, *values)
    assert len(decoded.bad) == bad
    assert [(row["_op"], row["id"], row["name"]) for row in decoded.rows.to_pylist()] == expected


@given(st.lists(st.one_of(st.none(), st.binary(max_size=60)), max_size=6))
def test_any_bytes_raise_nothing(values: list[bytes | None]) -> None:
    decode(FORMAT, *values, maxwell("insert", {"id": 1}))


@pytest.mark.parametrize("depth", [100, 50_000])
def test_hostile_documents(depth: int) -> None:
    """Nested deeply, with a number of 10,000 digits, with a field twice: bad, and their neighbours are rows."""
    deep = b'{"database":"shop","table":"orders","type":"insert","data":{"id":' + b"[" * depth + b"]" * depth + b"}}"
    long = b'{"database":"shop","table":"orders","type":"insert","data":{"id":' + b"9" * 10_000 + b"}}"
    twice = b'{"database":"shop","table":"orders","type":"insert","data":{"id":1,"id":2}}'
    good = maxwell("insert", {"id": 1})
    decoded = decode(FORMAT, good, deep, long, twice, good)
    assert [each.index for each in decoded.bad] == [1, 2, 3]
    assert decoded.rows.num_rows == 2


@pytest.mark.parametrize("seconds", [18_446_744_073_709_553, 2**63 - 1, -18_446_744_073_709_551, 2**53 + 1])
def test_a_time_whose_milliseconds_have_more_than_64_bits_is_bad(seconds: int) -> None:
    """Arrow's product overflows silently: it was a time in 1970."""
    assert reasons(FORMAT, maxwell("insert", {"id": 1, "name": "n"}, ts=seconds)) == [
        "its time is not in the years 1 to 9999"
    ]

"""`commit: upsert` of records with several rows: `_row` orders the rows of a key that one record has."""

from __future__ import annotations

import itertools
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from connectors.log.keyed import Upsert
from connectors.log.place import LogPlace
from connectors.log.segments import segment_of
from connectors.sql.sqlite.sink import SqliteSink
from eos.errors import BadRowError, TargetError
from twophase.ids import Scope, TransactionId, sink_key
from wal.segment import read_segment

PLACE: Final = [("_partition", pa.int32()), ("_offset", pa.int64())]
ROWS: Final = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("gone", pa.bool_()), *PLACE, ("_row", pa.int32())])
TRANSACTION: Final = TransactionId(Scope("c" * 20, 1, 0), sink_key("s"), 0, 1)

Row = tuple[int, int | None, bool, int, int]
"""`id, v, gone, _offset, _row`."""


def sink_of(folder: Path, upsert: Upsert) -> SqliteSink:
    with closing(sqlite3.connect(folder / "t.db")) as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER, gone BOOLEAN)")
    return SqliteSink("s", folder / "t.db", "t", LogPlace(folder / "log"), upsert)


def kept(folder: Path, upsert: Upsert, rows: list[Row], size: int) -> list[dict[str, Any]]:
    """The rows that a task has for the log. `size`: of its batches."""
    opened = sink_of(folder, upsert).open(ROWS)
    writer = opened.writer(TRANSACTION)
    named = [dict(zip(("id", "v", "gone", "_offset", "_row"), row, strict=True)) | {"_partition": 0} for row in rows]
    for start in range(0, len(named), size):
        batch = pa.RecordBatch.from_pylist(named[start : start + size], schema=ROWS)
        writer.write(batch.select(list(opened.columns)))
    ref = segment_of(writer.prepare())
    assert ref is not None
    found = [row for batch in read_segment(opened.log.open(), ref) for row in batch.to_pylist()]
    return sorted(({"id": row["id"], "v": row["v"], "gone": row["__gone"]} for row in found), key=lambda row: row["id"])


CHANGES: Final[list[Row]] = [
    (1, 10, False, 5, 0),
    (1, 11, False, 5, 1),
    (2, 20, False, 5, 2),
    (2, None, True, 5, 3),  # a deletion behind a row, which is not undone by it
    (3, None, True, 5, 4),
    (3, 31, False, 5, 5),
    (1, 12, False, 5, 6),
]


@pytest.mark.parametrize("size", [1, 3, 7])
@pytest.mark.parametrize("order", [1, -1, 3, 5])
def test_the_last_row_of_a_key_in_a_record_is_the_newest(tmp_path: Path, size: int, order: int) -> None:
    """In any order in which a shuffle brings them."""
    rows = CHANGES[::order] if order < 0 else [CHANGES[at * order % 7] for at in range(7)]
    newest = [{"id": 1, "v": 12, "gone": False}, {"id": 2, "v": None, "gone": True}, {"id": 3, "v": 31, "gone": False}]
    assert kept(tmp_path, Upsert(("id",), "gone"), rows, size) == newest


@pytest.mark.parametrize("order", list(itertools.permutations(range(3)))[:4])
def test_the_first_row_of_a_key_in_a_record_stays_if_rows_stay(tmp_path: Path, order: tuple[int, ...]) -> None:
    rows = [(1, 10, False, 5, 0), (1, 11, False, 5, 1), (1, 12, False, 6, 0)]
    upsert = Upsert(("id",), keep=True)
    assert kept(tmp_path, upsert, [rows[at] for at in order], 1) == [{"id": 1, "v": 10, "gone": False}]


def test_rows_of_records_with_several_rows_have_their_number(tmp_path: Path) -> None:
    upsert = Upsert(("id",), by_row=True)
    sink = sink_of(tmp_path, upsert)
    with pytest.raises(
        TargetError, match="the rows have no column _row, which orders the rows of one record"
    ) as caught:
        sink.open(ROWS.remove(ROWS.get_field_index("_row")))
    assert "select id, _offset, _partition, _row," in caught.value.remedy
    text = ROWS.set(ROWS.get_field_index("_row"), pa.field("_row", pa.string()))
    with pytest.raises(TargetError, match="column _row of the rows is STRING, not a whole number"):
        sink.open(text)
    writer = sink.open(ROWS).writer(TRANSACTION)
    row = {"id": 1, "v": 1, "_partition": 0, "_offset": 5, "_row": None}
    with pytest.raises(BadRowError, match="column '_row': NULL"):
        writer.write(pa.RecordBatch.from_pylist([row], schema=ROWS).select(list(sink.open(ROWS).columns)))


def test_a_record_s_place_is_no_key_of_its_rows(tmp_path: Path) -> None:
    """Of several rows of a record only one would stay."""
    schema = pa.schema([("v", pa.int64()), *PLACE, ("_row", pa.int32())])
    (tmp_path / "t.db").touch()
    columns = "_partition INTEGER, _offset INTEGER, _row INTEGER, v INTEGER"
    with closing(sqlite3.connect(tmp_path / "t.db")) as connection:
        connection.execute(f"CREATE TABLE t ({columns}, PRIMARY KEY (_partition, _offset))")
        connection.execute(f"CREATE TABLE u ({columns}, PRIMARY KEY (_partition, _offset, _row))")
    log = LogPlace(tmp_path / "log")
    with pytest.raises(TargetError, match="the key _partition, _offset is the same for all rows of a record; add _row"):
        SqliteSink("s", tmp_path / "t.db", "t", log, Upsert(("_partition", "_offset"), by_row=True)).open(schema)
    SqliteSink("s", tmp_path / "t.db", "u", log, Upsert(("_partition", "_offset", "_row"), by_row=True)).open(schema)


def test_a_text_of_this_name_does_not_order_rows(tmp_path: Path) -> None:
    """A column of the user's own, where records have one row each."""
    text = ROWS.set(ROWS.get_field_index("_row"), pa.field("_row", pa.string()))
    assert sink_of(tmp_path, Upsert(("id",))).open(text).columns[-2:] == ("_offset", "_partition")

"""Rows merged by their own order, deletions that keep a row, and rows that stay, in a SQLite file."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from connectors.log.keyed import Upsert
from connectors.log.place import LogPlace
from eos.errors import BadRowError, TargetError
from integration_tests.merging import LONG, Merging

TABLE = "k INTEGER PRIMARY KEY, v INTEGER, n INTEGER, d TEXT"
SCHEMA = pa.schema(
    [("k", LONG), ("v", LONG), ("n", LONG), ("d", pa.timestamp("us")), ("_partition", pa.int32()), ("_offset", LONG)]
)
NOON = datetime.datetime(2026, 1, 2, 12)
AT_NOON = "2026-01-02 12:00:00.000000"


@pytest.fixture
def made(tmp_path: Path) -> Merging:
    """Of rows with an order `n`, whose deletions have a time `d`."""
    upsert = Upsert(("k",), deleted_at="d", order_by="n")
    return Merging(f"sqlite:///{tmp_path / 't.db'}", LogPlace(tmp_path / "log"), TABLE, upsert, SCHEMA)


def test_the_greatest_order_wins_in_a_checkpoint_and_after_it(made: Merging) -> None:
    made.start().checkpoint(0, [(1, 11, 6, None, 3, 1), (1, 10, 5, None, 0, 7)])
    assert made.rows() == [(1, 11, 6, None)]
    made.checkpoint(1, [(1, 12, 5, None, 0, 8), (2, 20, 1, None, 0, 9)])
    assert made.rows() == [(1, 11, 6, None), (2, 20, 1, None)]
    made.checkpoint(2, [(1, 13, 6, None, 0, 10)])
    assert made.rows() == [(1, 13, 6, None), (2, 20, 1, None)], "as new as the stored one"


def test_a_stored_row_without_an_order_is_the_oldest(made: Merging) -> None:
    made.execute("INSERT INTO merged VALUES (1, 7, NULL, NULL)")
    made.start().checkpoint(0, [(1, 8, -5, None, 0, 1)])
    assert made.rows() == [(1, 8, -5, None)]


def test_a_deletion_is_stored_and_older_rows_are_not(made: Merging) -> None:
    made.start().checkpoint(0, [(1, 10, 1, None, 0, 1), (2, None, 5, NOON, 0, 2)])
    made.checkpoint(1, [(1, None, 3, NOON, 1, 2), (2, 20, 4, None, 1, 3)])
    made.checkpoint(2, [(1, 11, 2, None, 0, 3)])
    assert made.rows() == [(1, 10, 3, AT_NOON), (2, None, 5, AT_NOON)]


def test_a_deletion_that_the_table_cannot_store_is_refused_at_the_start(made: Merging) -> None:
    made.execute(
        "DROP TABLE merged", "CREATE TABLE merged (k INTEGER PRIMARY KEY, v INTEGER NOT NULL, n INTEGER, d TEXT)"
    )
    with pytest.raises(TargetError, match="a deletion of a key that the table lacks gives v no value"):
        made.start()
    made.upsert = replace(made.upsert, order_by=None)
    made.start().checkpoint(0, [(1, 10, 1, None, 0, 1), (2, None, None, NOON, 0, 2), (1, None, None, NOON, 0, 3)])
    assert made.rows() == [(1, 10, 1, AT_NOON)], "what is not there stays away"


def test_a_deletion_keeps_the_newest_values_of_its_checkpoint(made: Merging) -> None:
    made.upsert = replace(made.upsert, order_by=None)
    made.start().checkpoint(0, [(1, 10, 1, None, 0, 1), (1, 11, 2, None, 0, 2), (1, None, None, NOON, 0, 3)])
    assert made.rows() == [(1, 11, 2, AT_NOON)]
    made.checkpoint(1, [(1, None, None, NOON, 0, 4), (1, 12, 3, None, 0, 5)])
    assert made.rows() == [(1, 12, 3, None)]


def test_the_first_row_stays(made: Merging) -> None:
    made.upsert = Upsert(("k",), keep=True)
    made.execute("INSERT INTO merged VALUES (1, 7, 0, NULL)")
    made.start().checkpoint(0, [(2, 21, 0, None, 0, 5), (2, 20, 0, None, 0, 4), (1, 10, 0, None, 0, 6)])
    made.checkpoint(1, [(2, 22, 0, None, 0, 7)])
    assert made.rows("k, v") == [(1, 7), (2, 20)]


@pytest.mark.parametrize("keep", [True, False])
def test_a_row_that_a_trigger_leaves_out_is_not_taken_for_an_old_one(made: Merging, keep: bool) -> None:
    if keep:
        made.upsert = Upsert(("k",), keep=True)
    made.start().checkpoint(0, [(1, 7, 5, None, 0, 1)])
    made.execute("CREATE TRIGGER skips BEFORE INSERT ON merged WHEN NEW.k = 2 BEGIN SELECT RAISE(IGNORE); END")
    made.decide(1, [(1, 6, 4, None, 0, 2), (2, 8, 4, None, 0, 3)])
    with pytest.raises(BadRowError, match="took 1 of 2 rows"):
        made.commit(1)


def test_numbers_that_sqlite_compares_as_text_are_no_order(made: Merging) -> None:
    made.execute("DROP TABLE merged", "CREATE TABLE merged (k INTEGER PRIMARY KEY, v INTEGER, n TEXT, d TEXT)")
    made.schema = SCHEMA.set(2, pa.field("n", pa.decimal128(30, 0)))
    with pytest.raises(TargetError, match="in column n SQLite compares numbers as text"):
        made.start()
    made.schema = SCHEMA.set(2, pa.field("n", pa.timestamp("us")))
    made.start().checkpoint(0, [(1, 7, NOON, None, 0, 1), (1, 8, NOON - datetime.timedelta(0, 1), None, 0, 2)])
    assert made.rows("v") == [(7,)]

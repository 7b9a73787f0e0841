"""A sink of several tables, in a SQLite file."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connectors.api.contracts import Writer
from connectors.api.table_rows import TableChange, with_table
from connectors.dead_letters import SCHEMA as LETTERS
from connectors.log.chunks import SCHEMA as CHUNKS
from connectors.log.chunks import by_table
from connectors.log.keyed import Upsert
from connectors.log.keyed_rows import MergingRowWriter
from connectors.log.place import LogPlace
from connectors.row_bisector import RowBisector
from connectors.sql import multi_table, tables_writer
from connectors.sql.multi_table import SqlTablesSink
from connectors.sql.schema_migration import SchemaMigrator
from connectors.sql.sqlite.sink import SqliteSink
from connectors.sql.table_settings import Rewrite, Route, TableSettings
from connectors.sql.tables_writer import TablesWriter
from eos.errors import BadRowError, IncomparableRowsError, TargetError
from integration_tests.multi_table import Tables, batch
from spark_jobs.batch.stopwatch import Stopwatch
from spark_jobs.batch.writing import Share, _written
from twophase.ids import Scope, TransactionId, sink_key
from twophase.values import CommitOutcome

LONG, TEXT, BOOL = pa.int64(), pa.string(), pa.bool_()
ORDER = {"id": LONG, "buyer": TEXT, "_deleted": BOOL}


@pytest.fixture
def made(tmp_path: Path) -> Tables:
    return Tables(f"sqlite:///{tmp_path / 't.db'}", LogPlace(tmp_path / "log"))


def orders(*rows: tuple[int, str, bool, int], partition: int = 0) -> pa.RecordBatch:
    found = [
        {"id": key, "buyer": buyer, "_deleted": gone, "_offset": at, "_partition": partition}
        for key, buyer, gone, at in rows
    ]
    return batch("orders", ["id"], found, **ORDER)


def priced(*rows: tuple[int, str, int, int], partition: int = 0) -> pa.RecordBatch:
    """Orders of a later schema."""
    found = [
        {"id": key, "buyer": buyer, "price": price, "_deleted": False, "_offset": at, "_partition": partition}
        for key, buyer, price, at in rows
    ]
    return batch("orders", ["id"], found, id=LONG, buyer=TEXT, price=LONG, _deleted=BOOL)


def items(*rows: tuple[int, int, str, int]) -> pa.RecordBatch:
    found = [{"order": o, "line": n, "sku": sku, "_deleted": False, "_offset": at} for o, n, sku, at in rows]
    return batch("items", ["order", "line"], found, order=LONG, line=LONG, sku=TEXT, _deleted=BOOL)


def test_each_topic_has_its_table_and_its_key(made: Tables) -> None:
    made.start()
    learned = made.checkpoint(0, [orders((1, "a", False, 0), (2, "b", False, 1)), items((1, 1, "x", 0))], [])
    assert learned == 2
    assert made.tables() == {"orders", "items"}
    assert [(each.table, each.topic) for each in made.changes] == [("items", "items"), ("orders", "orders")]
    assert all(each.statement.startswith(f'CREATE TABLE IF NOT EXISTS "{each.table}"') for each in made.changes)
    assert made.rows("orders") == [(1, "a"), (2, "b")]
    assert made.rows("items") == [(1, 1, "x")]
    learned = made.checkpoint(
        1, [orders((1, "c", False, 2), (2, "b", True, 3))], [items((1, 1, "y", 1), (1, 2, "z", 2))]
    )
    assert learned == 0, "known by then"
    assert made.rows("orders") == [(1, "c")]
    assert made.rows("items") == [(1, 1, "y"), (1, 2, "z")]
    assert {each.rows for each in made.decided[1]} == {2}
    assert set(made.commit(1)) == {CommitOutcome.ALREADY_COMMITTED}


def test_nothing_is_prepared_by_a_task_that_meets_an_unknown_table(made: Tables) -> None:
    made.start()
    wanted = made.write(0, [[orders((1, "a", False, 0)), items((1, 1, "x", 0))], []])
    assert len(wanted) == 2
    assert [each.rows for each in made.decided[0]] == [0]
    assert not list(made.committer.prepared(made.incarnation))
    assert not made.tables(), "only `learn` creates tables"


def test_a_schema_with_another_column_widens_the_table(made: Tables) -> None:
    made.start()
    made.checkpoint(0, [orders((1, "a", False, 0))])
    assert made.checkpoint(1, [orders((2, "b", False, 1)), priced((3, "c", 30, 2))]) == 1
    assert made.rows("orders") == [(1, "a", None), (2, "b", None), (3, "c", 30)]
    assert made.changes[1:] == [TableChange("orders", 'ALTER TABLE "orders" ADD COLUMN "price" INTEGER', "orders")]


def test_rows_of_one_key_with_two_schemas_are_applied_in_their_order(made: Tables) -> None:
    """A row sets the columns that its schema has, and leaves the others."""
    made.start()
    made.checkpoint(
        0,
        [
            orders((1, "old", False, 0), (2, "old", False, 1), (3, "x", False, 2)),
            priced((1, "new", 10, 3), (2, "mid", 20, 4)),
            orders((2, "new", False, 5), (3, "x", True, 6)),
            priced((4, "y", 40, 7)),
        ],
    )
    assert made.rows("orders") == [(1, "new", 10), (2, "new", 20), (4, "y", 40)]


def test_the_order_of_rows_does_not_depend_on_the_order_of_batches(made: Tables) -> None:
    """A source gives the rows of one schema together, also where records of two schemas alternate."""
    made.start()
    first, second = orders((1, "old", False, 0), (2, "new", False, 9)), priced((1, "new", 10, 5), (2, "old", 20, 4))
    made.checkpoint(0, [first, second, items((1, 1, "x", 0))])
    later = orders((3, "new", False, 12), (4, "a", True, 13))
    made.checkpoint(1, [priced((3, "old", 30, 11), (4, "new", 40, 14)), later])
    made.checkpoint(2, [priced((5, "a", 50, 15)), orders((5, "a", True, 16)), priced((6, "a", 60, 18))])
    assert made.rows("orders") == [(1, "new", 10), (2, "new", 20), (3, "new", 30), (4, "new", 40), (6, "a", 60)]


def test_a_row_after_a_deletion_keeps_no_value_of_the_deleted_row(made: Tables) -> None:
    """Wherever a checkpoint ends: the later row does not have the column, which must be NULL."""
    made.start()
    deleted, written = orders((1, "a", True, 1)), orders((1, "b", False, 2))
    made.checkpoint(0, [priced((1, "a", 10, 0), (2, "a", 20, 3))])
    made.checkpoint(1, [deleted, written])
    assert made.rows("orders") == [(1, "b", None), (2, "a", 20)]
    both = [orders((2, "a", True, 5), (2, "b", False, 6)), priced((2, "z", 21, 4), (3, "y", 30, 7))]
    made.checkpoint(2, [*both, orders((3, "y", True, 8), (4, "c", True, 9))])
    assert made.rows("orders") == [(1, "b", None), (2, "b", None)]


@pytest.mark.parametrize("second", [pa.int64(), pa.int32(), pa.decimal128(12, 2), pa.decimal128(14, 4)])
def test_a_key_whose_type_changes_is_one_key(made: Tables, second: pa.DataType) -> None:
    """The values of the types are written as other texts, 1 and 1.00, and are one key of the table."""

    def keyed(kind: pa.DataType, *rows: tuple[int, str, int]) -> pa.RecordBatch:
        found = [{"id": Decimal(key), "buyer": buyer, "_deleted": False, "_offset": at} for key, buyer, at in rows]
        given = batch("orders", ["id"], found, id=pa.decimal128(10, 0), buyer=TEXT, _deleted=BOOL)
        schema = given.schema.set(0, pa.field("id", kind))
        return pa.record_batch([given.column(0).cast(kind), *given.columns[1:]], schema=schema)

    made.start()
    made.execute("CREATE TABLE orders (id DECIMAL(20, 4) PRIMARY KEY, buyer TEXT)")
    first = pa.decimal128(10, 0)
    rows = [keyed(first, (1, "v1", 0), (1, "v3", 2), (20, "w1", 3)), keyed(second, (1, "v2", 1), (20, "w2", 4))]
    made.checkpoint(0, rows)
    assert made.rows("orders") == [(1, "v3"), (20, "w2")]


def test_two_names_of_one_table_are_one_table(made: Tables) -> None:
    """SQLite compares names without regard to case, so the rows of both names are applied in their order."""

    def named(name: str, *rows: tuple[int, str, bool, int]) -> pa.RecordBatch:
        found = orders(*rows)
        return found.replace_schema_metadata(with_table(found.schema, name, ("id",)).metadata)

    made.route = Route("${schema}")
    made.start()
    first = named("Orders", (1, "v1", False, 0), (1, "v3", False, 2), (2, "w1", False, 3))
    made.checkpoint(0, [first, named("orders", (1, "v2", False, 1), (2, "w2", False, 4))])
    assert made.tables() == {"Orders"}
    assert made.rows("Orders") == [(1, "v3"), (2, "w2")]


def test_the_first_row_of_a_key_stays_whatever_schema_it_has(made: Tables) -> None:
    made.upsert = Upsert((), by_topic=True, keep=True)
    made.start()
    made.checkpoint(0, [priced((1, "later", 10, 5)), orders((1, "first", False, 2))])
    made.checkpoint(1, [priced((1, "last", 11, 6))])
    assert made.rows("orders", "id, buyer") == [(1, "first")]


def test_one_key_in_two_partitions_of_two_schemas_stops(made: Tables) -> None:
    made.start()
    both = [orders((1, "a", False, 0)), priced((1, "b", 1, 0), partition=1)]
    made.sink.learn(made.write(0, [both]), made.changes.append)
    with pytest.raises(IncomparableRowsError, match="key id 1 comes from partitions 0 and 1"):
        made.write(0, [both])


def test_an_older_schema_in_another_task_does_not_matter(made: Tables) -> None:
    made.start()
    made.checkpoint(0, [priced((1, "a", 10, 9), partition=1)], [orders((2, "b", False, 3))])
    assert made.rows("orders") == [(1, "a", 10), (2, "b", None)]


def test_one_key_in_two_partitions_of_a_task_stops(made: Tables) -> None:
    """H16: which row is newer cannot be known."""
    made.start()
    both = [orders((1, "a", False, 0)), orders((1, "b", False, 0), partition=1)]
    made.sink.learn(made.write(0, [both]), made.changes.append)
    with pytest.raises(IncomparableRowsError):
        made.write(0, [both])


def test_rows_are_added_without_a_key(made: Tables) -> None:
    made.upsert = None
    made.start()
    made.checkpoint(0, [orders((1, "a", False, 0)), priced((1, "a", 1, 1)), orders((1, "a", False, 2))])
    assert made.rows("orders", "id, buyer, price") == [(1, "a", 1), (1, "a", None), (1, "a", None)]


def test_names_are_rewritten_by_the_first_rule_that_matches(made: Tables) -> None:
    made.route = Route("${topic}", (Rewrite("ord(.*)", r"copy_\1"), Rewrite(".*", None)))
    made.rejects = True
    made.start()
    made.sink.learn(made.write(0, [[orders((1, "a", False, 0)), items((1, 1, "x", 0))]]), made.changes.append)
    assert made.tables() == {"copy_ers"}
    with pytest.raises(BadRowError, match="no table for records of topic items"):
        made.write(0, [[orders((1, "a", False, 0)), items((1, 1, "x", 0))]])
    made.checkpoint(0, [orders((1, "a", False, 0))])
    assert made.rows("copy_ers") == [(1, "a")]


def test_a_name_may_come_from_the_schema() -> None:
    assert Route("x_${schema}").table("t", "Order", {}) == "x_Order"


def kinds(*rows: tuple[int, str | None, int], kind: pa.DataType = TEXT, partition: int = 0) -> pa.RecordBatch:
    found = [{"id": key, "kind": value, "_offset": at, "_partition": partition} for key, value, at in rows]
    return batch("events", ["id"], found, id=LONG, kind=kind)


def test_each_value_of_a_column_has_its_table(made: Tables) -> None:
    made.route, made.upsert = Route("${column.kind}_${topic}"), Upsert((), by_topic=True)
    made.start()
    rows = kinds((1, "paid", 0), (2, "sent", 1), (1, "sent", 2), (1, "paid", 3))
    others = kinds((3, "sent", 0), (4, "lost", 1), partition=1)
    assert made.checkpoint(0, [rows], [others]) == 2 + 2, "each task asks for its own"
    assert made.tables() == {"paid_events", "sent_events", "lost_events"}
    assert made.rows("paid_events") == [(1, "paid")]
    assert made.rows("sent_events") == [(1, "sent"), (2, "sent"), (3, "sent")]
    assert made.rows("lost_events") == [(4, "lost")]
    assert sum(each.rows for each in made.decided[0]) == 6
    assert made.checkpoint(1, [kinds((1, "lost", 4), (2, "sent", 5))]) == 0
    assert made.rows("lost_events", "id") == [(1,), (4,)]


def test_values_of_a_column_that_share_a_table_are_applied_in_their_order(made: Tables) -> None:
    made.route, made.upsert = Route("${column.kind}", (Rewrite("[ab]", "both"),)), Upsert((), by_topic=True)
    made.start()
    made.checkpoint(0, [kinds((1, "a", 0), (1, "b", 1), (2, "b", 2), (2, "a", 3))])
    assert made.rows("both") == [(1, "b"), (2, "a")]


def test_a_table_may_take_some_of_the_columns(made: Tables) -> None:
    """Rows of several kinds have the columns of all of them, and each table has those of its kind."""
    made.route, made.upsert = Route("${column.kind}"), Upsert((), by_topic=True)
    made.settings = {
        "order": TableSettings(selected=("id", "price")),
        "visit": TableSettings(("page",), ("page",), {"path": "page"}),
        "lost": TableSettings(selected=("id", "prize")),
    }
    made.start()
    columns = {"id": LONG, "kind": TEXT, "price": LONG, "page": TEXT}
    order = {"id": 1, "kind": "order", "price": 7, "page": None, "_offset": 0}
    visit = {"id": None, "kind": "visit", "price": None, "page": "/a", "_offset": 1}
    made.checkpoint(0, [batch("events", ["id"], [order, visit], **columns)])
    assert made.rows("order") == [(1, 7)]
    assert made.rows("visit", "path") == [("/a",)]
    assert [each.statement.count("kind") for each in made.changes] == [0, 0]
    lost = batch("events", ["id"], [{**order, "kind": "lost"}], **columns)
    with pytest.raises(TargetError, match="`select` names the column prize, which the rows do not have"):
        made.sink.learn(made.write(1, [[lost]]), made.changes.append)


def test_a_name_in_other_case_does_not_lose_its_settings(made: Tables) -> None:
    made.route, made.upsert = Route("${column.kind}"), None
    made.settings = {"order": TableSettings(selected=("id",))}
    made.start()
    with pytest.raises(TargetError, match="records have the table ORDER, and `tables` names order"):
        made.sink.learn(made.write(0, [[kinds((1, "ORDER", 1))]]), made.changes.append)


def test_names_are_compared_as_the_database_does(made: Tables) -> None:
    made.route, made.upsert = Route("${column.kind}"), None
    made.start()
    assert made.checkpoint(0, [kinds((1, "\u00c9a", 0), (2, "\u00e9A", 1), (3, "\u00e9a", 2))]) == 3
    assert made.tables() == {"\u00c9a", "\u00e9A"}
    assert made.rows("\u00e9A", "id") == [(2,), (3,)]


def test_numbers_name_tables(made: Tables) -> None:
    made.route, made.upsert = Route("kind_${column.kind}"), None
    made.start()
    rows = batch("events", [], [{"kind": n % 3, "_offset": n} for n in range(10)], kind=pa.int32())
    made.checkpoint(0, [rows])
    assert {table: len(made.rows(table)) for table in made.tables()} == {"kind_0": 4, "kind_1": 3, "kind_2": 3}


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (kinds((1, None, 1)), "NULL in column kind"),
        (kinds((1, "", 1)), "an empty text in column kind"),
        (kinds((1, "a\0b", 1)), r"the table a\\x00b, with a character that cannot be shown"),
        (kinds((1, "a\u202eb", 1)), r"the table a\\u202eb, with a character that cannot be shown"),
        (kinds((1, "x" * 400, 1)), "more than 300 characters in column kind"),
        (kinds((1, "mysql.user", 1)), "with a dot that the spec does not have"),
        (kinds((1, "eos_claims", 1)), "a name of the protocol"),
        (kinds((1, "SQLite_sequence", 1)), "which has the dead letters or is the database's own"),
        (kinds((1, "drop\n", 1)), "no table for records of topic events, schema events.Value, kind = 'drop"),
        (kinds((1, "drop", 1)), "no table for records of topic events, schema events.Value, kind = 'drop'"),
        (batch("events", ["id"], [{"id": 1, "_offset": 1}], id=LONG), "no column kind"),
        (batch("events", ["id"], [{"id": 1, "kind": 0.5, "_offset": 1}], id=LONG, kind=pa.float64()), "of type DOUBLE"),
    ],
)
def test_rows_whose_value_names_no_table_are_bad_and_the_others_are_written(
    made: Tables, rows: pa.RecordBatch, reason: str
) -> None:
    rules = (Rewrite("good", "good"), Rewrite("drop.*", None))
    made.route, made.upsert = Route("${column.kind}", rules), Upsert((), by_topic=True)
    made.start()
    with pytest.raises(TargetError, match=reason):
        made.sink.learn(made.write(0, [[rows]]), made.changes.append)
    made.rejects = True
    made.start()
    made.sink.learn(made.write(0, [[rows, kinds((2, "good", 2))]]), made.changes.append)
    with pytest.raises(BadRowError, match=reason):
        made.write(0, [[rows]])
    made.checkpoint(0, [kinds((2, "good", 2))])
    assert made.rows("good") == [(2, "good")]


def test_rows_are_not_bad_because_of_the_server(made: Tables) -> None:
    """If a server refuses each login, it has judged no table. The rows wait."""
    made.route, made.upsert, made.rejects = Route("${column.kind}"), None, True
    made.start()
    wanted = made.write(0, [[kinds((1, "a", 1))]])
    file = Path(made.url.removeprefix("sqlite:///"))
    kept = file.read_bytes()
    file.write_bytes(b"no database of SQLite" * 100)
    with pytest.raises(TargetError, match="not a database"):
        made.sink.learn(wanted, made.changes.append)
    file.write_bytes(kept)
    assert made.checkpoint(0, [kinds((1, "a", 1))]) == 1
    assert made.rows("a") == [(1, "a")]


def test_a_row_without_a_table_is_bad_and_the_others_of_its_batch_are_written_once(made: Tables) -> None:
    made.route, made.upsert, made.rejects = Route("${column.kind}"), None, True
    made.start()
    mixed = batch("events", [], [{"kind": kind, "_offset": at} for at, kind in enumerate(["a", None, "b"])], kind=TEXT)
    made.sink.learn(made.write(0, [[mixed]]), made.changes.append)
    scope = Scope(made.incarnation, made.epoch, 0, next(made.attempts))
    made.committer.permit(scope)
    writer, bisector = made.sink.writer(TransactionId(scope, sink_key("copy"), 0, 1)), RowBisector(10)
    for rows in made.sink.rows_by_table(mixed):
        bisector.write(writer, "copy", rows)
    assert set(made.committer.commit(0, [writer.prepare()])) == {CommitOutcome.COMMITTED}
    assert (made.rows("a"), made.rows("b"), len(bisector.letters)) == ([("a",)], [("b",)], 1)


def test_a_row_that_one_table_refuses_is_written_to_no_other_table_twice(made: Tables) -> None:
    """The rows of a batch before it are of another table, and are in the segment when it is refused."""
    made.route, made.upsert = Route("${column.kind}"), None
    made.start()
    found = [{"kind": kind, "day": day, "_offset": at} for at, (kind, day) in enumerate([("a", 1), ("b", 2**30)])]
    rows = pa.RecordBatch.from_arrays(
        [pa.array(["a", "b"]), pa.array([1, 2**30], pa.int32()).cast(pa.date32()), *batch("e", [], found).columns],
        schema=batch("e", [], [], kind=TEXT, day=pa.date32()).schema,
    )
    scope = Scope(made.incarnation, made.epoch, 0, next(made.attempts))
    made.committer.permit(scope)
    bisector, number = RowBisector(10), count()

    def attempt() -> Writer:
        writer: Writer = made.sink.writer(TransactionId(scope, sink_key("copy"), 0, next(number)))
        with _written([Share(made.sink, ())], [writer], [rows], Stopwatch.of(1), bisector):
            return writer

    wanted = attempt()
    assert isinstance(wanted, TablesWriter)
    made.sink.learn(wanted.wanted, made.changes.append)
    assert set(made.committer.commit(0, [attempt().prepare()])) == {CommitOutcome.COMMITTED}
    assert made.rows("a", "kind") == [("a",)]
    assert (made.rows("b"), bisector.refused["copy"]) == ([], 1)


def test_rows_of_a_task_ask_for_a_limited_number_of_tables(made: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multi_table, "MOST_SCHEMAS", 20)
    monkeypatch.setattr(tables_writer, "MOST_SCHEMAS", 20)
    made.route, made.upsert, made.rejects = Route("${column.kind}"), None, True
    made.start()
    rows = kinds(*((n, f"k{n}", n) for n in range(100)))
    unknown = made.write(0, [[rows]])
    assert len(unknown) == 21
    made.sink.learn(unknown, made.changes.append)
    assert len(made.tables()) == 20
    with pytest.raises(BadRowError, match="more than 20 schemas"):
        made.write(0, [[rows]])


def test_rows_without_a_table_stop_the_pipeline(made: Tables) -> None:
    made.route = Route("${topic}", (Rewrite(".*", None),))
    made.start()
    with pytest.raises(TargetError, match="no table for records of topic orders"):
        made.sink.learn(made.write(0, [[orders((1, "a", False, 0))]]), made.changes.append)


def test_a_very_long_name_of_a_schema_meets_no_regular_expression(made: Tables) -> None:
    """Records have any name: for some, a regular expression takes hours, and the driver waits for it."""
    made.route = Route("${schema}", (Rewrite(r"(.*)\.(.*)\.(.*)\.Value", r"\1"),))
    made.rejects = True
    made.start()
    found = orders((1, "a", False, 0))
    rows = found.replace_schema_metadata(with_table(found.schema, "." * 20_000, ("id",)).metadata)
    unknown = made.write(0, [[rows]])
    assert len(unknown) == 1
    made.sink.learn(unknown, made.changes.append)
    with pytest.raises(BadRowError, match="a schema with a name of 20000 characters"):
        made.write(0, [[rows]])
    assert made.tables() == set()


@pytest.mark.parametrize(
    ("route", "topic", "table"),
    [
        (Route("${topic}"), "orders", "orders"),
        (Route("${topic}"), "other.orders", None),
        (Route("shop.${topic}"), "orders", "shop.orders"),
        (Route("shop.${topic}"), "mysql.user", None),
        (Route("${topic}", (Rewrite(r"cdc[.](.*)", r"\1"),)), "cdc.mysql.user", None),
        (Route("${topic}", (Rewrite(r"cdc[.](\w+)[.](\w+)", r"\1.\2"),)), "cdc.shop.orders", "shop.orders"),
    ],
)
def test_records_choose_a_schema_only_if_the_spec_has_the_dot(route: Route, topic: str, table: str | None) -> None:
    if table is not None:
        assert route.table(topic, "", {}) == table
    else:
        with pytest.raises(TargetError, match="with a dot that the spec does not have"):
            route.table(topic, "", {})


@pytest.mark.parametrize("rejects", [False, True])
def test_a_sink_learns_a_limited_number_of_schemas(
    made: Tables, rejects: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multi_table, "MOST_SCHEMAS", 2)
    made.rejects = rejects
    made.start()
    made.checkpoint(0, [orders((1, "a", False, 0)), items((1, 1, "x", 0))])
    unknown = made.write(1, [[priced((2, "b", 1, 1))]])
    if not rejects:
        with pytest.raises(TargetError, match="more than 2 schemas"):
            made.sink.learn(unknown, made.changes.append)
        return
    made.sink.learn(unknown, made.changes.append)
    with pytest.raises(BadRowError, match="more than 2 schemas"):
        made.write(1, [[priced((2, "b", 1, 1))]])
    made.checkpoint(1, [orders((3, "c", False, 2))])
    assert made.rows("orders", "id") == [(1,), (3,)]


def test_a_table_that_another_driver_creates_meanwhile_gets_its_columns(
    made: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of the driver that comes second are not refused for columns that it may add."""
    made.rejects = True
    made.start()
    other, create = made.write(0, [[priced((2, "b", 1, 0))]]), SchemaMigrator.create

    def create_late(self: SchemaMigrator[Any, Any]) -> str:
        statement = create(self)
        while other:
            made.sink.learn([other.pop()], made.changes.append)
        return statement

    monkeypatch.setattr(SchemaMigrator, "create", create_late)
    rows = [{"_offset": 1, "id": 1, "note": "a", "_deleted": False}]
    made.checkpoint(0, [batch("orders", ["id"], rows, id=LONG, note=TEXT, _deleted=BOOL)])
    assert made.rows("orders", "id, note, price") == [(1, "a", None)]
    assert [each.statement.partition(" (")[0] for each in made.changes] == [
        'CREATE TABLE IF NOT EXISTS "orders"',
        'CREATE TABLE IF NOT EXISTS "orders"',
        'ALTER TABLE "orders" ADD COLUMN "note" TEXT',
    ]


def test_a_copy_of_the_sink_knows_the_tables_of_its_time_alone(made: Tables) -> None:
    """Tasks share what their process has loaded. A table that a copy learns is not known to the others."""
    made.start()
    made.sink.learn(made.write(0, [[orders((1, "a", False, 0))]]), made.changes.append)
    sent = pickle.dumps(made.sink)
    one, other = pickle.loads(sent), pickle.loads(sent)
    one.learn(made.write(0, [[items((1, 1, "x", 0))]]), made.changes.append)
    scope = Scope(made.incarnation, made.epoch, 0, 50)
    wanted = []
    for task, sink in enumerate((pickle.loads(pickle.dumps(one)), other, pickle.loads(sent), made.sink)):
        writer = sink.writer(TransactionId(scope, sink_key("copy"), task, 50 + task))
        writer.write(orders((1, "a", False, 0)))
        writer.write(items((1, 1, "x", 0)))
        wanted.append(len(writer.wanted))
        writer.abort()
    assert wanted == [0, 1, 1, 1]


@pytest.mark.parametrize("to", ["eos_claim", "main.EOS_slot"])
def test_no_record_chooses_a_table_of_the_protocol(made: Tables, to: str) -> None:
    made.route = Route("${topic}", (Rewrite(".*", to),))
    made.start()
    with pytest.raises(TargetError, match="a name of the protocol"):
        made.sink.learn(made.write(0, [[orders((1, "a", False, 0))]]), made.changes.append)


@pytest.mark.parametrize("to", ["Rejected", "main.rejected"])
def test_no_record_chooses_the_table_of_the_dead_letters(made: Tables, to: str) -> None:
    made.route = Route("${topic}", (Rewrite(".*", to),))
    made.start()
    assert isinstance(made.sink.one, SqliteSink)
    sink = replace(made.sink, one=replace(made.sink.one, letters=replace(made.sink.one, table="rejected")))
    with pytest.raises(TargetError, match="has the dead letters"):
        sink.learn(made.write(0, [[orders((1, "a", False, 0))]]), made.changes.append)


def test_a_table_is_not_created_without_permission(made: Tables) -> None:
    made.create = False
    Path(made.url.removeprefix("sqlite:///")).touch()
    made.start()
    with pytest.raises(TargetError, match="orders"):
        made.sink.learn(made.write(0, [[orders((1, "a", False, 0))]]), made.changes.append)
    made.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, buyer TEXT)")
    made.checkpoint(0, [orders((1, "a", False, 0))])
    assert made.rows("orders") == [(1, "a")]


def test_records_without_a_key_need_one_in_the_spec(made: Tables) -> None:
    def rows() -> pa.RecordBatch:
        return batch("events", [], [{"n": 1, "v": 2, "_deleted": False, "_offset": 0}], n=LONG, v=LONG, _deleted=BOOL)

    made.start()
    with pytest.raises(TargetError, match="rows of table events are merged") as error:
        made.sink.learn(made.write(0, [[rows()]]), made.changes.append)
    assert "tables: {events: {key: [column, …]}}" in error.value.remedy
    made.settings = {"events": TableSettings(key=("n",), renamed={"value": "v"}, types={"v": "INTEGER"})}
    made.start().checkpoint(0, [rows()])
    assert made.rows("events", "n, value") == [(1, 2)]


def test_it_travels_to_tasks_with_its_tables(made: Tables) -> None:
    made.start().checkpoint(0, [orders((1, "a", False, 0))])
    copy: Any = pickle.loads(pickle.dumps(made.sink))
    assert isinstance(copy, SqlTablesSink)
    made.sink = copy
    assert made.checkpoint(1, [orders((1, "b", False, 1))]) == 0
    assert made.rows("orders") == [(1, "b")]


def test_a_task_whose_rows_are_all_refused_does_not_hide_the_rows_of_others(made: Tables) -> None:
    made.start().checkpoint(0, [orders((1, "a", False, 0))])
    without_key = batch("orders", ["id"], [{"id": None, "buyer": "x", "_deleted": False, "_offset": 1}], **ORDER)
    scope = Scope(made.incarnation, made.epoch, 1, next(made.attempts))
    made.committer.permit(scope)
    first, second = (made.sink.writer(TransactionId(scope, sink_key("copy"), task, 9)) for task in range(2))
    with pytest.raises(BadRowError, match="NULL in a key"):
        first.write_atomic(without_key)
    second.write_atomic(orders((2, "b", False, 2), partition=1))
    prepared = [first.prepare(), second.prepare()]
    assert [(each.rows, "segment" in each.data) for each in prepared] == [(0, False), (1, True)]
    assert set(made.committer.commit(1, prepared)) == {CommitOutcome.COMMITTED}
    assert made.rows("orders") == [(1, "a"), (2, "b")]


def test_an_empty_segment_before_the_others_changes_nothing() -> None:
    """An earlier task may have begun a segment for rows that were refused."""
    chunk = pa.record_batch([pa.array([_stream(orders((1, "a", False, 0)))], pa.large_binary())], schema=CHUNKS)
    found = [list(rows) for rows in by_table(iter([iter(()), iter([chunk])]))]
    assert [[each.num_rows for each in rows] for rows in found] == [[1]]
    assert found[0][0].schema.names[:2] == ["id", "buyer"], "rows, and not chunks"
    plain = orders((1, "a", False, 0))
    assert [list(rows) for rows in by_table(iter([iter(()), iter([plain])]))] == [[plain]]
    assert not list(by_table(iter([iter(()), iter(())])))


def test_each_row_that_a_table_refuses_is_one_dead_letter(made: Tables) -> None:
    """The rows of a checkpoint are applied in groups, one for each schema and task."""
    made.start()
    path = Path(made.url.removeprefix("sqlite:///"))
    letters = SqliteSink("dead_letter", path, "letters", made.log, create=True)
    letters.open(LETTERS)
    one: Any = made.sink.one
    made.sink = replace(made.sink, one=replace(one, letters=letters, most_letters=10))
    made.committer = made.sink.committer("several tables")
    made.committer.inspect(made.incarnation, ())
    made.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, buyer TEXT CHECK (buyer <> 'bad'))")
    first = [orders((1, "a", False, 0), (2, "bad", False, 1)), items((1, 1, "x", 0))]
    made.checkpoint(0, first, [orders((3, "bad", False, 0), (4, "b", False, 1), partition=1)])
    assert made.rows("orders") == [(1, "a"), (4, "b")]
    assert made.rows("items") == [(1, 1, "x")]
    assert [json.loads(value)["id"] for (value,) in made.rows("letters", "value")] == [2, 3]


def _stream(rows: pa.RecordBatch) -> bytes:
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, rows.schema) as writer:
        writer.write_batch(rows)
    return bytes(stream.getvalue())


def test_doctor_looks_at_the_file_and_at_no_table(made: Tables) -> None:
    made.start().checkpoint(0, [orders((1, "a", False, 0))])
    found = made.sink.check(None)
    assert {each.check for each in found if not each.ok} == set()
    assert "target table" not in {each.check for each in found}


def test_rows_of_many_schemas_are_written_once_each(made: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer chooses how many schemas the rows of a key have: time must not grow with the square of them."""
    written: list[int] = []
    write_rows = MergingRowWriter.write_rows

    def count_rows(self: MergingRowWriter, rows: Sequence[pa.RecordBatch]) -> None:
        given = list(rows)
        written.append(sum(map(len, given)))
        write_rows(self, given)

    monkeypatch.setattr(MergingRowWriter, "write_rows", count_rows)
    made.start()
    columns = {"id": LONG, "_deleted": BOOL}
    of_schemas = [
        batch("orders", ["id"], [{"id": 1, f"c{n}": n, "_deleted": False, "_offset": n}], **columns, **{f"c{n}": LONG})
        for n in range(30)
    ]
    made.checkpoint(0, of_schemas)
    assert made.rows("orders") == [(1, *range(30))]
    assert written == [1] * 30

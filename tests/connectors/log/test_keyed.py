"""`commit: upsert` with several topics: rows are compared by their topic, too, which the log does not keep (H16)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from connectors.log.keyed import Upsert
from connectors.log.place import LogPlace
from connectors.log.segments import segment_of
from connectors.registry import build_sink
from connectors.spec import Spec, guarantees, load_spec
from connectors.sql.sqlite.sink import SqliteSink
from eos.errors import BadRowError, IncomparableRowsError, TargetError
from twophase.ids import Scope, TransactionId, sink_key
from wal.segment import read_segment

_PLACE: Final = [("_topic", pa.string()), ("_partition", pa.int32()), ("_offset", pa.int64())]
ROWS: Final = pa.schema([("id", pa.int64()), ("v", pa.int64()), *_PLACE])
NAMELESS: Final = ROWS.remove(ROWS.get_field_index("_topic"))
TRANSACTION: Final = TransactionId(Scope("c" * 20, 1, 0), sink_key("s"), 0, 1)

SPEC: Final = """\
pipeline: p
checkpoint: {{location: state}}
{}
sinks: [{{name: s, {}connector: sqlite, path: t.db, table: t, commit: upsert, key: [id]}}]
"""
FORMAT: Final = "{type: json, schema: 'id BIGINT, v BIGINT'}"
SOURCE: Final = "{{name: {}, connector: kafka, bootstrap_servers: a, {}, format: {}}}"
SEVERAL: Final = {
    "several topics": [("a", "topics: [v1, v2]")],
    "a pattern": [("a", "topics_pattern: 'v.*'")],
    "several sources": [("a", "topics: [v1]"), ("b", "topics: [v2]")],
}


def load(folder: Path, *sources: tuple[str, str]) -> Spec:
    """A spec of these sources, put together by a step where there are several; without any of a job of one's own."""
    make(folder)
    flow = f"sources: [{', '.join(SOURCE.format(*each, FORMAT) for each in sources)}]" if sources else ""
    rows = sources[0][0] if sources else ""
    if len(sources) > 1:
        both = " UNION ALL ".join(f"SELECT * FROM {name}" for name, _ in sources)
        flow, rows = f"{flow}\ntransforms: [{{name: both, sql: '{both}'}}]", "both"
    path = folder / "spec.yaml"
    path.write_text(SPEC.format(flow, f"from: {rows}, " if rows else ""))
    return load_spec(path, {})


def make(folder: Path, *more: str) -> SqliteSink:
    """A sink on a table with these columns, too; whether rows come of several topics, it does not know."""
    with closing(sqlite3.connect(folder / "t.db")) as connection:
        connection.execute(f"CREATE TABLE t ({', '.join(['id INTEGER PRIMARY KEY', 'v INTEGER', *more])})")
    return SqliteSink("s", folder / "t.db", "t", LogPlace(folder / "log"), Upsert(("id",)))


def batch(sink: SqliteSink, *rows: tuple[object, ...]) -> pa.RecordBatch:
    """What a writer of the sink is given."""
    arrays = [pa.array(list(column), field.type) for column, field in zip(zip(*rows, strict=True), ROWS, strict=True)]
    return pa.record_batch(arrays, names=ROWS.names).select(list(sink.columns))


@pytest.mark.parametrize("sources", SEVERAL.values(), ids=SEVERAL)
def test_h16_several_topics_need_their_names_among_the_rows(tmp_path: Path, sources: list[tuple[str, str]]) -> None:
    spec = load(tmp_path, *sources)
    sink = build_sink(spec, spec.sinks[0])
    for look in (sink.open, sink.dry_run):
        with pytest.raises(TargetError, match="no column _topic, which tells apart what comes from several") as caught:
            look(NAMELESS)
        assert "let the last step select id, _offset, _partition, _topic, " in caught.value.remedy
    assert sink.open(ROWS).columns == sink.dry_run(ROWS) == ("id", "v", "_offset", "_partition", "_topic")
    (promise,) = guarantees(spec)
    assert any("`_offset`, `_partition` and `_topic` of the source" in need for need in promise.needs)


def test_of_one_topic_no_row_needs_its_name(tmp_path: Path) -> None:
    """Nor is it sent to the tasks where it is there."""
    spec = load(tmp_path, ("a", "topics: [v1]"))
    sink = build_sink(spec, spec.sinks[0])
    for schema in (ROWS, NAMELESS):
        assert sink.open(schema).columns == sink.dry_run(schema) == ("id", "v", "_offset", "_partition")
    (promise,) = guarantees(spec)
    assert any("`_offset` and `_partition` of the source" in need for need in promise.needs)


def test_in_a_job_of_ones_own_the_topic_counts_where_it_is_there(tmp_path: Path) -> None:
    spec = load(tmp_path)
    sink = build_sink(spec, spec.sinks[0])
    assert sink.open(ROWS).columns == sink.dry_run(ROWS) == ("id", "v", "_offset", "_partition", "_topic")
    assert sink.open(NAMELESS).columns == sink.dry_run(NAMELESS) == ("id", "v", "_offset", "_partition")


@pytest.mark.parametrize("first", ["v1", "v2"])
def test_h16_the_newer_row_of_another_topic_is_not_taken_for_the_older_one(tmp_path: Path, first: str) -> None:
    sink = make(tmp_path).open(ROWS)
    writer = sink.writer(TRANSACTION)
    rows = [(1, 1, "v1", 3, 1_000_000), (1, 2, "v2", 3, 5)]
    for row in sorted(rows, key=lambda row: row[2] != first):
        writer.write(batch(sink, (2, 0, "v1", 3, row[4]), row))
    with pytest.raises(IncomparableRowsError, match="key id 1 comes from topics v1 and v2, whose offsets") as caught:
        writer.prepare()
    assert "one partition of one topic" in caught.value.remedy


@pytest.mark.parametrize("first", [True, False])
def test_a_key_that_changes_in_one_record_goes_and_comes_again(tmp_path: Path, first: bool) -> None:
    """A step makes two rows of it: the old key goes, and the row comes under the new key, which may be the same."""
    make(tmp_path)
    sink = SqliteSink("s", tmp_path / "t.db", "t", LogPlace(tmp_path / "log"), Upsert(("id",), "gone"))
    opened = sink.open(schema := NAMELESS.append(pa.field("gone", pa.bool_())))
    writer = opened.writer(TRANSACTION)
    rows = [{"id": 1, "v": 0, "gone": True}, {"id": 1, "v": 9, "gone": False}]
    for row in rows if first else rows[::-1]:
        whole = pa.RecordBatch.from_pylist([{**row, "_partition": 0, "_offset": 5}], schema=schema)
        writer.write(whole.select(list(opened.columns)))
    ref = segment_of(writer.prepare())
    assert ref is not None
    (sealed,) = read_segment(opened.log.open(), ref)
    assert (sealed.column("v").to_pylist(), sealed.column("__gone").to_pylist()) == ([9], [False])


def test_a_row_without_a_topic_is_neither_old_nor_new(tmp_path: Path) -> None:
    sink = make(tmp_path).open(ROWS)
    with pytest.raises(BadRowError, match="row 2, column '_topic': NULL"):
        sink.writer(TRANSACTION).write(batch(sink, (1, 1, "v1", 0, 1), (2, 1, None, 0, 2)))


def test_a_topic_is_text(tmp_path: Path) -> None:
    number = ROWS.set(ROWS.get_field_index("_topic"), pa.field("_topic", pa.list_(pa.int8())))
    with pytest.raises(TargetError, match=r"column _topic of the rows is ARRAY<TINYINT>, not text"):
        make(tmp_path).open(number)


@pytest.mark.parametrize("more", [[], ["_topic TEXT"]])
def test_what_is_sealed_has_the_topic_only_where_the_table_takes_it(tmp_path: Path, more: list[str]) -> None:
    sink = make(tmp_path, *more).open(ROWS)
    writer = sink.writer(TRANSACTION)
    for offset in range(3):
        writer.write(batch(sink, (1, offset, "v1", 3, offset), (2, offset, "v2", 0, offset)))
    ref = segment_of(writer.prepare())
    assert ref is not None
    (sealed,) = read_segment(sink.log.open(), ref)
    assert sealed.schema.names == ["id", "v", *(each.split()[0] for each in more), "__gone"]
    assert sorted(zip(*(sealed.column(name).to_pylist() for name in ("id", "v")), strict=True)) == [(1, 2), (2, 2)]

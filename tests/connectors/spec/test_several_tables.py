"""Sinks of several tables in a spec: `table: "${topic}"` with its rules, and the mistakes that `eos validate` finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors.spec import Spec, load_spec
from connectors.sql.multi_table import SqlTablesSink
from connectors.sql.table_settings import Rewrite, Route, TableSettings
from eos.errors import SpecError
from spark_jobs.batch.chaining import may_chain
from tests.connectors.spec.entries import server_sink

_SPEC = """\
pipeline: p
checkpoint: {{location: ./state{mode}}}
sources:
  - name: shop
    connector: kafka
    bootstrap_servers: k:9092
    topics_pattern: shop[.].*
    format: {{type: json, schema: "id BIGINT, _deleted BOOLEAN"}}
{more}
sinks:
  - name: copy
    from: {from_}
    connector: postgresql
    url: postgresql+psycopg://u:p@h/d
    {sink}
"""
_SINK = 'table: "${topic}"\n    commit: upsert\n    key: [id]\n    deleted: _deleted'


def _load(folder: Path, sink: str = _SINK, *, more: str = "", from_: str = "shop", mode: str = "") -> Spec:
    path = folder / "spec.yaml"
    path.write_text(_SPEC.format(sink=sink, more=more, from_=from_, mode=mode))
    return load_spec(path)


def _load_without_sources(folder: Path) -> Spec:
    """As `foreachBatch(ExactlyOnce(path))` does."""
    path = folder / "sinks.yaml"
    sink = f"{{name: copy, connector: sqlite, path: {folder}/t.db, table: '${{topic}}', commit: write-ahead-log}}"
    path.write_text(f"pipeline: p\ncheckpoint: {{location: {folder}/state}}\nsinks: [{sink}]\n")
    return load_spec(path)


def test_the_sink_gets_its_rules_and_settings(tmp_path: Path) -> None:
    rules = "rewrite: [{match: 'shop[.](.*)', to: 'copy.\\1'}, {match: '.*', to: null}]"
    tables = "tables: {copy.items: {key: [order, line], select: [order, line, n], columns: {n: line}, types: {n: INT}}}"
    spec = _load(tmp_path, f"{_SINK}\n    {rules}\n    {tables}")
    sink = server_sink(spec).build(spec.context)
    assert isinstance(sink, SqlTablesSink)
    assert sink.route == Route("${topic}", (Rewrite("shop[.](.*)", "copy.\\1"), Rewrite(".*", None)))
    assert sink.route.table("shop.orders", "", {}) == "copy.orders"
    assert sink.route.table("other", "", {}) is None
    assert sink.settings == {
        "copy.items": TableSettings(("order", "line"), ("order", "line", "n"), {"n": "line"}, {"n": "INT"})
    }
    assert not sink.rejects
    assert may_chain(spec)
    assert "two in one task stop the pipeline" in server_sink(spec).guarantee(spec.context).limits[0]


def test_a_column_may_stand_beside_a_topic(tmp_path: Path) -> None:
    spec = _load(tmp_path, _SINK.replace("${topic}", "${topic}_${column.id}"))
    sink = server_sink(spec).build(spec.context)
    assert isinstance(sink, SqlTablesSink)
    assert (sink.route.columns, sink.route.table("t", "", {"id": "7"})) == (["id"], "t_7")


def test_a_variable_of_the_environment_may_stand_beside_a_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEMA", "copies")
    monkeypatch.setenv("topic", "never")
    spec = _load(tmp_path, _SINK.replace("${topic}", "${SCHEMA}.${topic}_${schema}"))
    assert server_sink(spec).table == "copies.${topic}_${schema}"


@pytest.mark.parametrize(
    ("sink", "message"),
    [
        (
            _SINK.replace("upsert\n    key: [id]\n    deleted: _deleted", "two-phase"),
            "several tables take their rows from a log",
        ),
        (_SINK.replace("${topic}", "orders") + "\n    rewrite: [{match: a, to: b}]", "'rewrite' is for several tables"),
        (_SINK.replace("${topic}", "orders") + "\n    unroutable: fail", "'unroutable' is for several tables"),
        (_SINK + "\n    rewrite: [{match: 'a(', to: b}]", "'a\\(' is not a regular expression"),
        (_SINK + "\n    rewrite: [{match: a, to: '\\1'}]", "does not fit 'a': invalid group reference"),
        (_SINK + "\n    unroutable: dead-letter", "the spec lacks a `dead_letter` to write to"),
        (_SINK.replace("${topic}", "$${other}"), "'\\${other}' is unknown"),
        (_SINK.replace("${topic}", "${topic"), "'\\${topic' is not closed"),
        (_SINK.replace("${topic}", "${column.}"), r"column\."),
        (_SINK.replace("${topic}", "${column.ident}"), r"(?s)the rows of 'shop' have no column 'ident'.*\bid\b"),
    ],
)
def test_mistakes_of_the_sink(tmp_path: Path, sink: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        _load(tmp_path, sink)


def test_mistakes_of_the_pipeline(tmp_path: Path) -> None:
    step = 'transforms: [{name: rows, sql: "SELECT * FROM shop"}]'
    with pytest.raises(SpecError, match="come from a source, without a step between"):
        _load(tmp_path, more=step, from_="rows")
    with pytest.raises(SpecError, match="several tables need a log"):
        _load(
            tmp_path,
            _SINK.replace("upsert\n    key: [id]\n    deleted: _deleted", "write-ahead-log"),
            mode=", mode: at-least-once",
        )
    with pytest.raises(SpecError, match="only a source of the spec has rows of several tables"):
        _load_without_sources(tmp_path)
    other = "- {name: archive, from: shop, connector: kafka, bootstrap_servers: 'k:9092', topic: t}"
    with pytest.raises(SpecError, match="the sink 'copy' has several tables, and 'archive' has one"):
        _load(tmp_path, f"{_SINK}\n  {other}")


def test_a_partition_is_read_by_one_task_where_its_order_decides(tmp_path: Path) -> None:
    """Rows of one key in two tasks are applied by two slots at once: an older row could stay."""
    split, whole = "    split_above: 1000", ""
    with pytest.raises(SpecError, match="'split_above' of 'shop' gives rows of one key to several tasks"):
        _load(tmp_path, more=split)
    assert _load(tmp_path, more=whole)
    ordered = _SINK.replace("    deleted: _deleted", "    order_by: id")
    appended = _SINK.replace("upsert\n    key: [id]\n    deleted: _deleted", "write-ahead-log")
    for sink in (ordered, appended):
        assert _load(tmp_path, sink, more=split).sources[0].unordered_by == "split_above"


def test_dead_letters_are_in_one_table(tmp_path: Path) -> None:
    letters = 'connector: postgresql, url: "postgresql+psycopg://u:p@h/d", table: "$${topic}", commit: write-ahead-log'
    with pytest.raises(SpecError, match="all dead letters are in one table"):
        _load(tmp_path, f"{_SINK}\ndead_letter: {{{letters}}}")

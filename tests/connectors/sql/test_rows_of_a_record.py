"""A spec whose records have several rows tells the sinks: they compare `_row`, and others do not."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from connectors.log.keyed import Upsert
from connectors.registry import build_sink
from connectors.spec import guarantees, load_spec
from connectors.sql.sqlite.sink import SqliteSink

SPEC: Final = """\
pipeline: p
checkpoint: {{location: state}}
{}
sinks: [{{name: s, {}connector: sqlite, path: t.db, table: t, commit: upsert, key: [id]}}]
"""
SOURCE: Final = "sources: [{{name: a, connector: kafka, bootstrap_servers: a, topics: [t], format: {{{}}}}}]"
MAXWELL: Final = "type: maxwell, table: shop.orders, schema: 'id BIGINT', key: [id]"
JSON: Final = "type: json, schema: 'id BIGINT, _row INT'"


@pytest.mark.parametrize(("form", "by_row"), [(MAXWELL, True), (JSON, False), ("", None)])
def test_a_sink_compares_the_numbers_of_rows(tmp_path: Path, form: str, by_row: bool | None) -> None:
    """A column `_row` of the user's own has another meaning. In a job of the user's own it is not known."""
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC.format(SOURCE.format(form) if form else "", "from: a, " if form else ""))
    spec = load_spec(path, {})
    sink = build_sink(spec, spec.sinks[0])
    assert isinstance(sink, SqliteSink)
    assert isinstance(sink.upsert, Upsert)
    assert sink.upsert.by_row is by_row
    (promise,) = guarantees(spec)
    assert any("and `_row` of the source" in need for need in promise.needs) == bool(by_row)

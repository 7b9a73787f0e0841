"""`create: if-missing` in a pipeline that is killed, by every commit variant; and for several sinks at once."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from integration_tests.harness.command_line import CommandLine
from integration_tests.harness.oracle import SinkTable, compare
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, TABLE, Pipeline
from integration_tests.harness.workload import Row

_RECORDS = 4 * CHECKPOINT_RECORDS
VARIANTS: dict[str, dict[str, Any]] = {
    "two-phase": {},
    "write-ahead-log": {},
    "upsert": {"key": ["id"]},
}


@pytest.fixture(params=VARIANTS)
def bare(request: pytest.FixtureRequest, pipeline: Pipeline) -> Pipeline:
    """Without a table."""
    pipeline.table.execute(f"DROP TABLE `{pipeline.table.name}`")
    (step,), (sink,) = pipeline.spec["transforms"], pipeline.spec["sinks"]
    step["sql"] = "SELECT id, word, payload, _partition, _offset FROM incoming"
    sink.update(commit=request.param, create="if-missing", **VARIANTS[request.param])
    return pipeline


@pytest.mark.timeout(600)
def test_killed_after_the_table_was_made_and_before_its_first_row(bare: Pipeline) -> None:
    bare.workload.produce(_RECORDS)
    for stem in ("writing@0", "after-decide@0"):
        process = bare.start(arm=[stem])
        process.await_point(stem)
        assert bare.table.count() == 0
        process.kill()
    bare.catch_up()
    bare.assert_exact(at_least=_RECORDS)
    logs = "".join((bare.folder / f"run-{number}.log").read_text() for number in range(3))
    assert logs.count(f"sink warehouse: CREATE TABLE IF NOT EXISTS `{TABLE}` (`id` BIGINT") == 1


@pytest.mark.any_server
@pytest.mark.timeout(600)
def test_two_sinks_make_a_table_each(pipeline: Pipeline, tmp_path: Path) -> None:
    """In two databases, and what doctor says before."""
    pipeline.table.execute(f"DROP TABLE `{pipeline.table.name}`")
    file = tmp_path / "archive.db"
    file.touch()
    (warehouse,) = pipeline.spec["sinks"]
    warehouse["create"] = "if-missing"
    words = {**warehouse, "name": "words", "table": "Words of %", "columns": {"the id": "id", "select": "word"}}
    archive = {"name": "archive", "connector": "sqlite", "from": "rows", "path": str(file), "table": TABLE}
    archive |= {"commit": "write-ahead-log", "create": "if-missing"}
    pipeline.spec["sinks"] += [words, archive]
    pipeline.workload.produce(_RECORDS)
    with CommandLine(tmp_path) as commands:
        ended = commands.run(["doctor", str(pipeline.write_spec()), "--json"], pipeline.environment)
    assert ended.code == 0, ended.output
    assert ended.output.count("will create: CREATE TABLE IF NOT EXISTS") == 3
    assert "`Words of %` (`the id` BIGINT, `select` LONGTEXT, `payload` LONGTEXT)" in ended.output
    pipeline.catch_up()
    pipeline.assert_exact(at_least=_RECORDS)
    found = SinkTable(pipeline.table.url, "words").execute("SELECT `the id`, `select`, payload FROM `Words of %%`")
    assert compare(pipeline.workload.expected, Counter(found)).exact
    with closing(sqlite3.connect(file)) as connection:
        rows: Counter[Row] = Counter(connection.execute(f"SELECT id, word, payload FROM {TABLE}").fetchall())
    assert compare(pipeline.workload.expected, rows).exact

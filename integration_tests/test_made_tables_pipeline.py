"""`create: if-missing` and `evolve: add-columns` in pipelines that are killed, by every commit variant."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from integration_tests.harness.command_line import CommandLine
from integration_tests.harness.jobs import EXAMPLES, ROWS, Jobs, write_files
from integration_tests.harness.oracle import SinkTable, compare
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, TABLE, Pipeline
from integration_tests.harness.workload import Row

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

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


@pytest.mark.timeout(900)
@pytest.mark.parametrize("left", ["prepared@1", "after-decide@1", "applying@1"])
def test_columns_are_added_after_what_was_left_undone_is_ended(bare: Pipeline, left: str) -> None:
    """What is prepared keeps the table as it is (R3); segments of before have fewer columns."""
    (step,), (sink,) = bare.spec["transforms"], bare.spec["sinks"]
    if left == "applying@1" and sink["commit"] == "two-phase":
        left = "between-commits@1"
    whole = step["sql"]
    step["sql"] = whole.replace(", payload", "")
    bare.workload.produce(_RECORDS)
    process = bare.start(arm=[left])
    process.await_point(left)
    process.kill()
    step["sql"] = whole
    sink["evolve"] = "add-columns"
    bare.catch_up()
    assert bare.prepared() == []
    rows = bare.table.rows()
    words = Counter({row[:2]: count for row, count in bare.workload.expected.items()})
    assert Counter({(n, word): count for (n, word, _), count in rows.items()}) == words
    before = sum(count for (*_, payload), count in rows.items() if payload is None)
    decided = 1 if left == "prepared@1" else 2
    assert before == decided * CHECKPOINT_RECORDS
    assert all(bare.workload.expected[row] for row in rows if row[2] is not None)


@pytest.mark.timeout(900)
def test_killed_between_a_wider_type_and_the_next_decision(bare: Pipeline) -> None:
    """The table is wider than the rows of all decided checkpoints, and the next start has nothing to widen."""
    (step,), (sink,) = bare.spec["transforms"], bare.spec["sinks"]
    whole = step["sql"]
    step["sql"] = whole.replace("SELECT id,", "SELECT CAST(id AS INT) AS id,")
    bare.workload.produce(_RECORDS)
    process = bare.start(arm=["after-decide@1"])
    process.await_point("after-decide@1")
    process.kill()
    asked = "SELECT DATA_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND COLUMN_NAME = 'id'"
    asked += f" AND TABLE_NAME = '{bare.table.name}'"
    assert bare.table.execute(asked) == [("int",)]
    step["sql"] = whole
    sink["evolve"] = "add-and-widen"
    for point in ("writing@2", "prepared@2"):
        process = bare.start(arm=[point])
        process.await_point(point)
        process.kill()
        assert bare.table.execute(asked) == [("bigint",)]
    bare.catch_up()
    bare.assert_exact(at_least=_RECORDS)
    logs = "".join(each.read_text() for each in sorted(bare.folder.glob("run-*.log")))
    assert logs.count(f"`{TABLE}` MODIFY COLUMN `id` bigint") == 1


@pytest.mark.any_server
@pytest.mark.timeout(900)
@pytest.mark.parametrize("job", ["copy_files.py", "files_to_table.py"], ids=["foreachBatch", "format"])
def test_columns_are_added_to_the_table_of_a_job(jobs: Jobs, database: str, tmp_path: Path, job: str) -> None:
    """By the planner of a query, or with its first batch: after recovery as well."""
    spec, text = tmp_path / "sink.yaml", (EXAMPLES / job).read_text()
    making = "commit: two-phase, create: if-missing, evolve: add-columns"
    spec.write_text(spec.read_text().replace("commit: two-phase", making))
    columns = "id BIGINT, word STRING, payload STRING"
    assert columns in text
    for name, read in (("narrow.py", "id BIGINT, word STRING"), ("wide.py", columns)):
        (tmp_path / name).write_text(text.replace(columns, read))
    expected = write_files(tmp_path / "files")
    process = jobs.start(tmp_path / "narrow.py", str(tmp_path / "files"), arm=["after-decide@1"])
    process.await_point("after-decide@1")
    process.kill()
    jobs.start(tmp_path / "wide.py", str(tmp_path / "files")).succeed()
    rows = SinkTable(database, "records").rows()
    assert Counter(row[0] for row in rows.elements()) == Counter(row[0] for row in expected.elements())
    assert sum(row[2] is None for row in rows.elements()) == 2 * ROWS
    assert all(row in expected for row in rows if row[2] is not None)

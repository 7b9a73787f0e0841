"""One checkpoint over three sinks: two tables by two-phase commit, one of them with other rows; a file by its log."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from integration_tests.harness.oracle import SinkTable, compare
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, TABLE, Pipeline
from integration_tests.harness.pipeline_process import PipelineProcess
from integration_tests.harness.workload import Row

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 8 * CHECKPOINT_RECORDS
_WAIT_S = 120.0


class _Sinks:
    """The pipeline's own table, `evens` and `archive`, which has what the first one has."""

    def __init__(self, pipeline: Pipeline, file: Path) -> None:
        self.pipeline = pipeline
        self.file = file
        self.evens = SinkTable(pipeline.table.url, "evens")
        self.evens.execute("CREATE TABLE evens (id BIGINT PRIMARY KEY, word VARCHAR(40), payload VARCHAR(80))")
        with closing(sqlite3.connect(file)) as archive:
            archive.execute(f"CREATE TABLE {TABLE} (id INTEGER, word TEXT, payload TEXT)")
        (warehouse,) = pipeline.spec["sinks"]
        pipeline.spec["transforms"].append({"name": "even", "sql": "SELECT * FROM rows WHERE id % 2 = 0"})
        pipeline.spec["sinks"] += [
            {**warehouse, "name": "evens", "from": "even", "table": "evens"},
            {
                "name": "archive",
                "connector": "sqlite",
                "from": "rows",
                "path": str(file),
                "table": TABLE,
                "commit": "write-ahead-log",
            },
        ]

    def archived(self) -> Counter[Row]:
        with closing(sqlite3.connect(self.file)) as archive:
            return Counter(archive.execute(f"SELECT id, word, payload FROM {TABLE}").fetchall())

    def assert_clean(self) -> None:
        """Nowhere anything twice or unasked for."""
        expected = self.pipeline.workload.expected
        for found in (self.pipeline.table.rows(), self.evens.rows(), self.archived()):
            verdict = compare(expected, found)
            assert verdict.clean, str(verdict)

    def assert_exact(self, at_least: int) -> None:
        self.pipeline.assert_exact(at_least)
        expected = self.pipeline.workload.expected
        even = Counter({row: count for row, count in expected.items() if row[0] % 2 == 0})
        for wanted, found in ((even, self.evens.rows()), (expected, self.archived())):
            verdict = compare(wanted, found)
            assert verdict.exact, str(verdict)
        assert even.total() >= at_least // 2


@pytest.fixture
def sinks(pipeline: Pipeline, tmp_path: Path) -> _Sinks:
    return _Sinks(pipeline, tmp_path / "archive.db")


@pytest.mark.timeout(900)
def test_killed_at_every_point_with_state(sinks: _Sinks) -> None:
    """State is on the trunk: a batch that is decided runs again for it, and must give every branch the same rows."""
    pipeline = sinks.pipeline
    _with_state(pipeline)
    pipeline.workload.produce(_RECORDS)
    for stem in ("writing@0", "prepared@0", "before-decide@1", "after-decide@2", "between-commits@3", "closed@4"):
        process = pipeline.start(arm=[stem])
        process.await_point(stem)
        sinks.assert_clean()
        process.kill()
    pipeline.catch_up()
    sinks.assert_exact(at_least=_RECORDS)


@pytest.mark.timeout(300)
def test_a_sink_that_cannot_prepare_aborts_the_checkpoint_in_all(sinks: _Sinks) -> None:
    pipeline = sinks.pipeline
    sinks.evens.execute("ALTER TABLE evens MODIFY word VARCHAR(4)")
    pipeline.workload.produce(CHECKPOINT_RECORDS)  # has longer ones
    pipeline.start().fail("sink evens", "for column 'word'")
    assert (pipeline.table.count(), sinks.evens.count(), sinks.archived().total()) == (0, 0, 0)
    assert pipeline.prepared() == []
    sinks.evens.execute("ALTER TABLE evens MODIFY word VARCHAR(40)")
    pipeline.catch_up()
    sinks.assert_exact(at_least=CHECKPOINT_RECORDS)


@pytest.mark.timeout(300)
def test_a_sink_that_cannot_commit_yet_holds_up_none_of_the_others(sinks: _Sinks) -> None:
    pipeline = sinks.pipeline
    pipeline.workload.produce(2 * CHECKPOINT_RECORDS)
    process = pipeline.start(arm=["before-decide@1"])
    process.await_point("before-decide@1")
    with closing(sqlite3.connect(sinks.file, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        process.release("before-decide@1")
        _await_rows(process, pipeline.table, 2 * CHECKPOINT_RECORDS)
        _await_rows(process, sinks.evens, CHECKPOINT_RECORDS)
        assert pipeline.head.committed == 0
        holder.execute("COMMIT")
    process.succeed()
    assert pipeline.head.committed == 1
    sinks.assert_exact(at_least=2 * CHECKPOINT_RECORDS)


@pytest.mark.timeout(300)
def test_state_behind_the_trunk_is_refused(sinks: _Sinks) -> None:
    pipeline = sinks.pipeline
    grouped = "import pandas\n\ndef sizes(rows):\n    schema = 'id long, word string, payload string'\n"
    grouped += "    return rows.groupBy('word').applyInPandas(lambda group: group.head(1), schema)\n"
    (pipeline.folder / "grouped.py").write_text(grouped)
    for sql, reason in (
        ("SELECT id, max(word) AS word, max(payload) AS payload FROM rows GROUP BY id", "it keeps state (Aggregate)"),
        ("SELECT id, word, payload FROM rows ORDER BY id", "Sorting is not supported"),
    ):
        pipeline.spec["transforms"][1]["sql"] = sql
        pipeline.start().fail("transforms[1] (even): ", reason, "stands behind rows, where the flow to", code=2)
    pipeline.spec["transforms"][1] = {"name": "even", "python": "grouped:sizes", "from": "rows"}
    pipeline.start().fail("transforms[1] (even): it groups rows (FlatMapGroupsInPandas)", code=2)
    assert pipeline.table.count() == 0


@pytest.mark.timeout(300)
def test_behind_a_trunk_with_state_each_step_must_repeat_itself(sinks: _Sinks) -> None:
    """A batch that is decided runs again after a kill: by the clock of that time, its rows would be others."""
    pipeline = sinks.pipeline
    _with_state(pipeline)
    for sql, reason in (
        ("SELECT id, word, CAST(current_timestamp() AS STRING) AS payload FROM rows", "it asks for the current time"),
        ("SELECT id, word, CAST(rand() AS STRING) AS payload FROM rows", "it is not deterministic"),
    ):
        pipeline.spec["transforms"][-1]["sql"] = sql
        pipeline.start().fail("(even): ", reason, "keeps state, so that a batch may run again", code=2)


@pytest.mark.timeout(300)
def test_a_step_that_several_branches_need_is_computed_once(sinks: _Sinks) -> None:
    """Each record goes to one of two tables by a coin that a function tosses, whose results nobody can repeat."""
    pipeline = sinks.pipeline
    tossed = "from random import random\n\nfrom pyspark.sql.functions import udf\n\n"
    tossed += "def toss(rows):\n    return rows.withColumn('coin', udf(random, 'double').asNondeterministic()())\n"
    (pipeline.folder / "tossing.py").write_text(tossed)
    rows, even = pipeline.spec["transforms"]
    columns = "SELECT id, word, payload FROM tossed WHERE coin"
    pipeline.spec["transforms"] = [
        rows,
        {"name": "tossed", "python": "tossing:toss", "from": "rows"},
        {"name": "heads", "sql": f"{columns} < 0.5"},
        {**even, "sql": f"{columns} >= 0.5"},
    ]
    warehouse, evens, archive = pipeline.spec["sinks"]
    pipeline.spec["sinks"] = [{**warehouse, "from": "heads"}, evens, archive]
    pipeline.workload.produce(_RECORDS)
    pipeline.catch_up()
    heads, tails = pipeline.table.rows(), sinks.evens.rows()
    verdict = compare(pipeline.workload.expected, heads + tails)
    assert verdict.exact, str(verdict)
    assert min(heads.total(), tails.total()) > _RECORDS // 4
    assert compare(pipeline.workload.expected, sinks.archived()).exact


@pytest.mark.timeout(300)
def test_a_sink_cannot_join_or_come_back_in_silence(sinks: _Sinks) -> None:
    pipeline = sinks.pipeline
    *others, archive = pipeline.spec["sinks"]
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    pipeline.catch_up()
    pipeline.spec["sinks"] = others
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    pipeline.catch_up()
    pipeline.spec["sinks"] = [*others, archive]
    pipeline.start().fail("sink archive is new to this pipeline: what was written up to checkpoint 1 is not in it")
    pipeline.assert_exact(at_least=2 * CHECKPOINT_RECORDS)
    assert sinks.archived().total() == CHECKPOINT_RECORDS


def _with_state(pipeline: Pipeline) -> None:
    """On the trunk: each id once."""
    (pipeline.folder / "dedup.py").write_text("def once(rows):\n    return rows.dropDuplicates(['id'])\n")
    once = {"name": "once", "python": "dedup:once", "from": "incoming"}
    pipeline.spec["transforms"] = [once, *pipeline.spec["transforms"]]
    pipeline.spec["transforms"][1]["sql"] = "SELECT id, word, payload FROM once"
    pipeline.spec["spark"]["conf"] = {"spark.sql.shuffle.partitions": "2"}


def _await_rows(process: PipelineProcess, table: SinkTable, count: int) -> None:
    deadline = time.monotonic() + _WAIT_S
    while table.count() < count:
        assert time.monotonic() < deadline, process.output()
        time.sleep(0.1)

"""Rules of steps in a real pipeline: which rows arrive where, and counts of decided checkpoints only."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from integration_tests.harness.kills import kill_at
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, Pipeline
from spark_jobs.observe.history.model import RuleCount
from spark_jobs.observe.history.store import History

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 4 * CHECKPOINT_RECORDS


def _expect(pipeline: Pipeline, *rules: dict[str, Any]) -> None:
    """Give the pipeline's step these rules, with the columns that say where a record is."""
    (step,) = pipeline.spec["transforms"]
    step["expect"] = list(rules)


def _put_aside_into(pipeline: Pipeline, file: Path) -> None:
    """Give the pipeline dead letters in a table of this SQLite file, as many as a checkpoint has records."""
    pipeline.spec["dead_letter"] = {
        "connector": "sqlite",
        "path": str(file),
        "table": "bad",
        "create": "if-missing",
        "commit": "write-ahead-log",
    }
    pipeline.spec["checkpoint"]["max_dead_letters"] = CHECKPOINT_RECORDS


def _counted(pipeline: Pipeline) -> dict[str, RuleCount]:
    return {each.rule: each for each in History.at(pipeline.location).rules()}


def _even(pipeline: Pipeline) -> Counter[Any]:
    return Counter({row: count for row, count in pipeline.workload.expected.items() if row[0] % 2 == 0})


@pytest.mark.timeout(1200)
def test_counts_are_those_of_decided_checkpoints(pipeline: Pipeline) -> None:
    """A task runs twice; a checkpoint is aborted; a driver dies after a decision that it has reported to nobody."""
    pipeline.spec["spark"]["master"] = "local[2,4]"
    _expect(
        pipeline,
        {"name": "even", "condition": "id % 2 = 0"},
        {"name": "known", "condition": "word IS NOT NULL", "action": "fail"},
        {"name": "small", "condition": "id >= 0", "action": "skip"},
    )
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(arm=["prepared@1", "before-decide@1", "before-decide@2"])
    worker = process.await_point("prepared@1")
    os.kill(worker, signal.SIGKILL)
    process.await_point("before-decide@1")
    process.release("before-decide@1")
    process.await_point("before-decide@2")
    process.kill()
    pipeline.catch_up()
    pipeline.assert_exact(at_least=_RECORDS)
    odd = _RECORDS - _even(pipeline).total()
    assert _counted(pipeline) == {
        "even": RuleCount("rows", "even", "warn", _RECORDS, odd),
        "known": RuleCount("rows", "known", "fail", _RECORDS, 0),
        "small": RuleCount("rows", "small", "skip", _RECORDS, 0),
    }
    facts = pipeline.command("status", "--json")
    facts.succeed()
    assert f'"failed": {odd}' in facts.output()


@pytest.mark.timeout(1200)
def test_rows_are_skipped_and_a_rule_stops_the_pipeline(pipeline: Pipeline) -> None:
    pipeline.spec["restart"] = {"strategy": "none"}
    _expect(pipeline, {"name": "even", "condition": "id % 2 = 0", "action": "skip"})
    pipeline.workload.produce(_RECORDS)
    pipeline.catch_up()
    assert pipeline.table.rows() == _even(pipeline)
    assert _counted(pipeline)["even"].failed == _RECORDS - _even(pipeline).total() > 0
    before = pipeline.table.count()
    _expect(pipeline, {"name": "even", "condition": "id % 2 = 0", "action": "fail"})
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    pipeline.start().fail("rows of step rows fail the expectation even; one of them: {", "remedy: ")
    assert (pipeline.table.count(), pipeline.prepared()) == (before, [])
    assert _counted(pipeline)["even"].action == "skip"


@pytest.mark.timeout(1200)
def test_rows_become_dead_letters_in_the_same_checkpoint(pipeline: Pipeline, tmp_path: Path) -> None:
    """Also behind the trunk; killed around the second job."""
    file = tmp_path / "bad.db"
    sqlite3.connect(file).close()
    _put_aside_into(pipeline, file)
    _expect(pipeline, {"name": "even", "condition": "id % 2 = 0", "action": "dead-letter"})
    pipeline.spec["transforms"].append(
        {
            "name": "last",
            "sql": "SELECT * FROM rows",
            "expect": [{"name": "by_four", "condition": "id % 4 = 0", "action": "dead-letter"}],
        }
    )
    pipeline.spec["sinks"][0]["from"] = "last"
    pipeline.workload.produce(_RECORDS)
    kill_at(pipeline, "dead-letters@0", "after-decide@1", "dead-letters@2")
    pipeline.catch_up()
    expected = Counter({row: count for row, count in pipeline.workload.expected.items() if row[0] % 4 == 0})
    assert pipeline.table.rows() == expected
    with closing(sqlite3.connect(file)) as bad:
        letters = bad.execute("SELECT value, error, sink FROM bad").fetchall()
    ids = Counter(json.loads(value)["id"] for value, _, _ in letters)
    assert ids == Counter({row[0]: count for row, count in pipeline.workload.expected.items() if row[0] % 4})
    assert {(error.rpartition(" ")[2], sink) for _, error, sink in letters} == {
        ("even", "step:rows"),
        ("by_four", "step:last"),
    }
    counted = _counted(pipeline)
    assert counted["even"].failed + counted["by_four"].failed <= len(letters)  # one checkpoint's may be lost by a kill


@pytest.mark.timeout(600)
def test_a_rule_for_dead_letters_needs_a_step_that_repeats_itself(pipeline: Pipeline, tmp_path: Path) -> None:
    """Random numbers are refused by the start, and otherwise found by the comparison of both computations."""
    file = tmp_path / "bad.db"
    _put_aside_into(pipeline, file)
    pipeline.spec["restart"] = {"strategy": "none"}
    (step,) = pipeline.spec["transforms"]
    pipeline.table.execute(f"ALTER TABLE {pipeline.table.name} ADD chance DOUBLE")
    _expect(pipeline, {"name": "half", "condition": "chance < 0.5", "action": "dead-letter"})
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    step["sql"] = step["sql"].replace("SELECT ", "SELECT rand() AS chance, ", 1)
    pipeline.start().fail("(rows): it is not deterministic, and a rule has action dead-letter", code=2)
    source = pipeline.source["name"]
    step.pop("sql")
    step |= {"python": "chances:with_chance", "from": source}
    (pipeline.folder / "chances.py").write_text(
        "import random\nfrom pyspark.sql import functions\n\n"
        "def with_chance(rows):\n"
        "    chance = functions.udf(lambda _: random.random(), 'double')\n"
        "    return rows.withColumn('chance', chance('id'))\n"
    )
    pipeline.start().fail("step rows gave other rows when its dead letters were computed")
    assert (pipeline.table.count(), pipeline.prepared()) == (0, [])
    with closing(sqlite3.connect(file)) as bad:
        assert bad.execute("SELECT count(*) FROM bad").fetchone() == (0,)

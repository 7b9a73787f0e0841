"""Dead letters at-least-once, and of pipelines with state: what is refused is a letter, and nothing else changes."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing

import pytest
from confluent_kafka import Producer

from connectors.kafka.splits import as_offset
from integration_tests.counting import assert_counted, count_words
from integration_tests.harness.kills import kill_at
from integration_tests.harness.letters import letters_of, rows_of
from integration_tests.harness.oracle import PostgresTable
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, TABLE, Pipeline
from integration_tests.services import Services
from twophase.local_head import LocalHead
from twophase.status import read_status

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]


@pytest.fixture
def letters(pipeline: Pipeline, postgres_database: str) -> PostgresTable:
    """A table that the start makes, for the dead letters of `pipeline`."""
    return letters_of(pipeline, postgres_database)


def _checkpoint_of(pipeline: Pipeline) -> dict[int, int]:
    """Id of each record -> the checkpoint that covers it. Records are alone in the topic, in turn to the partitions."""
    found = read_status(LocalHead(pipeline.location))
    assert found is not None
    return {
        offset * PARTITIONS + int(each.split.rpartition("/")[2]): checkpoint.checkpoint_id
        for checkpoint in found.checkpoints
        for each in checkpoint.ranges["incoming"]
        for offset in range(as_offset(each.start), as_offset(each.end))
    }


@pytest.mark.timeout(1200)
def test_at_least_once_each_refused_row_is_a_letter_and_every_other_row_is_there(
    pipeline: Pipeline, letters: PostgresTable, services: Services, postgres_database: str
) -> None:
    """Into three databases, each with a constraint of its own. Killed before the letters are written, and after.

    Only checkpoints that were killed, or were the first of a run with such a row, may have repeats.
    """
    pipeline.spec["checkpoint"]["mode"] = "at-least-once"
    pipeline.spec["checkpoint"]["retained"] = 100
    (warehouse,) = pipeline.spec["sinks"]
    other, third = PostgresTable(postgres_database, "other"), pipeline.folder / "third.db"
    columns = "id BIGINT, word VARCHAR(40), payload VARCHAR(80)"
    other.execute(f"CREATE TABLE other ({columns}, CHECK (mod(id, 100) <> 7))")
    with closing(sqlite3.connect(third)) as database:
        database.execute(f"CREATE TABLE third ({columns}, CHECK (id % 250 <> 9))")
    pipeline.table.execute(f"ALTER TABLE `{TABLE}` ADD CONSTRAINT few CHECK (mod(id, 100) <> 3)")
    pipeline.spec["sinks"] = [
        {**warehouse, "commit": "two-phase"},
        {**warehouse, "name": "other", "connector": "postgresql", "url": postgres_database, "table": "other"},
        {"name": "third", "from": "rows", "connector": "sqlite", "path": str(third), "table": "third"}
        | {"commit": "write-ahead-log"},
    ]
    pipeline.workload.produce(6 * CHECKPOINT_RECORDS)
    for stem in ("dead-letters@0", "before-decide@1"):
        process = pipeline.start(arm=[stem])
        process.await_point(stem)
        assert letters.count() == (0 if stem == "dead-letters@0" else 2 * 12)
        process.kill()
    output = pipeline.catch_up().output()
    assert output.count("is written again, without the rows that are refused") == 1
    expected, of = pipeline.workload.expected, _checkpoint_of(pipeline)
    with closing(sqlite3.connect(third)) as database:
        in_third = Counter(database.execute("SELECT id, word, payload FROM third").fetchall())
    shown = {"warehouse": pipeline.table.rows(), "other": other.rows(), "third": in_third}
    refused = {"warehouse": (100, 3), "other": (100, 7), "third": (250, 9)}
    told = rows_of(letters)
    assert set(told) == set(shown)
    for sink, (every, rest) in refused.items():
        wanted = {row for row in expected if row[0] % every == rest}
        assert len(wanted) == len(expected) // every
        assert set(told[sink]) == wanted
        assert set(shown[sink]) == set(expected) - wanted
        for found in (told[sink], shown[sink]):
            repeated = {of[row[0]] for row, times in found.items() if times > 1}
            assert repeated <= {0, 1}, (sink, repeated)
    assert {of[row[0]] for row, times in told["other"].items() if times == 2} == {1}
    _a_bad_record_too(pipeline, letters, services)


def _a_bad_record_too(pipeline: Pipeline, letters: PostgresTable, services: Services) -> None:
    """One of a checkpoint that nothing kills, and then more than are allowed: none of them is written."""
    producer = Producer({"bootstrap.servers": services.kafka_bootstrap})
    producer.produce(pipeline.workload.topic, b"{", partition=0)
    assert producer.flush(60) == 0
    pipeline.catch_up()
    assert rows_of(letters)[""] == Counter([b"{"])
    before = letters.count()
    for _ in range(3):
        producer.produce(pipeline.workload.topic, b"[", partition=0)
    assert producer.flush(60) == 0
    pipeline.spec["checkpoint"]["max_dead_letters"] = 2
    pipeline.start().fail("has more than 2 dead letters")
    assert letters.count() == before


@pytest.fixture
def counting(pipeline: Pipeline) -> Pipeline:
    """A pipeline that counts words, into a table that takes no count of `beta`."""
    count_words(pipeline)
    pipeline.table.execute(f"ALTER TABLE `{TABLE}` ADD CONSTRAINT no_beta CHECK (word <> 'beta')")
    return pipeline


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("mode", ["exactly-once", "at-least-once"])
def test_with_state_each_record_is_counted_once_and_each_refused_row_is_one_letter(
    counting: Pipeline, letters: PostgresTable, mode: str
) -> None:
    """Killed before the letters are written, before the decision, and after it, where Spark runs the batch for its
    state and finds the rows that were decided, the refused ones among them (R4). No restart is spent on that."""
    counting.spec["checkpoint"]["mode"] = mode
    counting.spec["restart"] = {"strategy": "none"}
    counting.workload.produce(4 * CHECKPOINT_RECORDS)
    stems = ["dead-letters@0", "before-decide@1", "after-decide@2"]
    for stem in stems if mode == "exactly-once" else ["dead-letters@0", "closed@1"]:
        process = counting.start(arm=[stem])
        process.await_point(stem)
        process.kill()
    output = counting.catch_up().output()
    assert output.count("the query begins again, without the rows that are refused") == 1
    counting.table.execute(f"ALTER TABLE `{TABLE}` DROP CONSTRAINT no_beta")
    counting.workload.produce(CHECKPOINT_RECORDS)
    counting.catch_up()
    told = rows_of(letters)
    assert set(told) == {"warehouse"}
    assert {word for _, word, _ in told["warehouse"]} == {"beta"}
    if mode == "exactly-once":
        assert told["warehouse"].total() == len(told["warehouse"]) == 4
        assert letters.prepared(counting.head.incarnation) == []
    else:
        assert len(told["warehouse"]) == 4
    for row in told["warehouse"]:
        values = ", ".join(f"'{each}'" for each in row)
        counting.table.execute(f"INSERT INTO `{TABLE}` (id, word, payload) VALUES ({values})")
    if mode == "at-least-once":  # the checkpoint that was killed has its rows twice
        counting.table.execute(f"CREATE TABLE once AS SELECT DISTINCT * FROM `{TABLE}`")
        counting.table.execute(f"DROP TABLE `{TABLE}`")
        counting.table.execute(f"RENAME TABLE once TO `{TABLE}`")
    assert_counted(counting, checkpoints=5)


@pytest.mark.timeout(900)
def test_a_refused_row_is_remembered_by_a_step_that_drops_repeats(pipeline: Pipeline, letters: PostgresTable) -> None:
    """Its record comes a second time, and is neither a row nor a letter once more."""
    (pipeline.folder / "dedup.py").write_text("def once(rows):\n    return rows.dropDuplicates(['id'])\n")
    pipeline.spec["transforms"] = [
        {"name": "once", "python": "dedup:once", "from": "incoming"},
        {"name": "rows", "sql": "SELECT id, word, payload FROM once"},
    ]
    pipeline.table.execute(f"ALTER TABLE `{TABLE}` ADD CONSTRAINT few CHECK (mod(id, 100) <> 3)")
    pipeline.workload.produce(2 * CHECKPOINT_RECORDS)
    kill_at(pipeline, "prepared@0", "after-decide@0")
    pipeline.workload.repeat(CHECKPOINT_RECORDS)
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    pipeline.catch_up()
    refused = Counter(row for row in pipeline.workload.expected if row[0] % 100 == 3)
    assert refused.total() == 15
    assert pipeline.table.rows() == pipeline.workload.expected - refused
    assert rows_of(letters) == {"warehouse": refused}
    assert pipeline.prepared() == []

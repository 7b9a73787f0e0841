"""A source whose rows go to the sinks as they are: its tasks read and write in one process, and lose no more by it."""

from __future__ import annotations

import os
import re
import signal

import pytest
import sqlalchemy

from integration_tests.harness.kills import Kill, kill_at_each
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, Pipeline
from integration_tests.mysql_support import EXACT
from integration_tests.services import Services

pytestmark = [pytest.mark.timeout(900), pytest.mark.in_turns]

_RECORDS = 6 * CHECKPOINT_RECORDS

_KILLS = (
    Kill("reading", 0, (0, 1)),
    Kill("prepared@0", 0, (1, 2)),
    Kill("after-decide@0", 0, (2,)),
    Kill("writing@2", 2, (0, 1)),
    Kill("after-commits@3", 4, (0,)),
)

_TRIED_AGAIN = "is written again, in other tasks, to find rows with one key"


@pytest.fixture
def chained(pipeline: Pipeline) -> Pipeline:
    """From the topic to the table without a step between."""
    pipeline.spec["transforms"] = []
    (sink,) = pipeline.spec["sinks"]
    sink["from"] = "incoming"
    return pipeline


def test_killed_at_every_point(chained: Pipeline) -> None:
    chained.workload.produce(_RECORDS)
    kill_at_each(chained, _KILLS)
    chained.catch_up()
    chained.assert_exact(at_least=_RECORDS)


def test_a_worker_killed_while_it_reads_or_writes(chained: Pipeline) -> None:
    """Both happen in the same process; in a pipeline with a step they do not."""
    chained.workload.produce(_RECORDS)
    process = chained.start(arm=["reading", "writing@0"])
    workers = {process.await_point(stem) for stem in ("reading", "writing@0")}
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
    process.succeed()
    assert "restarting" in process.output()
    chained.assert_exact(at_least=_RECORDS)


@pytest.mark.parametrize("commit", ["two-phase", "write-ahead-log"])
def test_a_transaction_that_is_lost_is_written_again(chained: Pipeline, commit: str) -> None:
    """`eos repair` reads by way of the query, and finds the same rows in the same tasks."""
    (sink,) = chained.spec["sinks"]
    sink["commit"] = commit
    if commit == "two-phase":
        chained.table.execute(f"ALTER TABLE `{chained.table.name}` ADD PRIMARY KEY (id)")
    chained.workload.produce(_RECORDS)
    killed = chained.start(arm=["after-decide@1"])
    killed.await_point("after-decide@1")
    killed.kill()
    if commit == "two-phase":
        first, *others = chained.prepared()
        assert len(others) == PARTITIONS - 1
        chained.table.execute(f"XA ROLLBACK {first}")
    else:
        min((chained.location / "log").rglob("*-000000000001-*.segment")).unlink()
    chained.start().fail("lost", "checkpoint", "eos repair SPEC")
    assert chained.table.count() < 2 * CHECKPOINT_RECORDS
    chained.command("repair", "--yes").succeed()
    chained.catch_up()
    chained.assert_exact(at_least=_RECORDS)


def test_rows_of_one_key_in_two_tasks_are_named_by_a_second_try(chained: Pipeline, services: Services) -> None:
    """H15: each task waits for the other one's lock, which says nothing about the reason."""
    text = f"VARCHAR(40) CHARACTER SET utf8mb4 COLLATE {EXACT[services.database.name]}"
    chained.table.execute(f"ALTER TABLE `{chained.table.name}` MODIFY word {text}, ADD UNIQUE (word)")
    chained.workload.produce_words(*["one key"] * PARTITIONS)
    process = chained.start()
    process.fail("error: sink warehouse", "Duplicate entry 'one key'", "  remedy: ")
    assert process.output().count(_TRIED_AGAIN) == 1
    assert (chained.table.count(), chained.prepared()) == (0, [])


def test_a_try_that_looked_for_equal_rows_is_not_decided(chained: Pipeline) -> None:
    """Somebody else holds a row until that try has begun, which then prepares everything, in other tasks. After it the
    checkpoint is written as at first."""
    chained.table.execute(f"ALTER TABLE `{chained.table.name}` ADD PRIMARY KEY (id)")
    chained.workload.produce(_RECORDS)
    elsewhere = sqlalchemy.create_engine(chained.table.url, poolclass=sqlalchemy.NullPool)
    with elsewhere.connect() as holder:
        holder.exec_driver_sql(f"INSERT INTO `{chained.table.name}` VALUES (0, 'somebody', 'else')")
        process = chained.start()
        process.await_output(_TRIED_AGAIN)
        holder.rollback()
    process.succeed()
    chained.assert_exact(at_least=_RECORDS)
    assert process.output().count(_TRIED_AGAIN) == 1
    assert re.search(rf"checkpoint=0 state=committed epoch=1 try=3 .* writers={PARTITIONS} ", process.output())
    assert chained.head.epoch == 1


def test_at_least_once(chained: Pipeline) -> None:
    chained.spec["checkpoint"]["mode"] = "at-least-once"
    chained.workload.produce(_RECORDS)
    chained.catch_up()
    chained.assert_exact(at_least=_RECORDS)

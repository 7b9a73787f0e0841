"""Two topics with different schemas to two tables, in one pipeline with one checkpoint."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections import Counter
from contextlib import closing
from copy import deepcopy
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from connectors.kafka.splits import as_offset
from integration_tests.conftest import TopicFactory
from integration_tests.harness.command_line import CommandLine
from integration_tests.harness.oracle import SinkTable, compare
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, TABLE, Pipeline
from integration_tests.harness.workload import Row, Workload
from integration_tests.savepoints import keep_ids, succeed, take
from integration_tests.services import Services

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 4 * CHECKPOINT_RECORDS
_VISITS = 2 * CHECKPOINT_RECORDS
_VISIT = "number BIGINT, title STRING, amount DECIMAL(12,3)"

Visit = tuple[int, str | None, Decimal]


def _amount(row: Row) -> Decimal:
    return Decimal(row[0]) / 8 + Decimal("0.001")


def _encoded(row: Row) -> bytes:
    return json.dumps({"number": row[0], "title": row[1], "amount": str(_amount(row))}).encode()


class Visits:
    """The second topic, and its table."""

    def __init__(self, pipeline: Pipeline, bootstrap: str, topic: str) -> None:
        self.workload = Workload(bootstrap, topic, PARTITIONS)
        self.workload.encode = _encoded
        self.table = SinkTable(pipeline.table.url, "visits")
        self.table.execute("CREATE TABLE visits (number BIGINT, title VARCHAR(40), amount DECIMAL(12,3))")
        schema = {"type": "json", "schema": _VISIT}
        self.source = {**deepcopy(pipeline.source), "name": "more", "topics": [topic], "format": schema}
        (warehouse,) = pipeline.spec["sinks"]
        self.sink = {**warehouse, "name": "visits", "from": "more", "table": "visits"}

    def add_to(self, pipeline: Pipeline) -> None:
        pipeline.spec["sources"].append(self.source)
        pipeline.spec["sinks"].append(self.sink)

    def rows(self) -> Counter[Any]:
        return Counter(tuple(row) for row in self.table.execute("SELECT number, title, amount FROM visits"))

    @property
    def expected(self) -> Counter[Any]:
        return Counter({(row[0], row[1], _amount(row)): count for row, count in self.workload.expected.items()})

    def assert_clean(self) -> None:
        verdict = compare(self.expected, self.rows())
        assert verdict.clean, str(verdict)

    def assert_exact(self, at_least: int) -> None:
        verdict = compare(self.expected, self.rows())
        assert verdict.exact, str(verdict)
        assert verdict.in_sink >= at_least, str(verdict)


@pytest.fixture
def visits(pipeline: Pipeline, topic: TopicFactory, services: Services) -> Visits:
    return Visits(pipeline, services.kafka_bootstrap, topic(partitions=PARTITIONS))


def _read(pipeline: Pipeline) -> dict[str, int]:
    return {source: sum(map(as_offset, ends.values())) for source, ends in pipeline.head.positions.items()}


@pytest.mark.timeout(1200)
def test_three_sinks_of_which_two_share_a_step_killed_at_every_point(
    pipeline: Pipeline, visits: Visits, tmp_path: Path
) -> None:
    """The driver is killed at each point, and a task between prepare and the decision."""
    visits.add_to(pipeline)
    file = tmp_path / "archive.db"
    with closing(sqlite3.connect(file)) as archive:
        archive.execute(f"CREATE TABLE {TABLE} (id INTEGER, word TEXT, payload TEXT)")
    pipeline.spec["transforms"].append({"name": "even", "sql": "SELECT * FROM rows WHERE id % 2 = 0"})
    log = {"connector": "sqlite", "path": str(file), "table": TABLE, "commit": "write-ahead-log"}
    pipeline.spec["sinks"].append({"name": "archive", "from": "even", **log})
    pipeline.workload.produce(_RECORDS)
    visits.workload.produce(_VISITS)
    for stem in ("writing@0", "prepared@0", "before-decide@1", "after-decide@2", "between-commits@3", "closed@4"):
        process = pipeline.start(arm=[stem])
        process.await_point(stem)
        assert pipeline.verdict().clean
        visits.assert_clean()
        process.kill()
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    visits.workload.produce(CHECKPOINT_RECORDS)
    stem = f"prepared@{pipeline.head.completed + 1}"
    process = pipeline.start(arm=[stem])
    os.kill(process.await_point(stem), signal.SIGKILL)
    process.succeed()
    pipeline.assert_exact(at_least=_RECORDS + CHECKPOINT_RECORDS)
    visits.assert_exact(at_least=_VISITS + CHECKPOINT_RECORDS)
    with closing(sqlite3.connect(file)) as archive:
        found = Counter(archive.execute(f"SELECT id, word, payload FROM {TABLE}").fetchall())
    even = Counter({row: count for row, count in pipeline.workload.expected.items() if row[0] % 2 == 0})
    assert compare(even, found).exact
    assert _read(pipeline) == {"incoming": _RECORDS + CHECKPOINT_RECORDS, "more": _VISITS + CHECKPOINT_RECORDS}


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("chained", [True, False])
def test_transactions_that_are_lost_are_written_again(pipeline: Pipeline, visits: Visits, *, chained: bool) -> None:
    """`eos repair` reads by way of the query, also where the tasks read for themselves, and finds the same tasks."""
    visits.add_to(pipeline)
    if chained:
        pipeline.spec["transforms"] = []
        pipeline.spec["sinks"][0]["from"] = "incoming"
    pipeline.workload.produce(_RECORDS)
    visits.workload.produce(_RECORDS)
    killed = pipeline.start(arm=["prepared@0", "after-decide@1"])
    os.kill(killed.await_point("prepared@0"), signal.SIGKILL)
    killed.await_point("after-decide@1")
    killed.kill()
    prepared = pipeline.prepared()
    assert len(prepared) == 2 * PARTITIONS, "each sink has a transaction for each partition of its own topic"
    for each in (prepared[0], prepared[-1]):
        pipeline.table.execute(f"XA ROLLBACK {each}")
    pipeline.start().fail("lost", "checkpoint", "eos repair SPEC")
    pipeline.command("repair", "--yes").succeed()
    pipeline.catch_up()
    pipeline.assert_exact(at_least=_RECORDS)
    visits.assert_exact(at_least=_RECORDS)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("chained", [True, False])
def test_a_topic_without_records_holds_up_nothing(pipeline: Pipeline, visits: Visits, *, chained: bool) -> None:
    visits.add_to(pipeline)
    if chained:
        pipeline.spec["transforms"] = []
        pipeline.spec["sinks"][0]["from"] = "incoming"
    visits.workload.produce(_VISITS)
    pipeline.catch_up()
    assert (pipeline.table.count(), _read(pipeline)) == (0, {"incoming": 0, "more": _VISITS})
    visits.assert_exact(at_least=_VISITS)
    pipeline.workload.produce(_RECORDS)
    pipeline.catch_up()
    pipeline.assert_exact(at_least=_RECORDS)
    visits.assert_exact(at_least=_VISITS)


@pytest.mark.timeout(900)
def test_one_topic_with_state_and_one_without(pipeline: Pipeline, visits: Visits) -> None:
    """R4: a batch that is decided runs again for its state, and the rows of both must be the same."""
    visits.add_to(pipeline)
    keep_ids(pipeline)
    pipeline.workload.produce(_RECORDS)
    pipeline.workload.repeat(CHECKPOINT_RECORDS)
    visits.workload.produce(_VISITS)
    for stem in ("before-decide@0", "after-decide@1", "closed@2"):
        process = pipeline.start(arm=[stem])
        process.await_point(stem)
        process.kill()
    pipeline.catch_up()
    pipeline.assert_exact(at_least=_RECORDS)
    visits.assert_exact(at_least=_VISITS)


@pytest.mark.timeout(900)
def test_a_topic_is_added_to_a_pipeline_with_state(
    pipeline: Pipeline, visits: Visits, eos: CommandLine, tmp_path: Path
) -> None:
    """A start refuses it. From a savepoint, the state stays with its step."""
    keep_ids(pipeline)
    pipeline.workload.produce(_RECORDS)
    succeed(pipeline, eos)
    folder = take(pipeline, eos, tmp_path / "kept")
    visits.add_to(pipeline)
    visits.workload.produce(_VISITS)
    pipeline.workload.repeat(CHECKPOINT_RECORDS)
    pipeline.start().fail("sink visits is new to this pipeline")
    assert visits.rows() == Counter()
    ended = succeed(pipeline, eos, "--from-savepoint", str(folder))
    assert "source more: added" in ended.output, ended.output
    pipeline.assert_exact(at_least=_RECORDS)
    visits.assert_exact(at_least=_VISITS)


@pytest.mark.timeout(900)
def test_bad_records_and_rules_of_both_topics(pipeline: Pipeline, visits: Visits, tmp_path: Path) -> None:
    """Each dead letter is of its own topic."""
    visits.add_to(pipeline)
    file = tmp_path / "bad.db"
    sqlite3.connect(file).close()
    letters = {"connector": "sqlite", "path": str(file), "table": "bad", "create": "if-missing"}
    pipeline.spec["dead_letter"] = {**letters, "commit": "write-ahead-log"}
    rule = {"name": "even", "condition": "number % 2 = 0", "action": "dead-letter"}
    pipeline.spec["transforms"].append(
        {"name": "checked", "sql": "SELECT number, title, amount FROM more", "expect": [rule]}
    )
    visits.sink["from"] = "checked"
    pipeline.workload.produce(_RECORDS)
    visits.workload.produce(_VISITS)
    for number in range(7):
        pipeline.workload.produce_bad(f"not json {number}", number % PARTITIONS)
        visits.workload.produce_bad(f"no visit {number}", number % PARTITIONS)
    process = pipeline.start(arm=["dead-letters@0"])
    process.await_point("dead-letters@0")
    process.kill()
    pipeline.catch_up()
    pipeline.assert_exact(at_least=_RECORDS)
    assert visits.rows() == Counter({row: count for row, count in visits.expected.items() if row[0] % 2 == 0})
    with closing(sqlite3.connect(file)) as bad:
        found = Counter(bad.execute("SELECT source, topic, sink FROM bad").fetchall())
    assert found.total() == 14 + _VISITS // 2
    assert found["incoming", pipeline.workload.topic, None] == found["more", visits.workload.topic, None] == 7

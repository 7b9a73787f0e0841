"""A savepoint into PostgreSQL and Kafka, with head in a database: of divided state, and divided again afterwards."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from connectors.sql.head import SqlHead
from integration_tests.conftest import TopicFactory
from integration_tests.harness.command_line import CommandLine
from integration_tests.harness.drain import drained_rows
from integration_tests.harness.oracle import PostgresTable, compare
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, TABLE, Pipeline
from integration_tests.savepoints import facts, keep_ids, rescale, run, succeed, take
from integration_tests.services import Services
from spark_jobs.query.spark_log import LocalSparkLog
from twophase.codec import decode_head
from twophase.head_value import HeadValue
from wal.testing import files_in

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_FIRST, _NEW = 2 * CHECKPOINT_RECORDS, 100


class Spread(Pipeline):
    """As Pipeline, with head in `database`, into a table of PostgreSQL and a topic."""

    def __init__(self, folder: Path, brokers: str, topics: tuple[str, str], database: str, postgres: str) -> None:
        topic, self.target = topics
        super().__init__(folder, brokers, topic, database)
        self.brokers = brokers
        self.database = database
        self._postgres = PostgresTable(postgres, TABLE)
        self._postgres.create()
        self.environment |= {"HEAD_URL": database, "TABLE_URL": postgres}
        self.spec["checkpoint"]["head"] = "${env:HEAD_URL}"
        keep_ids(self)
        self.spec["spark"]["conf"] = {}
        self.spec["sinks"][0] |= {"connector": "postgresql", "url": "${env:TABLE_URL}"}
        to = {"bootstrap_servers": brokers, "topic": self.target, "key": ["id"], "commit": "write-ahead-log"}
        self.spec["sinks"].append({"name": "out", "connector": "kafka", "from": "once", **to})

    @property
    def shown(self) -> PostgresTable:
        """See Pipeline."""
        return self._postgres

    @property
    def head(self) -> HeadValue:
        """See Pipeline."""
        with closing(SqlHead(self.database, self.spec["pipeline"])) as store:
            read = store.read()
        assert read is not None
        return decode_head(read.value)

    def was_born(self) -> bool:
        """See Pipeline."""
        with closing(SqlHead(self.database, self.spec["pipeline"])) as store:
            return store.read() is not None

    def prepared(self) -> list[str]:
        """See Pipeline: in the table's server, and segments that no message was made of."""
        waiting = (path.name for path in files_in(self.location / "log"))
        return [*super().prepared(), *waiting]

    def assert_exact(self, at_least: int) -> None:
        """See Pipeline, of both."""
        super().assert_exact(at_least)
        verdict = compare(self.workload.expected, drained_rows(self.brokers, self.target))
        assert verdict.exact, str(verdict)
        assert verdict.in_sink >= at_least, str(verdict)


@pytest.fixture
def spread(
    services: Services, database: str, postgres_database: str, topic: TopicFactory, tmp_path: Path, _first_run: None
) -> Iterator[Spread]:
    folder = tmp_path / "pipeline"
    folder.mkdir()
    topics = topic(partitions=PARTITIONS), topic(partitions=3)
    with Spread(folder, services.kafka_bootstrap, topics, database, postgres_database) as made:
        yield made


@pytest.mark.timeout(900)
def test_a_lost_location_and_state_that_is_divided_before_and_after(
    spread: Spread, eos: CommandLine, tmp_path: Path
) -> None:
    spread.workload.produce(_FIRST)
    succeed(spread, eos)
    rescale(spread, eos, 5)
    folder = take(spread, eos, tmp_path / "kept")
    assert facts(spread, eos, "inspect", str(folder))["checkpoint_id"] == 2, "the one that has no rows"
    shutil.rmtree(spread.location)

    # Head is where the savepoint is, and knows of it; what is lost is Spark's checkpoint.
    refused = run(spread, eos)
    assert (refused.code, "Spark's checkpoint is gone" in refused.output) == (1, True), refused.output
    life = spread.head.incarnation
    begun = succeed(spread, eos, "--from-savepoint", str(folder))
    assert "still at the savepoint" not in begun.output
    assert (spread.head.incarnation != life, spread.head.completed) == (True, 2)
    rescale(spread, eos, 3)  # nothing was read yet: neither a marker nor a witness is there of this life
    spread.workload.repeat(_FIRST)
    spread.workload.produce(_NEW)
    succeed(spread, eos)
    spread.assert_exact(at_least=_FIRST + _NEW)

    # And back, from a savepoint of that.
    folder = take(spread, eos, tmp_path / "kept")
    rescale(spread, eos, 2)
    spread.workload.produce(_NEW)
    succeed(spread, eos)
    spread.assert_exact(at_least=_FIRST + 2 * _NEW)
    completed = spread.head.completed
    succeed(spread, eos, "--from-savepoint", str(folder), "--accept-duplicates")
    partitions = LocalSparkLog(spread.location).state(spread.head.incarnation).state_partitions
    assert set(partitions.values()) == {3}
    assert spread.head.completed < completed, "counted on from the savepoint, without the rescale"
    twice = spread.shown.rows() - spread.workload.expected
    assert (twice.total(), twice) == (_NEW, drained_rows(spread.brokers, spread.target) - spread.workload.expected)

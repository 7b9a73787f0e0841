"""PostgreSQL as a sink: its server killed, what doctor says, and a refused row. `test_matrix` kills the driver."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from integration_tests.conftest import TopicFactory
from integration_tests.harness.command_line import CommandLine
from integration_tests.harness.oracle import PostgresTable
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, TABLE, Pipeline
from integration_tests.services import Services
from integration_tests.services.postgres_native import Postgres

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 8 * CHECKPOINT_RECORDS


class PostgresPipeline(Pipeline):
    """As Pipeline, into PostgreSQL."""

    def __init__(self, folder: Path, bootstrap: str, topic: str, database: str) -> None:
        super().__init__(folder, bootstrap, topic, database)
        self._postgres = PostgresTable(database, TABLE)
        (sink,) = self.spec["sinks"]
        sink["connector"] = "postgresql"

    @property
    def shown(self) -> PostgresTable:
        """See Pipeline."""
        return self._postgres


@pytest.fixture
def pipeline(
    services: Services, postgres_database: str, topic: TopicFactory, tmp_path: Path, _first_run: None
) -> Iterator[PostgresPipeline]:
    folder = tmp_path / "pipeline"
    folder.mkdir()
    made = PostgresPipeline(folder, services.kafka_bootstrap, topic(partitions=PARTITIONS), postgres_database)
    with made:
        yield made


@pytest.mark.timeout(600)
@pytest.mark.alone
def test_the_server_killed_while_it_holds_what_is_prepared(pipeline: PostgresPipeline, postgres: Postgres) -> None:
    pipeline.shown.create()
    pipeline.workload.produce(_RECORDS)
    process = pipeline.start(arm=["after-decide@1"])
    process.await_point("after-decide@1")
    postgres.kill()
    process.release("after-decide@1")
    postgres.up()
    process.succeed()
    pipeline.assert_exact(at_least=_RECORDS)


@pytest.mark.timeout(300)
def test_doctor_and_a_row_that_the_table_refuses(pipeline: PostgresPipeline, tmp_path: Path) -> None:
    pipeline.shown.create()
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    with CommandLine(tmp_path) as commands:
        ended = commands.run(["doctor", str(pipeline.write_spec())], pipeline.environment)
    assert ended.code == 0, ended.output
    assert "max_prepared_transactions" in ended.output
    pipeline.shown.execute(f'ALTER TABLE "{TABLE}" ALTER COLUMN word TYPE VARCHAR(4)')
    pipeline.start().fail("column 'word': longer than 4 characters")
    assert pipeline.shown.count() == 0
    pipeline.shown.execute(f'ALTER TABLE "{TABLE}" ALTER COLUMN word TYPE VARCHAR(40)')
    pipeline.catch_up()
    pipeline.assert_exact(at_least=CHECKPOINT_RECORDS)


@pytest.mark.timeout(600)
def test_h15_a_key_of_a_partition_alone_that_repeats_is_a_bad_row_not_a_lock_wait(pipeline: PostgresPipeline) -> None:
    """The index is no index of the table, and its two rows come to two tasks."""
    pipeline.shown.execute(
        f'CREATE TABLE "{TABLE}" (id BIGINT, word VARCHAR(40), payload VARCHAR(80)) PARTITION BY RANGE (id)'
    )
    pipeline.shown.execute(f'CREATE TABLE leaf PARTITION OF "{TABLE}" DEFAULT')
    pipeline.shown.execute("CREATE UNIQUE INDEX of_leaf ON leaf (word)")
    pipeline.workload.produce_words("key", "key")
    pipeline.start().fail("error: sink warehouse", 'duplicate key value violates unique constraint "of_leaf"')
    assert (pipeline.shown.count(), pipeline.prepared()) == (0, [])
    pipeline.shown.execute("DROP INDEX of_leaf")
    pipeline.catch_up()
    assert pipeline.shown.count() == 2

"""Pipelines whose tasks keep their connections to the sink: logins counted over checkpoints, killed and fenced."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil
import pytest
import sqlalchemy

from integration_tests.conftest import TopicFactory
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, Pipeline
from integration_tests.harness.pipeline_process import PipelineProcess
from integration_tests.services import Services
from integration_tests.services.postgres_native import Postgres
from integration_tests.test_postgres_pipeline import PostgresPipeline
from integration_tests.test_sink_logins import Server, counted, on_mysql, on_postgres
from tests.waiting import until

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_CHECKPOINTS: Final = 12
_MOST_LOGINS: Final = 10
"""Of a run: 2 for a start's questions and the driver, and 4 for the Python workers, of which any may have any task of
the two at once; the rest is for workers that Spark replaces. Without kept connections there are 24 more."""


@pytest.fixture
def prepared(
    services: Services, postgres_database: str, topic: TopicFactory, tmp_path: Path, _first_run: None
) -> Iterator[PostgresPipeline]:
    folder = tmp_path / "pipeline"
    folder.mkdir()
    with PostgresPipeline(folder, services.kafka_bootstrap, topic(partitions=PARTITIONS), postgres_database) as made:
        made.shown.create()
        yield made


def run_and_count(pipeline: Pipeline, server: Server) -> int:
    """Write some checkpoints in a run; return how often it has logged in."""
    pipeline.workload.produce(_CHECKPOINTS * CHECKPOINT_RECORDS)
    found = counted(server, lambda: _run(pipeline))
    assert pipeline.decided().checkpoint_id + 1 >= _CHECKPOINTS
    pipeline.assert_exact(at_least=_CHECKPOINTS * CHECKPOINT_RECORDS)
    return found


def _run(pipeline: Pipeline) -> None:
    pipeline.catch_up()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", ["exactly-once", "at-least-once"])
def test_a_run_logs_in_to_postgresql_as_often_whatever_the_number_of_checkpoints(
    prepared: PostgresPipeline, postgres: Postgres, postgres_database: str, mode: str
) -> None:
    prepared.spec["checkpoint"]["mode"] = mode
    assert run_and_count(prepared, on_postgres(postgres, postgres_database)) <= _MOST_LOGINS


@pytest.mark.alone
@pytest.mark.timeout(600)
def test_a_run_logs_in_to_mysql_as_often_whatever_the_number_of_checkpoints_at_least_once(
    pipeline: Pipeline, services: Services, database: str
) -> None:
    """With two-phase commit on MariaDB each task logs in: `test_each_task_of_xa_logs_in_to_mariadb`."""
    pipeline.spec["checkpoint"]["mode"] = "at-least-once"
    assert run_and_count(pipeline, on_mysql(services.admin_database_url, database)) <= _MOST_LOGINS


@pytest.mark.alone
@pytest.mark.timeout(900)
def test_connections_workers_and_servers_that_end_between_two_checkpoints(
    prepared: PostgresPipeline, postgres: Postgres, postgres_database: str
) -> None:
    server = on_postgres(postgres, postgres_database)
    process = prepared.start(until_caught_up=False)

    def checkpoint() -> None:
        prepared.workload.produce(CHECKPOINT_RECORDS)
        until(lambda: prepared.shown.count() == len(prepared.workload.expected), timeout_s=120, look_s=0.1)

    for _ in range(3):
        checkpoint()
    until(lambda: server.connections() > 0, timeout_s=120, look_s=0.1)
    assert server.end_idle() > 0
    checkpoint()
    assert prepared.head.epoch == 1, process.output()  # no task has failed
    workers = _workers_at(process, postgres)
    assert workers
    for each in workers:
        each.kill()
    checkpoint()
    server.engine.dispose()
    postgres.kill()
    postgres.up()
    checkpoint()
    server.execute(f"ALTER DATABASE {_name(postgres_database)} SET idle_session_timeout = '1s'")
    server.end_idle()
    for _ in range(2):
        checkpoint()
        time.sleep(2.5)
        assert server.connections() == 0
    checkpoint()
    process.terminate()
    process.succeed()
    prepared.assert_exact(at_least=9 * CHECKPOINT_RECORDS)


def _name(url: str) -> str:
    name = sqlalchemy.make_url(url).database
    assert name is not None
    return name


def _workers_at(process: PipelineProcess, postgres: Postgres) -> list[psutil.Process]:
    """The Python workers that have a connection there."""
    port = sqlalchemy.make_url(postgres.url).port
    below = [each for java in process.java() for each in java.children(recursive=True)]
    return [each for each in below if _is_connected(each, port)]


def _is_connected(process: psutil.Process, port: int | None) -> bool:
    """Whether it has a connection to the port. A process that has ended meanwhile has none."""
    with suppress(psutil.NoSuchProcess):
        return any(at.raddr and at.raddr.port == port for at in process.net_connections("tcp"))
    return False


@pytest.mark.timeout(900)
def test_r3_a_driver_and_its_task_on_a_kept_connection_are_superseded(
    prepared: PostgresPipeline, postgres: Postgres, postgres_database: str
) -> None:
    """The task holds the older permit: a start ends its connection, which earlier tasks have used for theirs."""
    server = on_postgres(postgres, postgres_database)
    prepared.workload.produce(8 * CHECKPOINT_RECORDS)
    older = prepared.start(arm=["writing@4"])
    older.await_point("writing@4")
    assert server.logins() <= _MOST_LOGINS  # ten tasks, and that one
    prepared.catch_up(take_over=True)
    older.release("writing@4")
    older.fail("fenced: ", "another driver of this pipeline has started since")
    prepared.assert_exact(at_least=8 * CHECKPOINT_RECORDS)
    assert prepared.head.epoch == 2

"""The well-known job of `examples/eos/pipeline-flink.yaml`: one chain over all records, through failures and kills."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import count, islice
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from examples.eos import reference
from integration_tests.conftest import TopicFactory
from integration_tests.demo.job import Job
from integration_tests.demo.table import ServerTable
from integration_tests.harness.oracle import SinkTable
from integration_tests.harness.pipeline_process import PipelineProcess
from integration_tests.services import Services
from spark_jobs.demo.place import COLUMN, NAME, Place

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_WAIT_S = 300.0
_KILLS = ("before-decide", "after-decide", "after-commits", "prepared")
"""The driver is killed once at each of these points."""

_OWN_LOCATION = ("./checkpoints/eos-flink", "./checkpoints/eos")
"""The place where `Job` looks for head."""


class _Chain:
    """The values of a topic with one partition, and the table in the order of its rows."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._producer = Producer({"bootstrap.servers": place.bootstrap, "enable.idempotence": True})
        self._values = _values()
        self._server = SinkTable(place.database, NAME)
        self.produced: list[str] = []

    def produce(self, records: int) -> None:
        """Produce more records. Return when the broker has them."""
        for value in islice(self._values, records):
            self._producer.produce(self._place.topic, value.encode(), f"key of {value}".encode())
            self.produced.append(value)
        assert self._producer.flush(60) == 0

    def rows(self) -> list[str]:
        return [row[0] for row in self._server.execute(f"SELECT {COLUMN} FROM {NAME} ORDER BY position")]

    def await_rows(self, driver: PipelineProcess, rows: int) -> None:
        deadline = time.monotonic() + _WAIT_S
        while len(self.rows()) < rows:
            assert driver.exit_code is None, driver.output()
            assert time.monotonic() < deadline, f"{len(self.rows())} of {rows} rows\n{driver.output()}"
            time.sleep(0.1)


def _values() -> Iterator[str]:
    """Generate different values. Every third contains an x."""
    for number in count():
        yield f"fox-{number}" if number % 3 == 2 else f"bear-{number}"


def _group(services: Services) -> Consumer:
    """Return a consumer of the spec's group, which subscribes to nothing."""
    settings = {"bootstrap.servers": services.kafka_bootstrap, "group.id": "eos", "enable.auto.commit": False}
    return Consumer(settings)


def _committed(services: Services, topic: str) -> int:
    group = _group(services)
    (found,) = group.committed([TopicPartition(topic, 0)], timeout=30)
    group.close()
    return found.offset


def _commit(services: Services, topic: str, offset: int) -> None:
    group = _group(services)
    group.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    group.close()


@pytest.fixture
def place(services: Services, database: str, topic: TopicFactory) -> Place:
    table = ServerTable(database)
    table.create(f"CREATE TABLE {NAME} (position BIGINT AUTO_INCREMENT PRIMARY KEY, {COLUMN} VARCHAR(255))")
    return Place("test", services.kafka_bootstrap, topic(partitions=1), "pipeline-flink.yaml", database, table)


def _assert_one_chain(rows: Sequence[str], values: Sequence[str]) -> None:
    assert reference.broken_links(rows) == []
    assert rows == reference.one_chain(values)


@pytest.mark.timeout(2400)
def test_kills_and_divisions_by_zero_leave_one_chain(place: Place, services: Services, tmp_path: Path) -> None:
    chain = _Chain(place)
    chain.produce(5)
    _commit(services, place.topic, 2)  # the job begins there, and not at the earliest or the latest record
    begun = 2
    with Job(tmp_path, place, [_OWN_LOCATION]) as job:
        driver = job.start(None)
        chain.await_rows(driver, 3)
        assert chain.rows()[0] == "pre:;current:FOX-2:::map"
        for point in _KILLS:
            driver.faults.arm(point)
            chain.produce(3)
            driver.await_point(point)
            driver.kill()
            driver = job.start(None)
            chain.await_rows(driver, len(chain.produced) - begun)
        while "ZeroDivisionError" not in "".join(each.output() for each in job.drivers):
            chain.produce(3)
            chain.await_rows(driver, len(chain.produced) - begun)
        chain.produce(2)
        chain.await_rows(driver, len(chain.produced) - begun)
        driver.terminate()
        driver.succeed()
        assert job.prepared() == []
        assert job.starts > len(job.drivers)  # a division by zero restarted the pipeline within its driver
    _assert_one_chain(chain.rows(), chain.produced[begun:])
    assert len(chain.rows()) >= 3 + 3 * len(_KILLS) + 2
    assert _committed(services, place.topic) == begun  # nothing was committed back


@pytest.mark.timeout(600)
def test_without_committed_offsets_it_begins_at_the_latest_record(place: Place, tmp_path: Path) -> None:
    chain = _Chain(place)
    chain.produce(3)
    no_failures = ("failure_probability: 0.25", "failure_probability: 0")
    with Job(tmp_path, place, [_OWN_LOCATION, no_failures]) as job:
        driver = job.start(None)
        driver.await_output("state=running")  # its first position is stored
        chain.produce(3)
        chain.await_rows(driver, 3)
        driver.terminate()
        driver.succeed()
        assert job.starts == 1
    _assert_one_chain(chain.rows(), chain.produced[3:])

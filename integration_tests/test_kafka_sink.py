"""Kafka as a sink: frozen, with the broker away, and with messages that it would refuse. `test_matrix` kills."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connectors.kafka.settings import Connection
from connectors.kafka.sink.place import Place
from connectors.kafka.sink.producer import TransactionalProducer
from connectors.kafka.sink.target import BATCH
from integration_tests import topics
from integration_tests.conftest import TopicFactory
from integration_tests.harness.command_line import CommandLine
from integration_tests.harness.drain import Record, drain, drained_rows
from integration_tests.harness.oracle import Verdict, compare
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, Pipeline
from integration_tests.harness.workload import Row
from integration_tests.services import Services
from wal.testing import files_in

pytestmark = [pytest.mark.any_server, pytest.mark.in_turns]

_RECORDS = 8 * CHECKPOINT_RECORDS


class KafkaPipeline(Pipeline):
    """As Pipeline, into a topic."""

    def __init__(self, folder: Path, bootstrap: str, topic: str, target: str) -> None:
        super().__init__(folder, bootstrap, topic, "sqlite://")
        self.brokers = bootstrap
        self.target = target
        self.sink: dict[str, Any] = {
            "name": "out",
            "connector": "kafka",
            "from": "rows",
            "bootstrap_servers": bootstrap,
            "topic": target,
            "key": ["id"],
            "commit": "write-ahead-log",
        }
        self.spec["sinks"] = [self.sink]

    def messages(self) -> list[Record]:
        """What a reader of committed messages sees."""
        return drain(self.brokers, self.target)

    def rows(self) -> Counter[Row]:
        """The same, decoded."""
        return drained_rows(self.brokers, self.target)

    def verdict(self) -> Verdict:
        """See Pipeline."""
        return compare(self.workload.expected, self.rows())

    def prepared(self) -> list[str]:
        """See Pipeline: segments that nobody has applied."""
        return [file.name for file in files_in(self.location / "log")]

    def close(self) -> None:
        """See Pipeline."""
        for process in self.processes:
            process.kill()


@pytest.fixture
def pipeline(services: Services, topic: TopicFactory, tmp_path: Path, _first_run: None) -> Iterator[KafkaPipeline]:
    folder = tmp_path / "pipeline"
    folder.mkdir()
    with KafkaPipeline(folder, services.kafka_bootstrap, topic(partitions=PARTITIONS), topic(partitions=3)) as made:
        yield made


@pytest.mark.timeout(600)
def test_a_driver_frozen_in_the_middle_of_a_transaction_is_fenced(pipeline: KafkaPipeline) -> None:
    """The next one ends its transaction and writes the messages again. What the frozen one sends later is refused."""
    pipeline.workload.produce(_RECORDS)
    frozen = pipeline.start(arm=["applying@1"])
    stopped = frozen.await_point("applying@1")
    os.kill(stopped, signal.SIGSTOP)
    pipeline.catch_up(take_over=True)
    pipeline.assert_exact(at_least=_RECORDS)
    os.kill(stopped, signal.SIGCONT)
    frozen.release("applying@1")
    frozen.fail("fenced: ")
    pipeline.assert_exact(at_least=_RECORDS)


@pytest.mark.timeout(900)
def test_another_number_of_slots(pipeline: KafkaPipeline) -> None:
    """What is decided is applied by the slots that it was written for; slots that come back begin where they must."""
    pipeline.workload.produce(_RECORDS)
    for slots, stem in ((1, "applying@1"), (3, "after-decide@2"), (1, "between-commits@3"), (3, "closed@4")):
        pipeline.sink["slots"] = slots
        process = pipeline.start(arm=[stem])
        process.await_point(stem)
        process.kill()
    pipeline.sink["slots"] = 4
    pipeline.catch_up()
    pipeline.assert_exact(at_least=_RECORDS)


@pytest.mark.timeout(600)
def test_a_checkpoint_that_takes_several_transactions(pipeline: KafkaPipeline) -> None:
    """Killed between two of them, it goes on where it was: by the number of messages that the marker tells."""
    records = 400_000
    pipeline.workload.produce(records)
    pipeline.spec["checkpoint"]["max_records_per_checkpoint"] = records
    pipeline.sink.update(transaction_timeout="1s", slots=1)
    process = pipeline.start(arm=["part-applied@0"])
    process.await_point("part-applied@0")
    process.kill()
    assert 0 < pipeline.verdict().in_sink < records
    pipeline.sink["transaction_timeout"] = "20s"
    pipeline.catch_up()
    pipeline.assert_exact(at_least=records)


@pytest.mark.timeout(600)
def test_topics_keys_headers_and_tombstones_row_by_row(pipeline: KafkaPipeline, topic: TopicFactory) -> None:
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    even, odd = topic(partitions=2), topic(partitions=4)
    (step,) = pipeline.spec["transforms"]
    step["sql"] = (
        f"SELECT id, word, payload, IF(id % 2 = 0, '{even}', '{odd}') AS destination, CAST(id % 2 AS INT) AS part,"
        " word AS origin, id % 5 = 0 AS gone, timestamp_millis(1700000000000 + id) AS at FROM incoming"
    )
    del pipeline.sink["topic"]
    extra = {"topic_column": "destination", "key": ["id", "word"], "headers": {"from": "origin"}, "partition": "part"}
    pipeline.sink.update(**extra, deleted="gone", timestamp="at")
    pipeline.catch_up()
    seen = 0
    for name, rest in ((even, 0), (odd, 1)):
        expected = {
            number: (word, payload) for number, word, payload in pipeline.workload.expected if number % 2 == rest
        }
        for record in drain(pipeline.brokers, name):
            key = json.loads(record.key or b"null")
            word, payload = expected.pop(key["id"])
            assert word is not None
            value = None if key["id"] % 5 == 0 else {"id": key["id"], "word": word, "payload": payload}
            assert (key, record.json) == ({"id": key["id"], "word": word}, value)
            assert (record.partition, record.headers) == (rest, {"from": word.encode()})
            assert record.timestamp_ms == 1_700_000_000_000 + key["id"]
            seen += 1
        assert expected == {}
    assert seen == CHECKPOINT_RECORDS


@pytest.mark.timeout(600)
def test_what_kafka_would_refuse_is_found_before_the_decision(pipeline: KafkaPipeline, topic: TopicFactory) -> None:
    pipeline.workload.produce(10)
    (step,) = pipeline.spec["transforms"]
    whole = step["sql"]
    step["sql"] = "SELECT id, word, repeat('x', IF(id = 7, 2000000, 1)) AS payload FROM incoming"
    pipeline.start().fail("column 'value': a message of some 2,000,", "where Kafka takes 1,046,516")
    step["sql"] = f"SELECT *, IF(id = 7, 'nowhere', '{pipeline.target}') AS destination FROM incoming"
    pipeline.sink["topic_column"] = pipeline.sink.pop("topic") and "destination"
    pipeline.start().fail("column 'destination': ", "topic nowhere does not exist")
    assert pipeline.messages() == []
    step["sql"] = whole
    del pipeline.sink["topic_column"]
    pipeline.sink["topic"] = topic(1, **{"max.message.bytes": "20000"})  # smaller than a request of many messages
    pipeline.target = pipeline.sink["topic"]
    pipeline.workload.produce(CHECKPOINT_RECORDS)
    pipeline.catch_up()
    pipeline.assert_exact(at_least=CHECKPOINT_RECORDS)


@pytest.mark.timeout(300)
def test_doctor(pipeline: KafkaPipeline, tmp_path: Path) -> None:
    with CommandLine(tmp_path) as commands:
        ended = commands.run(["doctor", str(pipeline.write_spec()), "--json"], pipeline.environment)
        assert ended.code == 0, ended.output
        assert f"topic {pipeline.target}" in ended.output
        pipeline.sink.update(topic="not-there", transaction_timeout="1h")
        ended = commands.run(["doctor", str(pipeline.write_spec()), "--json"], pipeline.environment)
        assert ended.code == 1, ended.output
        assert "topic not-there does not exist" in ended.output
        assert "transaction.max.timeout.ms allows 900 s" in ended.output


@pytest.mark.timeout(900)
def test_the_broker_killed_in_the_middle_of_a_transaction(killable: Services, pipeline: KafkaPipeline) -> None:
    pipeline.workload.produce(_RECORDS)
    points = ("applying@1", "after-decide@2", "writing@3")
    process = pipeline.start(arm=points)
    for stem in points:
        process.await_point(stem)
        killable.kill_kafka()
        process.release(stem)
        killable.start_kafka()
    process.succeed()
    pipeline.assert_exact(at_least=_RECORDS)


@pytest.mark.timeout(120)
def test_a_producer_is_given_up_while_the_brokers_are_away(killable: Services, topic: TopicFactory) -> None:
    """Whatever failed is tried again by the restart strategy, which a hang would never reach."""
    place = Place(Connection(killable.kafka_bootstrap, "eos-test"), name := topic(), markers=topic(8))
    producer = TransactionalProducer(place, f"eos.{name}", BATCH)
    producer.begin()
    producer.produce(lambda handle: handle.produce(name, b"given up"), 1, 1 << 30)  # returns when it is there
    killable.kill_kafka()
    closing = threading.Thread(target=producer.close, daemon=True)
    closing.start()
    closing.join(10)
    hung = closing.is_alive()
    killable.start_kafka()
    closing.join(30)
    assert not hung
    TransactionalProducer(place, f"eos.{name}", BATCH).close()
    assert drain(killable.kafka_bootstrap, name) == []


@pytest.mark.timeout(600)
def test_h10_a_marker_that_is_gone_stops_the_pipeline(pipeline: KafkaPipeline, topic: TopicFactory) -> None:
    """It must not look like "never applied": the checkpoint may have been."""
    pipeline.workload.produce(4 * CHECKPOINT_RECORDS)
    pipeline.sink["markers"] = topic(8, **{"cleanup.policy": "compact,delete"})
    pipeline.start().fail("has cleanup.policy=compact,delete", "markers need compact and 8")
    pipeline.sink["markers"] = topic(8, **{"cleanup.policy": "compact"})
    process = pipeline.start(arm=["after-commits@2"])
    process.await_point("after-commits@2")
    process.kill()
    before = pipeline.rows()
    assert before.total() == 3 * CHECKPOINT_RECORDS
    topics.delete(pipeline.brokers, [pipeline.sink["markers"]])
    topics.create(pipeline.brokers, pipeline.sink["markers"], 8, {"cleanup.policy": "compact"})
    pipeline.start().fail("sink out")
    assert pipeline.rows() == before

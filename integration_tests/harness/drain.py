"""What a reader of committed records sees of a topic: the oracle for Kafka as a sink. Shares no code with it."""

from __future__ import annotations

import json
import secrets
import time
from collections import Counter
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

from integration_tests.harness.workload import Row

_SECONDS: Final = 60  # without a message, or the end of a partition


class Record(NamedTuple):
    """One record as a reader gets it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes | None]
    timestamp_ms: int

    @property
    def json(self) -> Any:
        """The value, decoded; None for a tombstone."""
        return None if self.value is None else json.loads(self.value)

    @property
    def reason(self) -> str:
        """Why this dead letter was put aside. Raises KeyError for another record."""
        return (self.headers["eos.error"] or b"").decode()


def drain(brokers: str, topic: str) -> list[Record]:
    """All committed records up to the first transaction that is open, by partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": f"drain-{secrets.token_hex(4)}",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        partitions = list(consumer.list_topics(topic, timeout=_SECONDS).topics[topic].partitions)
        assert partitions, f"topic {topic} has no partitions"
        consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
        records: list[Record] = []
        waiting, deadline = set(partitions), time.monotonic() + _SECONDS
        while waiting:
            assert time.monotonic() < deadline, f"partitions {sorted(waiting)} of {topic} were not read to their ends"
            for message in consumer.consume(10_000, 0.2):
                deadline = time.monotonic() + _SECONDS
                error = message.error()
                if error is None:
                    records.append(_record(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    waiting.discard(message.partition())
                else:
                    raise AssertionError(f"reading {topic}: {error}")
        return sorted(records, key=lambda record: record[:2])
    finally:
        consumer.close()


def drained_rows(brokers: str, topic: str) -> Counter[Row]:
    """The same as rows, where each value has the columns of one."""
    values = [record.json for record in drain(brokers, topic)]
    return Counter((each["id"], each["word"], each["payload"]) for each in values)


def await_text(brokers: str, topic: str, text: str) -> None:
    """Wait until a reader gets a record with this text in its value. Blocks for two minutes at most."""
    settings = {"bootstrap.servers": brokers, "group.id": f"await-{secrets.token_hex(4)}"}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    deadline = time.monotonic() + 2 * _SECONDS
    try:
        while time.monotonic() < deadline:
            found = consumer.poll(1.0)
            if found is not None and text.encode() in (found.value() or b""):
                time.sleep(1.0)  # its neighbours in other partitions, which may be on their way
                return
    finally:
        consumer.close()
    raise AssertionError(f"{text} is not in {topic}")


def _record(message: Any) -> Record:
    headers = dict(message.headers() or ())
    place = (message.partition(), message.offset())
    return Record(*place, message.key(), message.value(), headers, message.timestamp()[1])

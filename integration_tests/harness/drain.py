"""What a reader of committed records sees of a topic: the oracle for Kafka as a sink. Shares no code with it."""

from __future__ import annotations

import secrets
import time
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

_SECONDS: Final = 60


def drain(brokers: str, topic: str) -> list[Message]:
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
        records, waiting, deadline = [], set(partitions), time.monotonic() + _SECONDS
        while waiting:
            assert time.monotonic() < deadline, f"partitions {sorted(waiting)} of {topic} were not read to their ends"
            for record in consumer.consume(10_000, 0.2):
                error = record.error()
                if error is None:
                    records.append(record)
                elif error.code() == KafkaError._PARTITION_EOF:
                    waiting.discard(record.partition())
                else:
                    raise AssertionError(f"reading {topic}: {error}")
        return sorted(records, key=lambda record: (record.partition(), record.offset()))
    finally:
        consumer.close()

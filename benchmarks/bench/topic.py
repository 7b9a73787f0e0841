"""The records of a measurement: about 80 bytes of JSON, spread over four partitions."""

from __future__ import annotations

import io
import secrets
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.json
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from integration_tests import topics

PARTITIONS = 4
USERS, AMOUNTS = 1000, 977
"""Different values of two columns."""
_AT_ONCE = 100_000
SCHEMA = "id BIGINT, user STRING, amount DOUBLE, ts TIMESTAMP"


def value(number: int) -> bytes:
    """One record."""
    return b'{"id":%d,"user":"user-%d","amount":%d.25,"ts":"2026-11-21T00:00:00"}' % (
        number,
        number % USERS,
        number % AMOUNTS,
    )


def create(bootstrap: str, name: str, partitions: int = PARTITIONS) -> None:
    """An empty topic."""
    topics.create(bootstrap, name, partitions, {})


def produce(bootstrap: str, name: str, first: int, count: int, partitions: int = PARTITIONS) -> None:
    """Append `count` records, numbered from `first`; returns when the broker has them all."""
    numbers = range(first, first + count)
    deliver(bootstrap, name, ((number % partitions, None, value(number)) for number in numbers))


def deliver(bootstrap: str, name: str, records: Iterable[tuple[int, bytes | None, bytes | None]]) -> None:
    """Append records, each with its partition, key and value; returns when the broker has them all."""
    failures: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "queue.buffering.max.messages": 1_000_000,
            "batch.size": 1_000_000,
            "enable.idempotence": True,
            "on_delivery": lambda error, _message: failures.append(error) if error else None,
        }
    )
    for number, (partition, key, content) in enumerate(records):
        while True:
            try:
                producer.produce(name, content, key, partition)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()
    if failures:
        raise RuntimeError(f"{len(failures)} records were not delivered: {failures[0]}")


def count(bootstrap: str, name: str) -> tuple[int, int]:
    """Records that a reader of committed ones sees, and the distinct ids in them."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"bench-{secrets.token_hex(4)}",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(name, partition, 0) for partition in range(PARTITIONS)])
    values: list[bytes] = []
    ids: list[np.ndarray] = []
    waiting = set(range(PARTITIONS))
    while waiting:
        for message in consumer.consume(10_000, 1.0):
            error = message.error()
            if error is None:
                values.append(message.value() or b"")
            elif error.code() == KafkaError._PARTITION_EOF:
                waiting.discard(message.partition())
            else:
                raise RuntimeError(f"reading {name}: {error}")
        if len(values) >= _AT_ONCE or (values and not waiting):
            ids.append(_ids(values))
            values = []
    consumer.close()
    found = np.concatenate(ids) if ids else np.empty(0, np.int64)
    return len(found), len(np.unique(found))


def _ids(values: list[bytes]) -> np.ndarray:
    options = pa.json.ParseOptions(explicit_schema=pa.schema([("id", pa.int64())]), unexpected_field_behavior="ignore")
    ids = pa.json.read_json(io.BytesIO(b"\n".join(values)), parse_options=options).column("id")
    return np.asarray(ids)

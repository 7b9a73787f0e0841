"""The records of a measurement: about 80 bytes of JSON, spread over four partitions."""

from __future__ import annotations

from confluent_kafka import Producer

from integration_tests import topics

PARTITIONS = 4
SCHEMA = "id BIGINT, user STRING, amount DOUBLE, ts TIMESTAMP"
TABLE = "(id BIGINT, user VARCHAR(64), amount DOUBLE, ts DATETIME(6)) ENGINE=InnoDB"


def value(number: int) -> bytes:
    """One record."""
    return b'{"id":%d,"user":"user-%d","amount":%d.25,"ts":"2026-11-21T00:00:00"}' % (
        number,
        number % 1000,
        number % 977,
    )


def create(bootstrap: str, name: str) -> None:
    """An empty topic of PARTITIONS partitions."""
    topics.create(bootstrap, name, PARTITIONS, {})


def produce(bootstrap: str, name: str, first: int, count: int) -> None:
    """Append `count` records, numbered from `first`; returns when the broker has them all."""
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
    for number in range(first, first + count):
        while True:
            try:
                producer.produce(name, value(number), partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()
    if failures:
        raise RuntimeError(f"{len(failures)} records were not delivered: {failures[0]}")

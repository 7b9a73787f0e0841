"""Creating and deleting topics, and waiting until that is so."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from integration_tests.services.readiness import await_kafka

_SECONDS = 30
_FORWARDED_S = 90  # a broker that was stopped finds out after half a minute that its controller's connection is dead


def create(bootstrap: str, name: str, partitions: int, settings: Mapping[str, str]) -> None:
    """Create a topic; returns when every partition has a leader, so that a reader finds it whole."""
    new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(settings))
    # The client is kept in a variable: its answers never come once it is gone.
    client = AdminClient({"bootstrap.servers": bootstrap})
    for future in client.create_topics([new], operation_timeout=_SECONDS).values():
        future.result(_SECONDS)
    await_kafka(bootstrap, topic=name)


def delete(bootstrap: str, names: Sequence[str]) -> None:
    """Delete topics that exist; returns when the broker no longer knows them, which the answer does not wait for."""
    if names:
        client = AdminClient({"bootstrap.servers": bootstrap})
        asked = client.delete_topics(list(names), operation_timeout=_SECONDS, request_timeout=_FORWARDED_S)
        for future in asked.values():
            future.result(_FORWARDED_S)
        deadline = time.monotonic() + _SECONDS
        while left := client.list_topics(timeout=_SECONDS).topics.keys() & {*names}:
            assert time.monotonic() < deadline, f"{left} are still there {_SECONDS} s after their deletion"
            time.sleep(0.05)


def delete_records(bootstrap: str, before: Mapping[str, int]) -> None:
    """Delete the records below these offsets, by split (`<topic>/<partition>`), as retention does."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    splits = ((*split.rpartition("/")[::2], offset) for split, offset in before.items())
    asked = [TopicPartition(topic, int(partition), offset) for topic, partition, offset in splits]
    for future in client.delete_records(asked, operation_timeout=_SECONDS).values():
        future.result(_SECONDS)

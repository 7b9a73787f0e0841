"""Creating and deleting topics, and waiting until that is so."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import TimeoutError as Unanswered

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from integration_tests.services.readiness import await_kafka

_SECONDS = 30
_FORWARDED_S = 180  # a broker that was stopped may need minutes to reach its controller, and answers nothing until then


def create(bootstrap: str, name: str, partitions: int, settings: Mapping[str, str]) -> None:
    """Create a topic; returns when every partition has a leader, so that a reader finds it whole."""
    create_all(bootstrap, [name], partitions, settings)


_AT_ONCE = 5_000  # partitions; a broker refuses a request for 10,000


def create_all(bootstrap: str, names: Sequence[str], partitions: int, settings: Mapping[str, str]) -> None:
    """Create topics by one request. See `create`."""
    first = min(partitions, _AT_ONCE)
    new = [NewTopic(each, num_partitions=first, replication_factor=1, config=dict(settings)) for each in names]
    # The client is kept in a variable: its answers never come once it is gone.
    client = AdminClient({"bootstrap.servers": bootstrap})
    for future in client.create_topics(new, operation_timeout=_SECONDS).values():
        future.result(_SECONDS)
    for count in [*range(2 * _AT_ONCE, partitions, _AT_ONCE), partitions] if partitions > first else []:
        more = [NewPartitions(each, count) for each in names]
        for future in client.create_partitions(more, operation_timeout=_SECONDS).values():
            future.result(_SECONDS)
    for each in names:
        await_kafka(bootstrap, topic=each)
        deadline = time.monotonic() + _SECONDS
        while (found := len(client.list_topics(each, timeout=_SECONDS).topics[each].partitions)) < partitions:
            assert time.monotonic() < deadline, f"{each} has {found} of {partitions} partitions"
            time.sleep(0.05)


def delete(bootstrap: str, names: Sequence[str]) -> None:
    """Delete topics that exist; returns when the broker no longer knows them, which the answer does not wait for."""
    if names:
        deadline = time.monotonic() + _FORWARDED_S
        may_be_gone = False
        while not _delete(bootstrap, names, may_be_gone=may_be_gone):
            may_be_gone = True
            assert time.monotonic() < deadline, f"the broker has not answered for {_FORWARDED_S} s"
        client = AdminClient({"bootstrap.servers": bootstrap})
        deadline = time.monotonic() + _SECONDS
        while left := client.list_topics(timeout=_SECONDS).topics.keys() & {*names}:
            assert time.monotonic() < deadline, f"{left} are still there {_SECONDS} s after their deletion"
            time.sleep(0.05)


def _delete(bootstrap: str, names: Sequence[str], *, may_be_gone: bool) -> bool:
    """Ask once. Returns whether the broker answered. `may_be_gone`: by an earlier request without an answer."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    asked = client.delete_topics(list(names), operation_timeout=_SECONDS, request_timeout=_SECONDS)
    for future in asked.values():
        try:
            future.result(2 * _SECONDS)
        except Unanswered:
            return False
        except KafkaException as failed:
            if failed.args[0].code() in {KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT}:
                return False
            if not may_be_gone or failed.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
    return True


def delete_records(bootstrap: str, before: Mapping[str, int]) -> None:
    """Delete the records below these offsets, by split (`<topic>/<partition>`), as retention does."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    splits = ((*split.rpartition("/")[::2], offset) for split, offset in before.items())
    asked = [TopicPartition(topic, int(partition), offset) for topic, partition, offset in splits]
    for future in client.delete_records(asked, operation_timeout=_SECONDS).values():
        future.result(_SECONDS)

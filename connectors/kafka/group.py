"""The consumer group: told how far the pipeline is, for lag tools. Nothing is ever read back to start from (R9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError

from connectors.kafka.client import Client
from connectors.kafka.splits import at, split_name
from eos.errors import ConnectorError
from twophase.retry import retrying

_MOVING: Final = frozenset(
    {
        KafkaError.NOT_COORDINATOR,  # just after it was found: it does not know yet that it is
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
_ASK_AGAIN_S: Final = 0.1


class _MovingError(Exception):
    """The coordinator of a group is moving to another broker."""

    def __init__(self, error: ConnectorError) -> None:
        super().__init__(error.message)
        self.error = error


def commit_to_group(client: Client, group_id: str, positions: Mapping[str, int]) -> None:
    """Set a group's offsets, for lag tools. Blocks for `connect_timeout_s`, or twice that; raises SourceError."""
    doing = f"commit to group {group_id}"

    def attempt() -> None:
        if (refused := _refused(client, group_id, positions, doing)) is None:
            return
        error = client.failure(refused.error, f"{doing}, {split_name(refused.topic, refused.partition)}")
        raise _MovingError(error) if refused.error.code() in _MOVING else error

    try:
        retrying(_MovingError, deadline_s=client.connection.connect_timeout_s, wait_s=_ASK_AGAIN_S)(attempt)
    except _MovingError as moving:
        raise moving.error from None


def _refused(client: Client, group_id: str, positions: Mapping[str, int], doing: str) -> Any:
    """The first split whose offset was not taken, with its error."""
    request = [ConsumerGroupTopicPartitions(group_id, [at(split, end) for split, end in sorted(positions.items())])]
    timeout_s = client.connection.connect_timeout_s
    for future in client.handle.alter_consumer_group_offsets(request, request_timeout=timeout_s).values():
        for partition in client.result_of(future, doing).topic_partitions:
            if partition.error is not None:
                return partition
    return None


def group_offsets(client: Client, group_id: str) -> dict[str, int]:
    """The offsets that a group has committed; empty for a group that does not exist.

    Raises SourceError where the answer for a split is an error, also if a transaction is about to commit another one.
    """
    request = [ConsumerGroupTopicPartitions(group_id)]
    timeout_s = client.connection.connect_timeout_s
    found: dict[str, int] = {}
    for future in client.handle.list_consumer_group_offsets(
        request, require_stable=True, request_timeout=timeout_s
    ).values():
        answer = client.result_of(future, f"offsets of group {group_id}")
        for partition in answer.topic_partitions:
            if partition.error is not None:
                split = split_name(partition.topic, partition.partition)
                raise client.failure(partition.error, f"offset of group {group_id}, {split}")
        found |= {split_name(p.topic, p.partition): p.offset for p in answer.topic_partitions if p.offset >= 0}
    return found

"""Questions to the cluster about topics: their partitions and ids, and where each begins and ends."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel, KafkaException, TopicCollection
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from connectors.kafka.client import Client
from connectors.kafka.splits import at, parse_split, split_name
from twophase.errors import SourceError, UnknownTopicError

_MARGIN_S = 5.0  # the client ends a question by itself; this is for the case that it does not


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the cluster knows it."""

    name: str
    id: str  # another one after the topic is deleted and made again
    partitions: tuple[int, ...]
    replication: int  # of the partition that has the fewest replicas

    @property
    def splits(self) -> tuple[str, ...]:
        """Its splits, by partition."""
        return tuple(split_name(self.name, partition) for partition in self.partitions)


def describe(client: Client, names: Sequence[str]) -> list[Topic]:
    """Ask for topics. Blocks for `connect_timeout_s` at most; creates none.

    Raises:
        UnknownTopicError: one does not exist; the message gives the nearest names.
        SourceError: the cluster does not answer.
    """
    timeout_s = client.connection.connect_timeout_s
    futures = client.handle.describe_topics(TopicCollection(list(names)), request_timeout=timeout_s)
    topics = []
    for name, future in futures.items():
        doing = f"topic {name}"
        try:
            answer = _result(client, future, doing)
        except UnknownTopicError:
            raise _unknown_topic(client, name) from None
        partitions = tuple(sorted(p.id for p in answer.partitions))
        replication = min((len(p.replicas) for p in answer.partitions), default=0)
        topics.append(Topic(name, str(answer.topic_id), partitions, replication))
    return topics


def _unknown_topic(client: Client, name: str) -> UnknownTopicError:
    try:
        known = sorted(client.handle.list_topics(timeout=client.connection.connect_timeout_s).topics)
    except KafkaException:  # the names are a courtesy; that the topic is missing is known
        known = []
    near = difflib.get_close_matches(name, [t for t in known if not t.startswith("__")], 3)
    hint = f"; nearest: {', '.join(near)}" if near else ""
    servers = client.connection.bootstrap_servers
    return UnknownTopicError(f"topic {name} does not exist on {servers}{hint}", remedy="create it, or correct `topics`")


def earliest(client: Client, splits: Iterable[str]) -> dict[str, int]:
    """The first offset that each split still has. Blocks for `connect_timeout_s` at most."""
    return _offsets(client, splits, OffsetSpec.earliest)


def latest(client: Client, splits: Iterable[str]) -> dict[str, int]:
    """The end of each split that a reader of this isolation level can reach (R6).

    With read_committed that is the last stable offset: the start of the oldest transaction still open, so that a range
    planned up to it holds only records whose fate is known.
    """
    return _offsets(client, splits, OffsetSpec.latest)


def _offsets(client: Client, splits: Iterable[str], spec: Callable[[], OffsetSpec]) -> dict[str, int]:
    wanted = {at(split, -1): spec() for split in splits}
    if not wanted:
        return {}
    committed = client.connection.isolation_level == "read_committed"
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    timeout_s = client.connection.connect_timeout_s
    futures = client.handle.list_offsets(wanted, isolation_level=level, request_timeout=timeout_s)
    found = {}
    for partition, future in futures.items():
        split = split_name(partition.topic, partition.partition)
        found[split] = int(_result(client, future, f"offsets of {split}").offset)
    return found


def commit_to_group(client: Client, group_id: str, positions: Mapping[str, int]) -> None:
    """Set a group's offsets, for lag tools. Blocks for `connect_timeout_s` at most; raises SourceError."""
    offsets = [at(split, offset) for split, offset in sorted(positions.items())]
    request = [ConsumerGroupTopicPartitions(group_id, offsets)]
    doing = f"commit to group {group_id}"
    timeout_s = client.connection.connect_timeout_s
    for future in client.handle.alter_consumer_group_offsets(request, request_timeout=timeout_s).values():
        for partition in _result(client, future, doing).topic_partitions:
            if partition.error is not None:
                split = split_name(partition.topic, partition.partition)
                raise client.failure(partition.error, f"{doing}, {split}")


def group_offsets(client: Client, group_id: str) -> dict[str, int]:
    """The offsets that a group has committed; empty for a group that does not exist."""
    request = [ConsumerGroupTopicPartitions(group_id)]
    timeout_s = client.connection.connect_timeout_s
    found: dict[str, int] = {}
    for future in client.handle.list_consumer_group_offsets(request, request_timeout=timeout_s).values():
        answer = _result(client, future, f"offsets of group {group_id}")
        found |= {split_name(p.topic, p.partition): p.offset for p in answer.topic_partitions if p.offset >= 0}
    return found


def _result(client: Client, future: Any, doing: str) -> Any:
    timeout_s = client.connection.connect_timeout_s
    try:
        return future.result(timeout_s + _MARGIN_S)
    except KafkaException as error:
        raise client.failure(error.args[0], doing) from None
    except TimeoutError:
        raise client.no_answer(doing, timeout_s + _MARGIN_S) from None


def existing(client: Client, split: str) -> str:
    """What there is of a split, for a message; never raises for a cluster that does not answer."""
    topic, _ = parse_split(split)
    try:
        describe(client, [topic])
        return f"it has [{earliest(client, [split])[split]}, {latest(client, [split])[split]})"
    except SourceError as error:
        return f"what it has could not be asked: {error.message}"

"""Questions to the cluster about topics: which there are, their partitions and ids."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException, TopicCollection

from connectors.kafka.client import Client
from connectors.kafka.splits import split_name
from eos.errors import UnknownTopicError


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the cluster knows it."""

    name: str
    id: str  # another one after the topic is deleted and made again; empty where the cluster gives none
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
    if not _has_controller(client):
        return _from_metadata(client, names)
    timeout_s = client.connection.connect_timeout_s
    futures = client.handle.describe_topics(TopicCollection(list(names)), request_timeout=timeout_s)
    topics = []
    for name, future in futures.items():
        doing = f"topic {name}"
        try:
            answer = client.result_of(future, doing)
        except UnknownTopicError:
            raise _unknown_topic(client, name) from None
        partitions = tuple(sorted(p.id for p in answer.partitions))
        replication = min((len(p.replicas) for p in answer.partitions), default=0)
        topics.append(Topic(name, str(answer.topic_id), partitions, replication))
    return topics


def matching_topics(client: Client, pattern: str) -> list[str]:
    """Names of the topics that a regular expression matches whole, without Kafka's own. Raises UnknownTopicError."""
    known = metadata(client, "the cluster's topics").topics
    found = sorted(name for name in known if re.fullmatch(pattern, name) and not name.startswith("__"))
    if not found:
        message = f"no topic on {client.connection.bootstrap_servers} matches {pattern!r}"
        raise UnknownTopicError(message, remedy="create one, or correct `topics_pattern`; it must match the whole name")
    return found


def _has_controller(client: Client) -> bool:
    """Whether the cluster names one of its brokers as controller, which is who describes topics.

    Every real cluster does, and is asked once. librdkafka's mock cluster names none: a description would never come.
    """
    if "controller" not in client.seen:
        answer = metadata(client, "the cluster's metadata")
        if answer.controller_id not in answer.brokers:
            return False
        client.seen.add("controller")
    return True


def _from_metadata(client: Client, names: Sequence[str]) -> list[Topic]:
    """The same without a controller, and so without ids. Of all topics: to ask for one by name might create it."""
    known = metadata(client, "the cluster's metadata").topics
    topics = []
    for name in names:
        if name not in known:
            raise _unknown_topic(client, name)
        partitions = known[name].partitions
        replication = min((len(p.replicas) for p in partitions.values()), default=0)
        topics.append(Topic(name, "", tuple(sorted(partitions)), replication))
    return topics


def metadata(client: Client, doing: str) -> Any:
    """Brokers and topics. Blocks for `connect_timeout_s` at most; raises SourceError."""
    try:
        return client.handle.list_topics(timeout=client.connection.connect_timeout_s)
    except KafkaException as error:
        raise client.failure(error.args[0], doing) from None


def _unknown_topic(client: Client, name: str) -> UnknownTopicError:
    try:
        known = sorted(client.handle.list_topics(timeout=client.connection.connect_timeout_s).topics)
    except KafkaException:  # the names are a courtesy; that the topic is missing is known
        known = []
    near = difflib.get_close_matches(name, [t for t in known if not t.startswith("__")], 3)
    hint = f"; nearest: {', '.join(near)}" if near else ""
    servers = client.connection.bootstrap_servers
    return UnknownTopicError(f"topic {name} does not exist on {servers}{hint}", remedy="create it, or correct `topics`")

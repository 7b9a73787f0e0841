"""Questions to the cluster about topics: their partitions and ids, and where each begins and ends."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any, Final

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from connectors.kafka.client import Client
from connectors.kafka.splits import at, parse_split, split_name
from twophase.errors import SourceError, UnknownTopicError

_MOVING: Final = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNKNOWN_TOPIC_OR_PART,  # a moment after the topic was described: its leader does not know yet
    }
)
_ASK_AGAIN_S: Final = 0.1
_MARGIN_S: Final = 5.0  # the client ends a question by itself; this is for the case that it does not


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
            answer = result_of(client, future, doing)
        except UnknownTopicError:
            raise _unknown_topic(client, name) from None
        partitions = tuple(sorted(p.id for p in answer.partitions))
        replication = min((len(p.replicas) for p in answer.partitions), default=0)
        topics.append(Topic(name, str(answer.topic_id), partitions, replication))
    return topics


def matching_topics(client: Client, pattern: str) -> list[str]:
    """Names of the topics that a regular expression matches whole, without Kafka's own. Raises UnknownTopicError."""
    known = _metadata(client, "the cluster's topics").topics
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
        answer = _metadata(client, "the cluster's metadata")
        if answer.controller_id not in answer.brokers:
            return False
        client.seen.add("controller")
    return True


def _from_metadata(client: Client, names: Sequence[str]) -> list[Topic]:
    """The same without a controller, and so without ids. Of all topics: to ask for one by name might create it."""
    known = _metadata(client, "the cluster's metadata").topics
    topics = []
    for name in names:
        if name not in known:
            raise _unknown_topic(client, name)
        partitions = known[name].partitions
        replication = min((len(p.replicas) for p in partitions.values()), default=0)
        topics.append(Topic(name, "", tuple(sorted(partitions)), replication))
    return topics


def _metadata(client: Client, doing: str) -> Any:
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


def earliest(client: Client, splits: Iterable[str]) -> dict[str, int]:
    """The first offset that each split still has. Blocks for `connect_timeout_s` at most."""
    return _offsets(client, splits, OffsetSpec.earliest)


def latest(client: Client, splits: Iterable[str]) -> dict[str, int]:
    """The end of each split that a reader of this isolation level can reach (R6).

    With read_committed that is the last stable offset: the start of the oldest transaction still open, so that a range
    planned up to it holds only records whose fate is known.
    """
    return _offsets(client, splits, OffsetSpec.latest)


def at_time(client: Client, splits: Sequence[str], timestamp_ms: int) -> dict[str, int]:
    """The first record of each split at or after a moment (milliseconds since 1970); the end where there is none.

    Never past the end as `latest` tells it: what lies behind is not readable yet.
    """
    found = _offsets(client, splits, lambda: OffsetSpec.for_timestamp(timestamp_ms))
    ends = latest(client, splits)
    return {split: end if found[split] < 0 else min(found[split], end) for split, end in ends.items()}


def _offsets(client: Client, splits: Iterable[str], spec: Callable[[], OffsetSpec]) -> dict[str, int]:
    """Ask for all splits at once, and again for those whose partition is just being made or changes its leader."""
    deadline = monotonic() + client.connection.connect_timeout_s
    found: dict[str, int] = {}
    missing = list(splits)
    while missing:
        moving: list[str] = []
        for split, future in _ask_offsets(client, missing, spec).items():
            try:
                found[split] = int(result_of(client, future, f"offsets of {split}").offset)
            except SourceError:
                if not _is_moving(future) or monotonic() > deadline:
                    raise
                moving.append(split)
        missing = moving
        if missing:
            sleep(_ASK_AGAIN_S)
    return found


def _is_moving(future: Any) -> bool:
    error = future.exception(0) if future.done() else None
    return isinstance(error, KafkaException) and error.args[0].code() in _MOVING


def _ask_offsets(client: Client, splits: Iterable[str], spec: Callable[[], OffsetSpec]) -> dict[str, Any]:
    committed = client.connection.isolation_level == "read_committed"
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    wanted = {at(split, -1): spec() for split in splits}
    timeout_s = client.connection.connect_timeout_s
    futures = client.handle.list_offsets(wanted, isolation_level=level, request_timeout=timeout_s)
    return {split_name(p.topic, p.partition): future for p, future in futures.items()}


def result_of(client: Client, future: Any, doing: str) -> Any:
    """The answer to a question, or its failure in our words."""
    timeout_s = client.connection.connect_timeout_s
    try:
        return future.result(timeout_s + _MARGIN_S)
    except KafkaException as error:
        raise client.failure(error.args[0], doing) from None
    except TimeoutError:
        raise client.no_answer(doing, timeout_s + _MARGIN_S) from None


def end_of(client: Client, split: str) -> int:
    """Where one split ends, having made sure that it exists: asked for the offset alone, the client waits for it to."""
    topic, _ = parse_split(split)
    (found,) = describe(client, [topic])
    if split not in found.splits:
        raise UnknownTopicError(
            f"split {split} does not exist (any more): the topic has {len(found.partitions)} partitions",
            remedy="the topic was made again; reset the pipeline to start from what exists",
        )
    return latest(client, [split])[split]


def existing(client: Client, split: str) -> str:
    """What there is of a split, for a message; never raises for a cluster that does not answer."""
    try:
        end = end_of(client, split)
        return f"it has [{earliest(client, [split])[split]}, {end})"
    except SourceError as error:
        return f"what it has could not be asked: {error.message}"

"""Topics that messages go to, and what the cluster allows: asked on the driver before a start, and in tasks where a row
names its topic."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Final

from confluent_kafka.admin import ConfigResource, NewTopic  # type: ignore[attr-defined]

from connectors.kafka.client import Client
from connectors.kafka.pool import shared_admin
from connectors.kafka.settings import Connection
from connectors.kafka.sink.markers import PARTITIONS
from connectors.kafka.sink.place import Place
from connectors.kafka.topics import describe, metadata
from eos.errors import (
    ConnectorError,
    SinkUnavailableError,
    SourceAccessError,
    SourceError,
    TargetError,
    UnknownTopicError,
)

BATCH: Final = 1_000_000
"""Bytes of a request to a topic that is not known beforehand, at most."""

_MARKERS: Final = {"cleanup.policy": "compact", "segment.bytes": str(4 * 1024 * 1024)}  # so that little is to be read
_FRAME: Final = 1_024  # of them, for what surrounds the messages
_ENOUGH: Final = 1_024 * 1_024  # for BATCH, whatever comes with it
_GROWTH: Final = 1_000  # one byte more of so many, where the brokers compress what cannot be compressed
_EVER_MS: Final = 2**62  # more than a timestamp can be off
_ANY_NAME: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_KAFKAS_OWN: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


@dataclass(frozen=True, slots=True)
class Facts:
    """Settings and limits of a topic."""

    partitions: int
    max_bytes: int  # of a request: the topic's max.message.bytes
    replication: int
    compacted: bool = False  # takes no message without a key
    before_ms: int | None = None  # that a message's time may be before the broker's; None: any
    after_ms: int | None = None

    @property
    def batch_bytes(self) -> int:
        """Of a request, so that it is taken also when the brokers compress it anew."""
        return self.max_bytes - _FRAME - self.max_bytes // _GROWTH


@dataclass(frozen=True, slots=True)
class Topics:
    """What is known of the topics of a sink. Picklable."""

    connection: Connection
    only: Facts | None  # of the sink's one topic; None: rows name theirs
    markers: str  # where no row may go
    repeats: bool = False  # rows may come twice, and late (at-least-once)

    @classmethod
    def of_sink(cls, sink: str, place: Place, *, repeats: bool = False) -> Topics:
        """Ask the cluster for the sink's one topic. Raises TargetError, SinkUnavailableError."""
        if place.topic is None:
            return cls(place.connection, None, place.markers, repeats)
        if reason := _unfit(place.topic, place.markers):
            raise TargetError(f"sink {sink}: {reason}", remedy="name another topic")
        with in_sink_words(f"sink {sink}"), shared_admin(place.connection) as admin:
            facts = facts_of(admin, place.topic)
        if repeats:
            check_repeats(place.topic, facts)
        return cls(place.connection, facts, place.markers, repeats)

    @property
    def max_bytes(self) -> int:
        """A message may have at most, its frame included."""
        return self.only.batch_bytes if self.only else BATCH

    @property
    def batch_bytes(self) -> int:
        """A request may have at most, unless it is one message: the broker refuses a batch as a whole."""
        return min(BATCH, self.max_bytes)

    def of(self, topic: str) -> Facts:
        """Facts of a topic that `refusal` has nothing against."""
        return self.only or _facts(self.connection, topic)

    def refusal(self, topic: str | None) -> str:
        """Why messages cannot go there; empty: they can. Asks the cluster once for each topic and process.

        Raises SinkUnavailableError if the cluster does not answer.
        """
        if topic is None:
            return "NULL is not a topic"
        if reason := _unfit(topic, self.markers):
            return reason
        try:
            with in_sink_words(f"topic {topic}"):
                facts = _facts(self.connection, topic)
            if self.repeats:
                check_repeats(topic, facts)
        except TargetError as error:
            return error.message
        if facts.batch_bytes < BATCH:
            return f"topic {topic} takes {facts.max_bytes:,} bytes: set its max.message.bytes to {_ENOUGH:,}"
        return ""


def check_repeats(topic: str, facts: Facts) -> None:
    """What cannot be written at-least-once, as a table by its key cannot. Raises TargetError."""
    if facts.compacted:
        message = f"topic {topic} is compacted: of each key it keeps the newest message, and at-least-once a task that "
        message += "keeps running after its checkpoint was rewritten could put an older one behind it"
        raise TargetError(message, remedy="checkpoint.mode: exactly-once, or a topic with cleanup.policy=delete")


def _unfit(topic: str, markers: str) -> str:
    if not _ANY_NAME.fullmatch(topic):
        return f"'{topic:.80}' is not a topic's name"
    if topic == markers:
        return f"topic {topic} tells how far pipelines are: no rows go there"
    return f"topic {topic} is Kafka's own" if topic in _KAFKAS_OWN else ""


@cache
def _facts(connection: Connection, topic: str) -> Facts:
    with shared_admin(connection) as admin:
        return facts_of(admin, topic)


def facts_of(admin: Client, topic: str) -> Facts:
    """Ask the cluster. Raises UnknownTopicError, SourceError."""
    (found,) = describe(admin, [topic])
    settings = _settings(admin, ConfigResource(ConfigResource.Type.TOPIC, topic))
    return Facts(
        len(found.partitions),
        int(settings["max.message.bytes"]),
        found.replication,
        "compact" in settings["cleanup.policy"],
        _limit_ms(settings, "before"),
        _limit_ms(settings, "after"),
    )


def _limit_ms(settings: Mapping[str, str], side: str) -> int | None:
    """How far the time of a message may be off."""
    if settings.get("message.timestamp.type") != "CreateTime":
        return None  # the broker's own is taken
    names = (f"message.timestamp.{side}.max.ms", "message.timestamp.difference.max.ms")  # the second until Kafka 3.9
    limit_ms = min(int(settings[name]) for name in names if name in settings)
    return limit_ms if limit_ms < _EVER_MS else None


def longest_transaction_s(admin: Client) -> float:
    """What the cluster allows: transaction.max.timeout.ms. Raises SourceError."""
    brokers = metadata(admin, "the cluster's brokers").brokers
    broker = ConfigResource(ConfigResource.Type.BROKER, str(next(iter(brokers))))
    return int(_settings(admin, broker)["transaction.max.timeout.ms"]) / 1000


def _settings(admin: Client, resource: ConfigResource) -> Mapping[str, str]:
    (future,) = admin.handle.describe_configs([resource]).values()
    found = admin.result_of(future, f"settings of {resource.name}")
    return {name: str(each.value) for name, each in found.items()}


def check_markers(admin: Client, topic: str) -> bool:
    """Whether the topic of the markers is there. Raises TargetError if it would forget them, SourceError."""
    try:
        (found,) = describe(admin, [topic])
    except UnknownTopicError:
        return False
    policy = _settings(admin, ConfigResource(ConfigResource.Type.TOPIC, topic))["cleanup.policy"]
    if policy != "compact" or len(found.partitions) < PARTITIONS:
        message = f"topic {topic} has cleanup.policy={policy} and {len(found.partitions)} partitions"
        remedy = f"markers need compact and {PARTITIONS}: alter it, or name another topic as `markers`"
        raise TargetError(message, remedy=remedy)
    return True


def ensure_markers(admin: Client, topic: str) -> None:
    """Create the topic of the markers if it is missing. Raises TargetError with what an administrator may do."""
    if not check_markers(admin, topic):
        _create_markers(admin, topic)


def _create_markers(admin: Client, topic: str) -> None:
    new = NewTopic(topic, num_partitions=PARTITIONS, config=_MARKERS)
    (future,) = admin.handle.create_topics([new]).values()
    try:
        admin.result_of(future, f"creating topic {topic}")
    except ConnectorError as error:
        if "already exists" in error.message:  # another pipeline has just made it
            return
        config = " ".join(f"--config {name}={value}" for name, value in _MARKERS.items())
        command = f"kafka-topics --create --topic {topic} --partitions {PARTITIONS} {config}"
        raise TargetError(error.message, remedy=f"let an administrator run: {command}") from None


def check_timeout(admin: Client, place: Place) -> None:
    """Raise TargetError if the broker would refuse transactions of this timeout, SourceError."""
    most_s = longest_transaction_s(admin)
    if place.transaction_timeout_s > most_s:
        wanted = f"{place.transaction_timeout_s:g} s"
        message = f"transaction_timeout is {wanted}, the brokers' transaction.max.timeout.ms allows {most_s:g} s"
        raise TargetError(
            message, remedy=f"set transaction_timeout to {most_s:g}s or less, or raise the brokers' limit"
        )


@contextmanager
def in_sink_words(doing: str) -> Iterator[None]:
    """Errors of the client, which speaks of sources, as those of a sink."""
    try:
        yield
    except SourceAccessError as error:
        raise TargetError(f"{doing}: {error.message}", remedy=error.remedy) from None
    except UnknownTopicError as error:
        raise TargetError(f"{doing}: {error.message}", remedy="create it, or correct `topic`") from None
    except SourceError as error:
        raise SinkUnavailableError(f"{doing}: {error.message}", remedy=error.remedy) from None

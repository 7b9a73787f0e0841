"""The entry of `sinks` for Kafka."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from connectors.log.place import LogPlace
from connectors.spec.fields import (
    SLOTS,
    NonEmpty,
    PositiveDuration,
    Slots,
    Title,
    Topic,
    as_written,
    without,
)
from connectors.spec.model import refuse, wrong
from connectors.spec.security import Secured
from connectors.spec.settings import CheckpointSettings, MaxBacklog

_NO_TWO_PHASE: Final = (
    "a Kafka transaction cannot be committed by another process than the one that began it, so that 'two-phase' cannot "
    "hold; use 'write-ahead-log'"
)
_NO_UPSERT: Final = (
    "a topic keeps every message; use 'write-ahead-log' with `key` and `deleted`, and let the topic be compacted"
)
_TRANSACTIONS_ARE_OURS: Final = "each slot's producer is made so that its transactions hold"
_SET_FOR_SINKS: Final = {
    "bootstrap.servers": "write it as bootstrap_servers",
    "metadata.broker.list": "write it as bootstrap_servers",
    "transactional.id": _TRANSACTIONS_ARE_OURS,
    "transaction.timeout.ms": "write it as transaction_timeout",
    "enable.idempotence": _TRANSACTIONS_ARE_OURS,
    "acks": _TRANSACTIONS_ARE_OURS,
    "request.required.acks": _TRANSACTIONS_ARE_OURS,
    "partitioner": "write it as partitioner",
}


def _a_second(timeout_s: float) -> float:
    if timeout_s < 1:
        raise wrong(f"{timeout_s:g} s is shorter than Kafka allows", "1s or longer")
    return timeout_s


class KafkaSinkEntry(Secured):
    """`connector: kafka`: topics of a cluster, for readers with `isolation.level=read_committed`."""

    name: Title
    """Stands in transaction ids: do not change it while the pipeline lives."""
    connector: Literal["kafka"]
    from_: NonEmpty | None = Field(None, alias="from")
    """The step or source whose rows are written."""
    topic: Topic | None = None
    """Where all messages go; exists beforehand. Or give `topic_column`."""
    topic_column: NonEmpty | None = None
    """A text column that names the topic of each row; rows for a topic that does not exist stop the pipeline."""
    format: Literal["json", "string", "raw"] = "json"
    """The value: a JSON object of all columns that say nothing else; or the column `value`, as text or as bytes."""
    key: Annotated[list[NonEmpty], Field(min_length=1)] | None = None
    """Columns of the key. Of one, text and bytes are written as they are, other types as JSON; several make a JSON
    object."""
    headers: dict[str, NonEmpty] = Field(default_factory=dict)
    """Name of each header, and the column that it takes its value from: text, binary, a whole number or a timestamp."""
    partition: NonEmpty | None = None
    """A column with the number of the partition; without it `partitioner` decides."""
    partitioner: Literal[
        "murmur2_random", "murmur2", "consistent_random", "consistent", "fnv1a_random", "fnv1a", "random"
    ] = "murmur2_random"
    """How keys are spread over partitions; `murmur2_random` does it as Java's producers do."""
    timestamp: NonEmpty | None = None
    """A column with the time of each message; without it, when it is written."""
    deleted: NonEmpty | None = None
    """A boolean column, true for a tombstone: the key without a value."""
    commit: Annotated[Literal["write-ahead-log"], refuse({"two-phase": _NO_TWO_PHASE, "upsert": _NO_UPSERT})] = (
        "write-ahead-log"
    )
    """How messages become visible: they wait in a log, and each slot writes its share in one Kafka transaction."""
    slots: Slots = SLOTS
    """How many producers write a checkpoint at once."""
    max_backlog: MaxBacklog | None = None
    """Checkpoints go on while Kafka is slow or away, until so much waits. It then catches up in order."""
    transaction_timeout_s: Annotated[PositiveDuration, AfterValidator(_a_second)] = Field(
        60.0, alias="transaction_timeout"
    )
    """After so long the brokers end a transaction; at most their `transaction.max.timeout.ms`. A larger checkpoint is
    written in several, each a quarter of it."""
    markers: Topic = "eos-markers"
    """A compacted topic that tells how far each pipeline is; created at the first start, or by an administrator."""
    properties: Annotated[dict[str, str], as_written, without(_SET_FOR_SINKS)] = Field(default_factory=dict)
    """librdkafka's own settings, such as `compression.type`."""

    @model_validator(mode="after")
    def _one_topic(self) -> Self:
        if (self.topic is None) == (self.topic_column is None):
            found = "both topic and topic_column" if self.topic else "neither topic nor topic_column"
            raise wrong(found, "topic: orders", "topic_column: destination", at="topic")
        return self

    @property
    def where(self) -> str:
        """For people."""
        return f"{self.bootstrap_servers}, {self.topic or f'topics as {self.topic_column} says'}"

    def servers(self, checkpoint: CheckpointSettings) -> list[str]:
        """Addresses that tasks connect to, as URLs."""
        asked = self.topic is None or checkpoint.at_least_once
        return [f"//{broker}" for broker in self.bootstrap_servers.split(",")] if asked else []

    @property
    def target(self) -> tuple[object, ...]:
        """Equal for two sinks of one topic, as far as the spec tells."""
        return self.bootstrap_servers, self.topic or self.topic_column

    def arguments(self, checkpoint: CheckpointSettings, several_topics: bool | None) -> dict[str, object]:
        """What the connector is built with. May contain passwords, and credentials of an object store."""
        from connectors.kafka.sink.layout import Layout  # loads pyarrow

        del several_topics  # no row is compared with another
        return {
            "name": self.name,
            "bootstrap_servers": self.bootstrap_servers,
            "layout": Layout(
                topic=self.topic,
                topic_column=self.topic_column,
                format=self.format,
                key=tuple(self.key or ()),
                headers=dict(self.headers),
                partition=self.partition,
                timestamp=self.timestamp,
                deleted=self.deleted,
            ),
            "log": LogPlace(checkpoint.log_at, self.slots),
            "partitioner": self.partitioner,
            "transaction_timeout_s": self.transaction_timeout_s,
            "markers": self.markers,
            "properties": self.client_properties,
            "repeats": checkpoint.at_least_once,
        }

"""The entries of `sinks` and `dead_letter` for Kafka, and their guarantees. Imports no client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from connectors.api.entry import DeadLetterEntry, SinkEntry
from connectors.api.fields import (
    SLOTS,
    MaxBacklog,
    NonEmpty,
    PositiveDuration,
    Slots,
    Topic,
    as_written,
    without,
)
from connectors.api.format import AnySinkFormat
from connectors.api.guarantee import Guarantee, PipelineContext, at_least_once, log_needs, with_each_checkpoint
from connectors.api.model import refuse, wrong
from connectors.api.template import Template
from connectors.dead_letter_names import MESSAGE_HEADERS
from connectors.kafka.security import Secured
from connectors.log.place import LogPlace

if TYPE_CHECKING:
    from connectors.api.contracts import Sink
    from connectors.dead_letters import DeadLetter
    from connectors.kafka.sink.formats import Formats
    from connectors.kafka.sink.layout import Layout

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


_PROMISE: Final = "exactly-once: rows wait in a log and are applied in one transaction with their marker"
_TOPIC: Final = "a topic that exists"
_REGISTRY: Final = "a schema registry that answers at each start, and loses no schema"


class KafkaSinkEntry(Secured, SinkEntry):
    """`connector: kafka`: topics of a cluster, for readers with `isolation.level=read_committed`."""

    api_version: ClassVar[int] = 1
    task_modules: ClassVar[Sequence[str]] = ("connectors.kafka.sink.sink",)
    promises: ClassVar[Mapping[str, str]] = {"write-ahead-log": _PROMISE}
    target_key: ClassVar[str] = "topic"

    template: ClassVar[Template | None] = Template(
        title="Kafka",
        variable="TARGET",
        example="localhost:9092",
        entry="""\
    connector: kafka
    bootstrap_servers: ${env:TARGET}
    topic: "<topic>-out"  # exists beforehand; readers set isolation.level=read_committed
    format: json  # or {type: avro, registry: {url: …}}; or string, raw: the column `value`
    # key: [id]  # columns of the key; key_format: {type: avro, registry: {url: …}} gives it a schema
    commit: write-ahead-log  # messages wait in a log, and each slot writes its share in one Kafka transaction
""",
    )

    connector: Literal["kafka"]
    topic: Topic | None = None
    """Where all messages go; exists beforehand. Or give `topic_column`."""
    topic_column: NonEmpty | None = None
    """A text column that names the topic of each row; rows for a topic that does not exist stop the pipeline."""
    format: AnySinkFormat | None = None
    """The value: `json` (the default), an object of all columns that say nothing else; `avro`, a record of them; or
    `string` or `raw`, the column `value`."""
    key: Annotated[list[NonEmpty], Field(min_length=1)] | None = None
    """Columns of the key. Of one, text and bytes are written as they are, other types as JSON; several make a JSON
    object."""
    key_format: AnySinkFormat | None = None
    """`avro` or `json` with a registry: the key has a schema. Of one column, the key is its value; of several, a
    record."""
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

    @model_validator(mode="after")
    def _schemas_fit_topics(self) -> Self:
        if self.key_format is not None and self.key_format.form != "schema":
            found = f"a key has no format '{self.key_format.type}' without a registry"
            raise wrong(found, "without key_format, one column is written as it is", at="key_format")
        if self.key_format is not None and self.key is None:
            raise wrong("key_format without key", "key: [id]", at="key_format")
        for name, entry in (("format", self.format), ("key_format", self.key_format)):
            if self.topic is None and entry is not None and entry.needs_topic:
                found = "each row names its topic, so the subject of its schema is not known before the first row"
                raise wrong(found, "subject: record-name", "topic: orders", at=name)
        return self

    @classmethod
    def dead_letter_model(cls) -> type[SinkEntry]:
        return KafkaDeadLetter

    @property
    def where(self) -> str:
        return f"{self.bootstrap_servers}, {self.topic or f'topics as {self.topic_column} says'}"

    @property
    def datasets(self) -> Sequence[tuple[str, str]]:
        return ((self.cluster, self.topic or f"{{{self.topic_column}}}"),)

    def addresses(self, context: PipelineContext) -> list[tuple[str, int]]:
        """Tasks connect where rows name their topics, and where they commit themselves."""
        return self.brokers if self.topic is None or context.at_least_once else []

    @property
    def target(self) -> tuple[object, ...]:
        return self.bootstrap_servers, self.topic or self.topic_column

    @property
    def row_columns(self) -> list[tuple[tuple[str | int, ...], str]]:
        named: list[tuple[tuple[str | int, ...], str]] = [(("key", at), name) for at, name in enumerate(self.key or ())]
        return named + ([(("deleted",), self.deleted)] if self.deleted is not None else [])

    def column_problems(self, columns: Sequence[str]) -> Sequence[tuple[tuple[str | int, ...], str]]:
        if not any(each is not None and each.form == "schema" for each in (self.format, self.key_format)):
            return []  # without pyarrow
        found = self._formats().name_problems(self.name, self._layout(), columns)
        return [(("format",) if part == "value" else ("key_format",), reason) for part, reason in found]

    @property
    def extras(self) -> frozenset[str]:
        given = [each.extras for each in (self.format, self.key_format) if each is not None]
        return super().extras.union(*given)

    @property
    def rejects_after_decision(self) -> bool:
        """A topic has no constraints."""
        return False

    @property
    def description(self) -> dict[str, str]:
        return {"connector": self.connector} | ({"topic": self.topic} if self.topic is not None else {})

    @property
    def reserved_topics(self) -> list[str]:
        return [self.markers]

    def build(self, context: PipelineContext, dead_letters: Sink | None = None) -> Sink:
        from connectors.kafka.sink.sink import KafkaSink

        return KafkaSink(**self._arguments(context))

    def fingerprint(self, context: PipelineContext) -> list[tuple[str, str]]:
        return sorted((name, str(value)) for name, value in self._arguments(context).items())

    def guarantee(self, context: PipelineContext) -> Guarantee:
        markers = "a compacted topic for the markers: created at the first start, or by an administrator"
        needs = [markers, *([_REGISTRY] if "registry" in self.extras else [])]
        if context.at_least_once:
            return at_least_once(context, self.name, [f"{_TOPIC} and is not compacted", *needs])
        return Guarantee(
            self.name,
            _PROMISE,
            with_each_checkpoint(context, "one slot's messages after another's"),
            (f"{_TOPIC}, and readers with isolation.level=read_committed", *needs, log_needs(context)),
            (
                "a checkpoint that a quarter of `transaction_timeout` is too short for becomes visible in several "
                "parts",
                "messages of one key keep their order if they come from one partition of the source",
            ),
        )

    def read_dead_letters(self) -> Sequence[DeadLetter]:
        from connectors.kafka.dead_letters import read_dead_letters  # loads the client

        return read_dead_letters(self.bootstrap_servers, str(self.topic), self.client_properties)

    def newest_dead_letters(self, most: int, reached: int) -> Sequence[DeadLetter]:
        from connectors.kafka.dead_letters import read_dead_letters  # loads the client

        return read_dead_letters(self.bootstrap_servers, str(self.topic), self.client_properties, most, reached)

    def _arguments(self, context: PipelineContext) -> dict[str, Any]:
        """Return the arguments of the sink. May contain passwords, and credentials of an object store."""
        return {
            "name": self.name,
            "bootstrap_servers": self.bootstrap_servers,
            "layout": self._layout(),
            "formats": self._formats(),
            "log": LogPlace(context.log_at, self.slots),
            "partitioner": self.partitioner,
            "transaction_timeout_s": self.transaction_timeout_s,
            "markers": self.markers,
            "properties": self.client_properties,
            "repeats": context.at_least_once,
        }

    def _layout(self) -> Layout:
        from connectors.kafka.sink.layout import Layout  # loads pyarrow

        return Layout(
            topic=self.topic,
            topic_column=self.topic_column,
            format=self.format.form if self.format is not None else "json",
            key=tuple(self.key or ()),
            key_has_schema=self.key_format is not None,
            headers=dict(self.headers),
            partition=self.partition,
            timestamp=self.timestamp,
            deleted=self.deleted,
        )

    def _formats(self) -> Formats:
        from connectors.kafka.sink.formats import Formats  # loads pyarrow

        value = self.format if self.format is not None and self.format.form == "schema" else None
        return Formats(
            value.build() if value is not None else None,
            self.key_format.build() if self.key_format is not None else None,
        )


_OF_ROWS: Final = ("topic_column", "format", "key", "key_format", "headers", "partition", "timestamp", "deleted")


class KafkaDeadLetter(DeadLetterEntry, KafkaSinkEntry):
    """`connector: kafka`: a topic. Messages have the records' own key, value and headers, and headers `eos.…` more."""

    @model_validator(mode="after")
    def _messages_are_the_records(self) -> Self:
        for field in _OF_ROWS:
            if field in self.model_fields_set:
                raise wrong("a dead letter has the key, the value and the headers of its record", at=field)
        return self

    def _layout(self) -> Layout:
        from connectors.kafka.sink.layout import Layout  # loads pyarrow

        return Layout(self.topic, format="raw", key=("key",), headers=MESSAGE_HEADERS, carried="headers")

"""The entry of `sources` for Kafka. Imports no client."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal, Self, cast

from pydantic import AfterValidator, Field, model_validator

from connectors.api.entry import SinkEntry, SourceEntry
from connectors.api.fields import AtLeastOne, Count, NonEmpty, Topic, as_written, matching, regular_expression, without
from connectors.api.format import AnyFormat
from connectors.api.guarantee import PipelineContext
from connectors.api.model import mistaken, wrong
from connectors.api.template import Template
from connectors.kafka.security import Secured
from connectors.kafka.sink.entry import KafkaSinkEntry
from connectors.kafka.sink.place import MARKERS
from connectors.kafka.starting_offsets import StartingOffsets
from eos.errors import SpecError

if TYPE_CHECKING:
    from connectors.api.contracts import Source
    from connectors.api.decoding import Format
    from connectors.dead_letters import DeadLetter

_KEPT_IN_HEAD: Final = "positions are kept with the checkpoints and given to Kafka only for lag tools"
_SET_ELSEWHERE: Final = {
    "bootstrap.servers": "write it as bootstrap_servers",
    "metadata.broker.list": "write it as bootstrap_servers",
    "group.id": "write it as group_id",
    "isolation.level": "write it as isolation_level",
    "auto.offset.reset": "write it as starting_offsets",
    "enable.auto.commit": _KEPT_IN_HEAD,
    "enable.auto.offset.store": _KEPT_IN_HEAD,
    "auto.commit.enable": _KEPT_IN_HEAD,
}


def _topics(topics: list[str]) -> list[str]:
    if len(set(topics)) < len(topics):
        twice = next(topic for topic in topics if topics.count(topic) > 1)
        raise wrong(f"the topic '{twice}' stands twice")
    return topics


class KafkaEntry(Secured, SourceEntry):
    """`connector: kafka`: topics of a cluster, each partition in order."""

    api_version: ClassVar[int] = 1
    task_modules: ClassVar[Sequence[str]] = ("connectors.kafka.source",)

    template: ClassVar[Template | None] = Template(
        title="Kafka",
        variable="KAFKA",
        example="localhost:9092",
        entry="""\
    connector: kafka
    bootstrap_servers: ${env:KAFKA}
    topics: ["<topic>"]  # or topics_pattern: "orders-.*"
    # Where the very first start begins: earliest, latest, {timestamp: 2026-01-31T12:00:00Z}, {group: name},
    # {offsets: {<topic>/0: 17}, otherwise: earliest}.
    starting_offsets: earliest
    format: <format>
    on_bad_record: fail  # or skip: what does not decode is left out, and counted
""",
        is_default=True,
    )

    connector: Literal["kafka"]
    topics: Annotated[list[Topic], Field(min_length=1), AfterValidator(_topics)] | None = None
    """Names of topics; or give `topics_pattern`."""
    topics_pattern: Annotated[NonEmpty, AfterValidator(regular_expression)] | None = None
    """A regular expression for whole names of topics, also of those that are made later."""
    format: AnyFormat
    """How a record's value becomes columns."""
    key_format: AnyFormat | None = None
    """How a record's key becomes columns, which follow the columns of the value; without it, `_key` has its bytes."""
    key_prefix: Annotated[str, matching(r"[A-Za-z0-9_]*", "letters, digits and _, or an empty text")] = "key_"
    """In front of the names of the key's columns."""
    starting_offsets: StartingOffsets = "earliest"
    """Where the very first start begins."""
    isolation_level: Literal["read_committed", "read_uncommitted"] = "read_committed"
    """Whether records of aborted Kafka transactions are left out."""
    group_id: NonEmpty | None = None
    """A consumer group that is told how far the pipeline is, for lag tools only."""
    fail_on_data_loss: bool = True
    """`false`: what retention has deleted before it was read is left out, and told."""
    split_above: AtLeastOne | None = None
    """A partition's share of a checkpoint above this is read by several tasks, in no order."""
    join_below: Count = 1_000
    """Partitions with less than this in a checkpoint share a task; 0: each has its own."""
    properties: Annotated[dict[str, str], as_written, without(_SET_ELSEWHERE)] = Field(default_factory=dict)
    """librdkafka's own settings, such as `client.rack`."""

    @model_validator(mode="after")
    def _topics_or_pattern(self) -> KafkaEntry:
        if (self.topics is None) == (self.topics_pattern is None):
            found = "both topics and topics_pattern" if self.topics else "neither topics nor topics_pattern"
            raise wrong(found, "topics: [orders]", "topics_pattern: 'orders-.*'", at="topics")
        return self

    @model_validator(mode="after")
    def _check_key_columns(self) -> KafkaEntry:
        if self.key_format is None:
            if "key_prefix" in self.model_fields_set:
                raise wrong("key_prefix without key_format", "key_format: {type: json, schema: …}", at="key_prefix")
            return self
        try:
            self._build_format()
        except SpecError as error:
            raise mistaken(error, at="key_format") from None
        return self

    def _build_format(self) -> Format:
        """Build the format of values and keys. Raises SpecError."""
        if self.key_format is None:
            return self.format.build()
        from connectors.formats.key_columns import KeyColumns  # loads pyarrow

        return KeyColumns(self.format.build(), self.key_format.build(), self.key_prefix)

    @property
    def where(self) -> str:
        topics = ", ".join(self.topics or [f"topics like {self.topics_pattern}"])
        keys = f", keys {self.key_format.type}" if self.key_format is not None else ""
        return f"{self.bootstrap_servers}, {topics}, from {self.starts_from}, {self.format.type}{keys}"

    @property
    def datasets(self) -> Sequence[tuple[str, str]]:
        return [(self.cluster, topic) for topic in self.topics or [str(self.topics_pattern)]]

    def addresses(self, context: PipelineContext) -> list[tuple[str, int]]:
        return self.brokers

    @property
    def description(self) -> dict[str, str]:
        topics = ", ".join(self.topics or ()) or f"pattern {self.topics_pattern}"
        keys = self.key_format
        return {
            "connector": self.connector,
            "topics": topics,
            "format": self.format.type,
            "schema": self.format.schema_text,
            **({} if keys is None else {"key_format": keys.type, "key_schema": keys.schema_text}),
        }

    @property
    def starts_from(self) -> str:
        return self.starting_offsets if isinstance(self.starting_offsets, str) else self.starting_offsets.words()

    def starting_at(self, edge: Literal["earliest", "latest"]) -> Self:
        return self.model_copy(update={"starting_offsets": edge})

    def tolerating_loss(self) -> Self:
        return self.model_copy(update={"fail_on_data_loss": False})

    @property
    def describes_itself(self) -> bool:
        return self.format.describes_itself

    @property
    def is_one_topic(self) -> bool:
        return self.topics is not None and len(self.topics) == 1

    @property
    def unordered_by(self) -> str:
        return "split_above" if self.split_above is not None else ""

    def limits(self) -> list[str]:
        found = []
        if self.starting_offsets != "earliest":
            found.append(f"starting_offsets: the very first start begins at {self.starts_from}, not before")
        if not self.fail_on_data_loss:
            found.append("fail_on_data_loss: false: records that retention deletes before they are read are left out")
        if self.isolation_level == "read_uncommitted":
            found.append("isolation_level: read_uncommitted: records of aborted Kafka transactions are written, too")
        return found

    def reads_from(self, sink: SinkEntry) -> bool:
        if not isinstance(sink, KafkaSinkEntry) or sink.bootstrap_servers != self.bootstrap_servers:
            return False
        return self.reads(str(sink.topic))

    @property
    def extras(self) -> frozenset[str]:
        return super().extras.union(*(each.extras for each in (self.format, self.key_format) if each is not None))

    @property
    def reserved_topics(self) -> list[str]:
        """The topic that remembers what a replay sent."""
        return [MARKERS]

    def resend(self, pipeline: str, topic: str, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
        """One transaction, which remembers in `eos-markers` what it sent."""
        from connectors.kafka.dead_letters import Replay  # loads the client

        return Replay(pipeline, self.bootstrap_servers, self.client_properties, topic).send(letters)

    def reads(self, topic: str) -> bool:
        if self.topics_pattern is not None:
            return re.fullmatch(self.topics_pattern, topic) is not None
        return topic in (self.topics or ())

    @property
    def has_several_rows(self) -> bool:
        return self.format.has_several_rows

    @property
    def columns(self) -> list[str]:
        from connectors.api.contracts import METADATA  # loads pyarrow, as the format does

        return [*self._build_format().schema.names, *sorted(METADATA)]

    def build(self) -> Source:
        from connectors.kafka.source import KafkaSource  # loads the client

        starting = self.starting_offsets
        source = KafkaSource(
            name=self.name,
            bootstrap_servers=self.bootstrap_servers,
            topics=tuple(self.topics or ()),
            topics_pattern=self.topics_pattern,
            starting_offsets=starting if isinstance(starting, str) else starting.resolvable(),
            format=self._build_format(),
            properties=self.client_properties,
            on_bad_record=self.on_bad_record or "fail",
            group_id=self.group_id,
            isolation_level=self.isolation_level,
            fail_on_data_loss=self.fail_on_data_loss,
            split_above=self.split_above,
            join_below=self.join_below,
        )
        return cast("Source", source)  # its fields are frozen

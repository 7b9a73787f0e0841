"""Kafka topics as a sink: rows wait in segments, and each slot writes its share of a checkpoint in a transaction.

A reader with `isolation.level=read_committed` sees every row once; any other one also sees what was aborted.
At-least-once a task sends messages to the topic while rows arrive (`DirectKafkaWriter`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from connectors.api.contracts import Finding
from connectors.api.encoding import UsedSchema
from connectors.kafka.settings import Connection, check_properties
from connectors.kafka.sink.doctor import findings
from connectors.kafka.sink.formats import Encoders, Formats
from connectors.kafka.sink.layout import Layout
from connectors.kafka.sink.ledger import KafkaLedger
from connectors.kafka.sink.messages import Messages, parts, sender
from connectors.kafka.sink.place import MARKERS, Place
from connectors.kafka.sink.producer import PlainProducer
from connectors.kafka.sink.target import Facts, Topics
from connectors.known import decode_known, encode_known, must_wait
from connectors.log.committer import LogCommitter
from connectors.log.place import LogPlace
from connectors.log.writer import LogWriter, appending_writer
from eos.errors import TargetError
from twophase import faults
from twophase.ids import TransactionId
from twophase.values import Committable


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """The target of a sink whose messages have schemas, as a start has found it."""

    facts: Facts
    schemas: dict[str, UsedSchema]  # by the part of a message


@dataclass(frozen=True, slots=True)
class KafkaSink:
    """See Sink. Picklable; opens nothing by itself. `properties` may hold passwords, which no repr shows."""

    name: str
    bootstrap_servers: str
    layout: Layout
    log: LogPlace
    partitioner: str = "murmur2_random"
    transaction_timeout_s: float = 60.0
    markers: str = MARKERS
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    repeats: bool = False  # rows may come twice, and late (at-least-once): no topic that keeps the newest of each key
    formats: Formats = field(default=Formats(), repr=False)  # parts with schemas; not of an opened sink
    rows: pa.Schema | None = None  # of an opened sink
    topics: Topics | None = None  # of an opened sink
    encoders: Encoders = field(default_factory=dict)  # of an opened sink

    def __post_init__(self) -> None:
        """Raises SpecError for a property that takes code; what else may not be set, the spec has refused."""
        check_properties(self.properties, {})

    @property
    def connection(self) -> Connection:
        """What the clients are made with."""
        return Connection(
            bootstrap_servers=self.bootstrap_servers,
            group_id=f"eos-{self.name}",  # a consumer must have one, though it never joins
            properties=tuple(sorted(self.properties.items())),
        )

    @property
    def place(self) -> Place:
        """Where messages go."""
        return Place(self.connection, self.layout.topic, self.transaction_timeout_s, self.partitioner, self.markers)

    def open(self, schema: pa.Schema) -> KafkaSink:
        """See Sink. Creates nothing. Raises TargetError, SinkUnavailableError."""
        topics = self._checked(schema)
        encoders = self.formats.open(self.name, self.layout, schema)
        self.log.open()
        return self._opened_as(schema, topics, encoders)

    def _checked(self, schema: pa.Schema) -> Topics:
        self._check_rows(schema)
        return Topics.of_sink(self.name, self.place, repeats=self.repeats)

    def _check_rows(self, schema: pa.Schema) -> None:
        self.layout.check(self.name, schema)
        self.formats.check_rows(self.name, self.layout, schema)

    def _opened_as(self, schema: pa.Schema, topics: Topics, encoders: Encoders) -> KafkaSink:
        """Return the sink that is sent to the tasks: they need no registry, and get no login for one."""
        log = self.log.on_driver()
        return replace(self, log=log, rows=schema, topics=topics, encoders=encoders, formats=Formats())

    @property
    def cached_target(self) -> str | None:
        """See Sink. Where rows name their topics, tasks ask the cluster."""
        if self.topics is None or self.topics.only is None or self.repeats:
            return None
        if not self.encoders:
            return encode_known(self._place_text, Facts, self.topics.only)
        used: dict[str, UsedSchema] = {part: encoder.used for part, encoder in self.encoders.items()}
        return encode_known(self._place_text, KnownTopic, KnownTopic(self.topics.only, used))

    def open_cached(self, schema: pa.Schema, known: str) -> KafkaSink:
        self._check_rows(schema)
        encoders: Encoders | None = {}
        if self.formats == Formats():
            facts = decode_known(self.name, self._place_text, Facts, known)
        else:
            learned = decode_known(self.name, self._place_text, KnownTopic, known)
            facts = learned.facts
            encoders = self.formats.reopen(self.name, self.layout, schema, learned.schemas)
        if encoders is None:
            raise must_wait(self.name, "the rows have got another schema, which is not registered yet")
        topics = Topics(self.place.connection, facts, self.place.markers, self.repeats)
        return self._opened_as(schema, topics, encoders)

    @property
    def _place_text(self) -> str:
        return f"{self.bootstrap_servers}, topic {self.layout.topic}"

    def dry_run(self, schema: pa.Schema) -> Sequence[str]:
        topics = self._checked(schema)
        self.formats.dry_run(self.name, self.layout, schema)
        return self._opened_as(schema, topics, {}).columns

    @property
    def columns(self) -> Sequence[str]:
        return self.layout.columns(self._opened[0])

    @property
    def partition_by(self) -> Sequence[str] | None:
        """See Sink. Any row to any writer: rows of one source partition stay in their order."""
        return None

    @property
    def rejects_duplicates(self) -> bool:
        return False

    def writer(self, transaction: TransactionId, replaces: Committable | None = None) -> LogWriter:
        """See Sink. Asks the cluster only where a row names its topic."""
        rows, topics = self._opened
        slots = self.log.slots_for(replaces)
        messages = Messages(self.layout, rows, topics, self.encoders)
        return appending_writer(self.log.open(), messages, slots, transaction)

    def direct_writer(self, transaction: TransactionId) -> KafkaDirectWriter:
        rows, topics = self._opened
        return KafkaDirectWriter(self.name, self.place, Messages(self.layout, rows, topics, self.encoders), transaction)

    def committer(self, pipeline: str) -> LogCommitter:
        ledger = KafkaLedger(self.name, self.place, self.log.slots, pipeline)
        return LogCommitter(self.name, ledger, self.log.open())

    def check(self, schema: pa.Schema | None, writers: int | None = None) -> Sequence[Finding]:
        """See Sink. Any number of writers will do: they write to the log."""
        del writers
        found = findings(self.name, self.place, self.layout, schema, self.formats, repeats=self.repeats)
        return [*self.log.check(), *found, *self.formats.findings(self.name, self.layout, schema)]

    @property
    def _opened(self) -> tuple[pa.Schema, Topics]:
        if self.rows is None or self.topics is None:
            message = f"sink {self.name} was not opened"
            raise TargetError(message)
        return self.rows, self.topics


class KafkaDirectWriter:
    """See DirectWriter. What is sent is visible at once, also of a task that fails later on."""

    def __init__(self, sink: str, place: Place, form: Messages, transaction: TransactionId) -> None:
        self._sink = sink
        self._place = place
        self._form = form
        self._transaction = transaction
        self._producer: PlainProducer | None = None
        self._rows = 0
        self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """See DirectWriter. Raises BadRowError for a message that Kafka would refuse, before it is sent."""
        if not batch.num_rows:
            return
        messages = self._form.convert(batch, self._rows + 1)
        if self._producer is None:
            self._producer = PlainProducer(self._place, self._sink, self._form.topics.batch_bytes)
        for part in parts(messages):
            self._producer.produce(sender(part), part.num_rows, part.nbytes)
        if not self._rows:
            faults.point("writing", self._transaction.scope.checkpoint_id)
        self._rows += batch.num_rows
        self._bytes += messages.nbytes

    def write_atomic(self, batch: pa.RecordBatch) -> None:
        """See DirectWriter. `write` refuses a message before it sends any message of the batch."""
        self.write(batch)

    def commit(self) -> Committable:
        if self._producer is not None:
            self._producer.flush()
            self.abort()
        faults.point("written", self._transaction.scope.checkpoint_id)
        return Committable(self._transaction, rows=self._rows, bytes=self._bytes)

    def abort(self) -> None:
        """See DirectWriter. What is delivered stays."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None

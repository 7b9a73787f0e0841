"""Kafka topics as a source of exactly-once pipelines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, Literal

import pyarrow as pa

from connectors.api.contracts import Finding, Horizon
from connectors.api.decoding import CheckedFormat, Format, NamedSchemas, SelfDescribingFormat
from connectors.kafka import doctor, group
from connectors.kafka.client import Client, check_settings
from connectors.kafka.columns import METADATA
from connectors.kafka.pool import borrowed_consumer, monitor_admin, shared_admin
from connectors.kafka.positions import earliest, latest_and_withheld
from connectors.kafka.reader import OnBadRecord, bad_records_of, read_ranges, records_of
from connectors.kafka.settings import Connection, check_properties
from connectors.kafka.splits import Offsets, parse_split
from connectors.kafka.starting import StartingOffsets, check_named, resolve
from connectors.kafka.topics import Topic, describe, matching_topics
from connectors.kafka.witness import check_witnesses, witnesses_of
from eos.errors import OffsetOutOfRangeError, SpecError
from twophase import faults
from twophase.positions import Position, Positions
from twophase.values import OffsetRange, StartingPoint

_MONITOR_TIMEOUT_S: Final = 5.0
"""Longest wait for one answer of the cluster about its current ends."""


@dataclass(frozen=True)
class KafkaSource:
    """Topics of one cluster (`connectors.api.contracts.Source`). A split is `<topic>/<partition>`.

    Configuration only: picklable, opens nothing by itself. `properties` go to librdkafka as they are; their values,
    which may be passwords, appear in no repr and in no message.
    """

    name: str
    bootstrap_servers: str
    topics: tuple[str, ...]  # empty where there is a pattern
    format: Format
    topics_pattern: str | None = None  # a regular expression for whole names
    starting_offsets: StartingOffsets = "earliest"
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    on_bad_record: OnBadRecord = "fail"
    group_id: str | None = None  # where committed positions are told, for lag tools; None: nowhere
    isolation_level: Literal["read_committed", "read_uncommitted"] = "read_committed"
    fail_on_data_loss: bool = True  # False: what retention has deleted is left out, with a warning
    split_above: int | None = None
    join_below: int = 1_000
    columns: tuple[str, ...] | None = None  # of the schema, in its order; None: all
    connect_timeout_s: float = 15.0
    read_timeout_s: float = 60.0
    withheld_by: ClassVar[str] = "an open transaction"
    withheld_remedy: ClassVar[str] = (
        "the producer ends its transaction by a commit or an abort; the broker aborts it after the producer's "
        "transaction.timeout.ms; a transaction that stays open for longer hangs: `kafka-transactions.sh "
        "--bootstrap-server … find-hanging --broker-id …` finds it, and `kafka-transactions.sh … abort` ends it"
    )

    def __post_init__(self) -> None:
        """Refuse what no service needs to be asked about. Raises SpecError."""
        check_properties(self.properties)
        taken = set(METADATA.names) & set(self.format.schema.names)
        if taken:
            raise SpecError(
                f"source {self.name}: {', '.join(sorted(taken))} is a column of record metadata",
                remedy="give the column of the schema another name",
            )
        unknown = set(self.columns or ()) - set(self._whole_schema.names)
        if unknown:
            raise SpecError(f"source {self.name}: no such column: {', '.join(sorted(unknown))}")

    @property
    def _whole_schema(self) -> pa.Schema:
        return pa.schema([*self.format.schema, *METADATA])

    @property
    def schema(self) -> pa.Schema:
        """Decoded columns followed by the metadata columns; only those of `columns` if it is given."""
        whole = self._whole_schema
        kept = (*self._fixed, *(whole.names if self.columns is None else self.columns))
        return pa.schema([f for f in whole if f.name in kept])

    @property
    def _fixed(self) -> Sequence[str]:
        """Columns that are always read: `select` narrows only the metadata of rows with their own schema."""
        return self.format.schema.names if self.describes_itself else ()

    @property
    def describes_itself(self) -> bool:
        return isinstance(self.format, SelfDescribingFormat)

    @property
    def connection(self) -> Connection:
        """What the clients are made with. Sources with equal connections share them within a process."""
        return Connection(
            bootstrap_servers=self.bootstrap_servers,
            group_id=self.group_id or f"eos-{self.name}",  # a consumer must have one, though it never joins
            isolation_level=self.isolation_level,
            properties=tuple(sorted((name, str(value)) for name, value in self.properties.items())),
            connect_timeout_s=self.connect_timeout_s,
            read_timeout_s=self.read_timeout_s,
        )

    def validate(self) -> None:
        """Have librdkafka judge the settings, without touching a service. Raises SpecError that names the setting."""
        check_settings(self.connection)

    def select(self, columns: Sequence[str]) -> KafkaSource:
        """The same source, reading only these columns of `schema`, in its order."""
        chosen = tuple(name for name in self.schema.names if name in columns)
        if len(chosen) < len(set(columns)):
            missing = ", ".join(sorted(set(columns) - set(chosen)))
            raise SpecError(f"source {self.name}: no such column: {missing}")
        return replace(self, columns=chosen)

    def reads(self, topic: str) -> bool:
        """Whether the settings name this topic. Asks nobody."""
        if self.topics_pattern is None:
            return topic in self.topics
        return re.fullmatch(self.topics_pattern, topic) is not None

    def starting_point(self, known: StartingPoint) -> StartingPoint:
        """See Source. By `starting_offsets` for topics of which no split is known: those are new in the spec.

        What was made since the pipeline began (partitions of a known topic, topics that a pattern finds later) is left
        to `horizon`, which begins at the first record.
        """
        begun = _begun(known)
        with shared_admin(self.connection) as admin:
            topics = self._topics(admin, known.identities)
            new = [topic for topic in topics if self._is_unresolved(topic.name, begun)]
            splits = [split for topic in new for split in topic.splits]
            if not begun:
                check_named(self.starting_offsets, splits)
            positions = resolve(admin, self.starting_offsets, splits) if splits else {}
        return StartingPoint(positions, {topic.name: topic.id for topic in new if topic.id})

    def horizon(self, known: StartingPoint) -> Horizon:
        """See Source. Two round trips to the cluster, and another one if there is a split that is not known."""
        with shared_admin(self.connection) as admin:
            return self._horizon(admin, known)

    def current_ends(self, known: StartingPoint) -> Horizon:
        """See MeasuredSource. The same questions as `horizon`, by a client that only monitoring uses.

        The ends are the last stable offsets with `read_committed`, and the high watermarks with `read_uncommitted`. A
        new topic whose first offsets `starting_offsets` is yet to resolve has no discovered positions.
        """
        connection = self.connection
        patience_s = min(connection.connect_timeout_s, _MONITOR_TIMEOUT_S)
        with monitor_admin(replace(connection, connect_timeout_s=patience_s)) as admin:
            found = self._horizon(admin, known)
        if self.starting_offsets == "earliest":
            return found
        begun = _begun(known)
        positions = {
            split: offset
            for split, offset in found.discovered.positions.items()
            if not self._is_unresolved(parse_split(split)[0], begun)
        }
        return replace(found, discovered=replace(found.discovered, positions=positions))

    def _horizon(self, admin: Client, known: StartingPoint) -> Horizon:
        topics = self._topics(admin, known.identities)
        splits = [split for topic in topics for split in topic.splits]
        ends, withheld = latest_and_withheld(admin, splits)
        new = [split for split in splits if split not in known.positions]
        positions = earliest(admin, new) if new else {}
        identities = {topic.name: topic.id for topic in topics if topic.id and topic.name not in known.identities}
        return Horizon(ends, StartingPoint(positions, identities), withheld)

    def _is_unresolved(self, topic: str, begun: Set[str]) -> bool:
        """Return whether `starting_offsets` decides where the topic begins. `begun`: topics with known positions."""
        return topic not in begun and not (begun and self.topics_pattern)

    def _topics(self, admin: Client, identities: Mapping[str, str]) -> list[Topic]:
        topics = describe(admin, self._names(admin, identities))
        for topic in topics:
            if topic.id and identities.get(topic.name, topic.id) != topic.id:
                message = f"topic {topic.name} was deleted and made again since the pipeline began to read it"
                raise OffsetOutOfRangeError(message, remedy="`eos reset` restarts with the current records")
        return topics

    def _names(self, admin: Client, identities: Mapping[str, str]) -> Sequence[str]:
        """The topics to read; of those that the pattern matches also the ones that are gone, to notice it."""
        if self.topics_pattern is None:
            return self.topics
        known = filter(self.reads, identities)
        return sorted({*matching_topics(admin, self.topics_pattern), *known})

    def witnesses(self, ranges: Sequence[OffsetRange]) -> Mapping[str, str]:
        """See Source. One round trip to the cluster; two where transactions end the ranges."""
        return witnesses_of(self.connection, ranges)

    def check_witnesses(self, witnesses: Mapping[str, str]) -> None:
        """See Source. One round trip to the cluster."""
        check_witnesses(self.connection, witnesses)

    def lost_ranges(self, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
        """See Source. Asks the cluster once, and only where loss is allowed: else the task that meets it fails."""
        if self.fail_on_data_loss or not ranges:
            return []
        with shared_admin(self.connection) as admin:
            first = earliest(admin, [each.split for each in ranges])
        lost = (replace(each, end=min(first[each.split], each.end)) for each in map(Offsets.of, ranges))
        return [OffsetRange(each.split, each.start, each.end) for each in lost if not each.is_empty]

    @property
    def rejects_bad_records(self) -> bool:
        return self.on_bad_record == "dead-letter"

    @property
    def skips_bad_records(self) -> bool:
        return self.on_bad_record == "skip"

    def read(
        self, ranges: Sequence[OffsetRange], on_bad_records: Callable[[int], None] = lambda _count: None
    ) -> Iterator[pa.RecordBatch]:
        """See Source. Several ranges are read at once; empty ones ask nobody.

        Raises:
            OffsetOutOfRangeError: the range's records no longer exist; the message says what does.
            BadRecordError: a record does not decode, or a column cannot hold its metadata, and `on_bad_record` is fail.
            UnknownTopicError, SourceAccessError: as they say.
            SourceError: nothing came for `read_timeout_s`; a retry reads the ranges again from their starts.
        """
        yield from self.read_with_schemas(ranges, on_bad_records)

    @property
    def names_schemas(self) -> bool:
        return isinstance(self.format, NamedSchemas) and self.format.names_schemas

    def with_schemas(self, known: Mapping[str, str]) -> KafkaSource:
        """Return this source with pinned schemas. See SchemaSource."""
        return replace(self, format=self.format.with_schemas(known)) if isinstance(self.format, NamedSchemas) else self

    def read_with_schemas(
        self,
        ranges: Sequence[OffsetRange],
        on_bad_records: Callable[[int], None],
        on_schemas: Callable[[Mapping[str, str]], None] = lambda _schemas: None,
    ) -> Iterator[pa.RecordBatch]:
        """Read as `read` does, and report schemas. See SchemaSource."""
        ranges = [each for each in ranges if not each.is_empty]
        if not ranges:
            return
        with borrowed_consumer(self.connection) as client:
            first = True
            skip_lost = not self.fail_on_data_loss
            for batch in read_ranges(
                client,
                ranges,
                self.format,
                self.schema,
                self.on_bad_record,
                skip_lost=skip_lost,
                on_bad_records=on_bad_records,
                on_schemas=on_schemas,
            ):
                if first:
                    faults.point("reading")
                    first = False
                yield batch

    def bad_records(self, offsets: OffsetRange) -> Iterator[pa.RecordBatch]:
        """See Source. Raises what `read` raises, but BadRecordError."""
        if offsets.is_empty:
            return
        with borrowed_consumer(self.connection) as client:
            skip_lost = not self.fail_on_data_loss
            yield from bad_records_of(client, offsets, self.format, self.schema, self.name, skip_lost=skip_lost)

    def limit(self, offsets: OffsetRange, max_records: int) -> Position:
        wanted = Offsets.of(offsets)
        return min(wanted.start + max_records, wanted.end)

    def records(self, split: str, offsets: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """See Source. Reads what is between them, too."""
        between = OffsetRange(split, offsets[0], offsets[-1] + 1)
        with borrowed_consumer(self.connection) as client:
            yield from records_of(client, between, frozenset(offsets), self.name)

    def commit_back(self, positions: Positions) -> None:
        """Tell the group of `group_id` how far the pipeline is (R9); does nothing without one. Raises SourceError."""
        if self.group_id is not None and positions:
            with shared_admin(self.connection) as admin:
                group.commit_to_group(
                    admin, self.group_id, {split: at for split, at in positions.items() if isinstance(at, int)}
                )

    def check(self) -> Sequence[Finding]:
        """What `eos doctor` wants to know: settings, cluster, each topic, the group. Raises nothing."""
        found = doctor.findings(self.name, self.connection, self.topics, self.topics_pattern, self.group_id)
        more = self.format.check() if isinstance(self.format, CheckedFormat) else ()
        return [*found, *(replace(each, check=f"{self.name}: {each.check}") for each in more)]


def _begun(known: StartingPoint) -> Set[str]:
    """Return the topics of the splits whose positions are known."""
    return {parse_split(split)[0] for split in known.positions}

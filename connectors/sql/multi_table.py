"""A sink with a table for each topic, or for each schema of its records. Its rows wait in a log.

The sink gets to know its tables by their rows (`MultiTableSink`). Each table is a sink of one table, opened for the
schema of the rows. A table whose rows have several schemas is opened once for each: a row sets the columns that its own
schema has.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, Self

import pyarrow as pa

from connectors.api.contracts import DirectWriter, Finding
from connectors.api.table_rows import TableChange, TableChanges, table_of
from connectors.known import must_wait
from connectors.log.chunks import TablePart
from connectors.log.keyed_rows import flush_in_order
from connectors.log.place import LogPlace
from connectors.log.segments import committable
from connectors.log.writer import Output, RowWriter, Segment
from connectors.sql.table_settings import TableSettings
from eos.errors import BadRowError, TargetError
from twophase import faults
from twophase.ids import TransactionId
from twophase.participants import Committer
from twophase.values import Committable

_log: Final = logging.getLogger("eos.sink")
PLACE: Final = ("_topic", "_partition", "_offset")
"""Columns that the rows of every table have."""
MOST_SCHEMAS: Final = 10_000
"""Schemas of rows that a sink learns between two starts."""
_TOPIC: Final = b"eos.topic"
_RESERVED: Final = "eos_"
"""The first characters of tables that hold claims and witnesses. Records must not choose one of them."""

_LONGEST: Final = 300
"""Characters of the name of a schema. No table has a longer name, and a regular expression may take hours for one."""


class TableSink(TableChanges, Protocol):
    """A sink of one table with a log. Picklable."""

    @property
    def name(self) -> str:
        """The name in the spec."""

    @property
    def log(self) -> LogPlace | None:
        """The log."""

    @property
    def columns(self) -> Sequence[str]:
        """The columns of its writers. Only an opened sink has it."""

    @property
    def identity(self) -> str:
        """Equal for two names of one table, such as `orders` and `public.orders`. Only an opened sink has it."""

    def of_table(self, table: str, key: tuple[str, ...], settings: TableSettings) -> Self:
        """Return the sink of this table, with its settings in place of the common settings.

        `key`: of the records. Raises TargetError.
        """

    def open(self, schema: pa.Schema) -> Self:
        """Compare the table with the rows, and create or change it if the spec allows it. See Sink."""

    def row_writer(self, output: Output) -> RowWriter:
        """Return a writer of rows to an output. Only an opened sink has it."""

    def committer(self, pipeline: str) -> Committer:
        """Return the committer of the log. See Sink."""

    def check_server(self, writers: int | None) -> Sequence[Finding]:
        """Return the findings about the server and the log, without a table."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A rule that gives names another form."""

    match: str  # a regular expression for whole names
    to: str | None  # with `\\1` for groups; None: the rows have no table


@dataclass(frozen=True, slots=True)
class Route:
    """Names the table of rows."""

    pattern: str  # with `${topic}` and `${schema}`
    rewrite: Sequence[Rewrite] = ()

    def table(self, topic: str, schema: str) -> str | None:
        """Return the table; None if the rows have none. The first rule that matches is applied.

        Raises TargetError for a dot that is only in the names: records would choose a schema or a database.
        """
        table, written = self.pattern.replace("${topic}", topic).replace("${schema}", schema), self.pattern
        for rule in self.rewrite:
            if found := re.fullmatch(rule.match, table):
                if rule.to is None:
                    return None
                table, written = found.expand(rule.to), rule.to
                break
        if table.count(".") > written.count("."):
            message = f"records of topic {topic} have the table {table}, with a dot that the spec does not have"
            raise TargetError(message, remedy=r"write the dot by `rewrite`: {match: 'a[.](\w+)', to: 'a.\1'}")
        return table


@dataclass(slots=True)
class _Tables:
    """The tables that the driver knows so far, by the schema of the rows. Travels to the tasks with the sink."""

    opened: dict[bytes, tuple[str, TableSink]] = field(default_factory=dict)
    refused: dict[bytes, str] = field(default_factory=dict)  # why rows have no table
    further: str = ""  # why rows of an unknown schema have no table; empty while the sink learns schemas

    @property
    def is_full(self) -> bool:
        """Whether no further schema is learned: a producer could fill the memory of the driver and of each task."""
        return len(self.opened) + len(self.refused) >= MOST_SCHEMAS


@dataclass(frozen=True, slots=True)
class SqlTablesSink:
    """See Sink and MultiTableSink.

    Args:
        one: the settings that all tables have. Its own table is never used.
        route: names the table of rows.
        settings: by table, settings that differ from `one`.
        rejects: rows without a table are bad rows. If false, they stop the pipeline.
    """

    one: TableSink
    route: Route
    settings: Mapping[str, TableSettings] = field(default_factory=dict)
    rejects: bool = False
    log: LogPlace | None = None  # of an opened sink, as the driver sees it
    _tables: _Tables = field(default_factory=_Tables)

    @property
    def name(self) -> str:
        return self.one.name

    @property
    def cached_target(self) -> str | None:
        """See Sink. The tables are known by their rows only, so a start needs the server."""
        return None

    def open_cached(self, schema: pa.Schema, known: str) -> Self:
        del schema, known
        raise must_wait(self.name, "it has several tables")

    def open(self, schema: pa.Schema) -> SqlTablesSink:
        """See Sink. Opens no table: `learn` does."""
        if missing := [name for name in PLACE if name not in schema.names]:
            message = f"sink {self.name}: the rows have no column {', '.join(missing)}"
            raise TargetError(message, remedy="write the rows of a source, without a step between")
        assert self.one.log is not None
        self.one.log.open()
        return SqlTablesSink(self.one, self.route, self.settings, self.rejects, self.one.log.on_driver())

    def dry_run(self, schema: pa.Schema) -> Sequence[str]:
        del schema
        return PLACE

    @property
    def columns(self) -> Sequence[str]:
        """See Sink. Columns that all tables have; `MultiTableWriter` takes further ones."""
        return PLACE

    @property
    def partition_by(self) -> Sequence[str] | None:
        """See Sink. Tasks read whole partitions, and rows of one key are in one partition (H16), or have an order."""
        return None

    @property
    def rejects_duplicates(self) -> bool:
        return False

    def learn(self, wanted: Sequence[pa.Schema], report: Callable[[TableChange], None]) -> None:
        """See MultiTableSink. A few queries for each schema, one after another."""
        for schema in sorted(wanted, key=_topic_of):
            self._learn(schema, report)

    def writer(self, transaction: TransactionId, replaces: Committable | None = None) -> TablesWriter:
        assert self.log is not None
        segment = Segment(self.log.open(), transaction)
        return TablesWriter(self.name, self._tables, segment, self.log.slots_for(replaces), transaction)

    def direct_writer(self, transaction: TransactionId) -> DirectWriter:
        raise NotImplementedError

    def committer(self, pipeline: str) -> Committer:
        return self.one.committer(pipeline)

    def check(self, schema: pa.Schema | None, writers: int | None = None) -> Sequence[Finding]:
        del schema
        return self.one.check_server(writers)

    def _learn(self, schema: pa.Schema, report: Callable[[TableChange], None]) -> None:
        if self._tables.is_full:
            message = f"sink {self.name}: records have more than {MOST_SCHEMAS:,} schemas"
            remedy = "give their topics to several pipelines; a restart begins to count anew"
            if not self.rejects:
                raise TargetError(message, remedy=remedy)
            self._tables.further = f"{message}; {remedy}"
            return
        known = schema.serialize().to_pybytes()
        topic = _topic_of(schema)
        name, key = table_of(schema)
        try:
            table, sink = self._opened(schema, topic, name, key)
        except TargetError as error:
            if not self.rejects:
                raise
            _log.warning("sink %s: records of topic %s are bad: %s; %s", self.name, topic, error.message, error.remedy)
            self._tables.refused[known] = f"{error.message}; {error.remedy}"
            return
        _log.info("sink %s: topic %s, table %s: %d columns", self.name, topic, table, len(sink.columns))
        for statement in sink.ran:
            report(TableChange(table, statement, topic))
        self._tables.opened[known] = (table, sink)

    def _opened(self, schema: pa.Schema, topic: str, name: str, key: tuple[str, ...]) -> tuple[str, TableSink]:
        """Return the table of this schema, and its sink. Raises TargetError."""
        if len(name) > _LONGEST:
            message = f"sink {self.name}: records of topic {topic} have a schema with a name of {len(name)} characters"
            raise TargetError(message, remedy=f"give it a name of at most {_LONGEST} characters")
        table = self.route.table(topic, name)
        if not table:
            of_schema = f", schema {name}" * bool(name)
            message = f"sink {self.name}: no table for records of topic {topic}{of_schema}"
            raise TargetError(message, remedy="correct `rewrite`, or set `unroutable: dead-letter` to put them aside")
        if table.rpartition(".")[2].casefold().startswith(_RESERVED):
            message = f"sink {self.name}: records of topic {topic} have the table {table}, a name of the protocol"
            raise TargetError(message, remedy="give it another name by `rewrite`, or set `unroutable: dead-letter`")
        settings = self.settings.get(table, TableSettings())
        return table, self.one.of_table(table, key, settings).open(pa.schema(list(schema)))


def _topic_of(schema: pa.Schema) -> str:
    metadata: dict[bytes, bytes] = schema.metadata or {}
    return metadata.get(_TOPIC, b"").decode()


class TablesWriter:
    """See Writer and MultiTableWriter. One segment, however many tables."""

    def __init__(self, sink: str, tables: _Tables, segment: Segment, slots: int, transaction: TransactionId) -> None:
        self._sink = sink
        self._tables = tables
        self._segment = segment
        self._slots = slots
        self._transaction = transaction
        self._writers: dict[str, dict[bytes, RowWriter]] = {}  # by the table's identity, by schema of the rows
        self._wanted: dict[bytes, pa.Schema] = {}
        self._rows = 0

    @property
    def wanted(self) -> Sequence[pa.Schema]:
        return tuple(self._wanted.values())

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows of one table, of one partition. Raises BadRowError for rows without a table."""
        if not batch.num_rows:
            return
        topic = batch.column("_topic")[0].as_py()
        schema = batch.schema.with_metadata({**(batch.schema.metadata or {}), _TOPIC: topic.encode()})
        known = schema.serialize().to_pybytes()
        if known in self._tables.refused:
            raise BadRowError(self._tables.refused[known])
        if known not in self._tables.opened:
            if self._tables.further:
                raise BadRowError(self._tables.further)
            self._wanted[known] = schema
        elif not self._wanted:  # otherwise this attempt ends without rows
            _, sink = self._tables.opened[known]
            rows = batch.select(list(sink.columns)).replace_schema_metadata(None)
            self._writer(known).write(rows)
            if not self._rows:
                faults.point("writing", self._transaction.scope.checkpoint_id, self._transaction.sink)
        self._rows += batch.num_rows

    def write_atomic(self, batch: pa.RecordBatch) -> None:
        self.write(batch)

    def prepare(self) -> Committable:
        """Seal the segment of all tables. Raises PrepareError."""
        assert not self._wanted, "`abort` follows"
        for writers in self._writers.values():
            flush_in_order(list(writers.values()))
        ref = self._segment.seal()
        faults.point("prepared", self._transaction.scope.checkpoint_id, self._transaction.sink)
        return committable(self._transaction, self._slots, self._rows, ref)

    def abort(self) -> None:
        self._segment.discard()

    def _writer(self, known: bytes) -> RowWriter:
        """Return the writer for rows of this schema."""
        table, sink = self._tables.opened[known]
        writers = self._writers.setdefault(sink.identity, {})
        if known not in writers:
            writers[known] = sink.row_writer(TablePart(self._segment, table))
        return writers[known]

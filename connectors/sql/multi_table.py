"""A sink with a table for each topic, schema or value of a column. Its rows wait in a log.

The sink gets to know its tables by their rows (`MultiTableSink`). Each table is a sink of one table, opened for the
schema of the rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Final, Self

import pyarrow as pa

from connectors.api.contracts import DirectWriter, Finding
from connectors.api.table_rows import TableChange, table_of
from connectors.control_characters import escapes
from connectors.grouping import LONGEST, can_name_a_table, rows_by_value, values_of
from connectors.known import must_wait
from connectors.log.place import LogPlace
from connectors.log.writer import Segment
from connectors.spark_types import spark_type
from connectors.sql.table_settings import Route, TableSettings
from connectors.sql.tables_writer import MOST_SCHEMAS, KnownTables, TableSink, TablesWriter, schema_of, topic_of
from eos.errors import BadRowError, TargetError
from twophase.gather import at_once
from twophase.ids import TransactionId
from twophase.participants import Committer
from twophase.values import Committable

_log: Final = logging.getLogger("eos.sink")
PLACE: Final = ("_topic", "_partition", "_offset")
"""Columns that the rows of every table have."""
_RESERVED: Final = "eos_"
"""The first characters of tables that hold claims and witnesses. Records must not choose one of them."""
_ESCAPES: Final = escapes()
_REMEDY_OF_NAMES: Final = "give it another name by `rewrite`, or set `unroutable: dead-letter`"


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
    _tables: KnownTables = field(default_factory=KnownTables)

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
        """See MultiTableSink. Some dozen queries for each schema; several tables at once."""
        schemas = sorted(wanted, key=topic_of)
        room = MOST_SCHEMAS - self._tables.count
        if len(schemas) > room:
            self._end_learning()
        by_table: dict[str, list[pa.Schema]] = {}
        for schema in schemas[:room]:
            with self._rejecting(schema):
                by_table.setdefault(self._table(schema), []).append(schema)
        tables, count, in_turn = [*by_table.items()], self.one.learns_at_once, _in_turn(report)
        shares = (tables[number::count] for number in range(count))
        at_once({f"{self.name} {n}": partial(self._learn, share, in_turn) for n, share in enumerate(shares)})

    def rows_by_table(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        return rows_by_value(rows, self.route.columns)

    def dry_run_table(self, rows: pa.RecordBatch) -> tuple[str, Sequence[str]]:
        schema = schema_of(rows)
        table = self._table(schema)
        sink, columns = self._sink_of(table, schema)
        return table, sink.dry_run(columns)

    def writer(self, transaction: TransactionId, replaces: Committable | None = None) -> TablesWriter:
        assert self.log is not None
        segment = Segment(self.log.open(), transaction)
        return TablesWriter(self._tables, segment, self.log.slots_for(replaces), transaction)

    def direct_writer(self, transaction: TransactionId) -> DirectWriter:
        raise NotImplementedError

    def committer(self, pipeline: str) -> Committer:
        return self.one.committer(pipeline)

    def check(self, schema: pa.Schema | None, writers: int | None = None) -> Sequence[Finding]:
        del schema
        return self.one.check_server(writers)

    def _end_learning(self) -> None:
        """Refuse rows of further schemas. Raises TargetError."""
        message = f"sink {self.name}: records have more than {MOST_SCHEMAS:,} schemas"
        remedy = "give their topics to several pipelines; a restart begins to count anew"
        if not self.rejects:
            raise TargetError(message, remedy=remedy)
        self._tables.refuse_further(f"{message}; {remedy}")

    def _table(self, schema: pa.Schema) -> str:
        """Return the table of rows. Raises TargetError."""
        topic, (name, _), values = topic_of(schema), table_of(schema), values_of(schema)
        of_topic = f"sink {self.name}: records of topic {topic} have"
        if len(name) > LONGEST:
            message = f"{of_topic} a schema with a name of {len(name)} characters"
            raise TargetError(message, remedy=f"give it a name of at most {LONGEST} characters")
        for column in self.route.columns:
            _check_value(column, schema, values.get(column), of_topic)
        table = self.route.table(topic, name, values)
        if not table:
            of_schema = f", schema {name}" * bool(name)
            of_values = "".join(f", {column} = {value!r}" for column, value in values.items())
            message = f"sink {self.name}: no table for records of topic {topic}{of_schema}{of_values}"
            raise TargetError(message, remedy="correct `rewrite`, or set `unroutable: dead-letter` to put them aside")
        if (shown := table.translate(_ESCAPES)) != table:
            message = f"{of_topic} the table {shown}, with a character that cannot be shown"
            raise TargetError(message, remedy=_REMEDY_OF_NAMES)
        if table.rpartition(".")[2].casefold().startswith(_RESERVED):
            raise TargetError(f"{of_topic} the table {table}, a name of the protocol", remedy=_REMEDY_OF_NAMES)
        if self.one.is_reserved(table):
            message = f"{of_topic} the table {table}, which has the dead letters or is the database's own"
            raise TargetError(message, remedy=_REMEDY_OF_NAMES)
        return table

    def _learn(self, tables: Sequence[tuple[str, Sequence[pa.Schema]]], report: Callable[[TableChange], None]) -> None:
        """Open these tables for their schemas, one after another."""
        for table, schemas in tables:
            for schema in schemas:
                with self._rejecting(schema, asks_server=True):
                    sink, columns = self._sink_of(table, schema)
                    sink = sink.open(columns)
                    topic = topic_of(schema)
                    _log.info("sink %s: topic %s, table %s: %d columns", self.name, topic, table, len(sink.columns))
                    for statement in sink.ran:
                        report(TableChange(table, statement, topic))
                    self._tables.add(schema.serialize().to_pybytes(), table, sink)

    def _sink_of(self, table: str, schema: pa.Schema) -> tuple[TableSink, pa.Schema]:
        """Return the sink of this table, and what it takes of rows with this schema. Raises TargetError."""
        near = [name for name in self.settings if name.lower() == table.lower()]
        if near and table not in near:
            message = f"sink {self.name}: records have the table {table}, and `tables` names {near[0]}"
            remedy = f"many databases take both for one: add {table} to `tables`, or let `rewrite` give it that name"
            raise TargetError(message, remedy=remedy)
        settings = self.settings.get(table, TableSettings())
        return self.one.of_table(table, table_of(schema)[1], settings), settings.select(schema)

    @contextmanager
    def _rejecting(self, schema: pa.Schema, *, asks_server: bool = False) -> Iterator[None]:
        """Let rows of this schema be bad rows, if the block raises TargetError and the spec allows that.

        Likewise for BadRowError: a database may have no character of a name. `asks_server`: the block uses the server,
        whose own errors are no fault of the rows.
        """
        try:
            yield
        except (TargetError, BadRowError) as error:
            if not self.rejects:
                raise
            if asks_server:
                self.one.require_server()
            topic = topic_of(schema)
            _log.warning("sink %s: records of topic %s are bad: %s; %s", self.name, topic, error.message, error.remedy)
            self._tables.refuse(schema.serialize().to_pybytes(), f"{error.message}; {error.remedy}")


def _check_value(column: str, schema: pa.Schema, value: str | None, of_topic: str) -> None:
    """Raise TargetError if the value of a column cannot name a table. `of_topic`: where the message begins."""
    if column not in schema.names:
        remedy = f"correct ${{column.{column}}} in `table`, or set `unroutable: dead-letter`"
        raise TargetError(f"{of_topic} no column {column}", remedy=remedy)
    if not can_name_a_table(kind := schema.field(column).type):
        remedy = "name tables by a column of text or of whole numbers"
        raise TargetError(f"{of_topic} a column {column} of type {spark_type(kind)}", remedy=remedy)
    remedy = "set `unroutable: dead-letter` to put these records aside"
    if not value:
        empty = "NULL" if value is None else "an empty text"
        raise TargetError(f"{of_topic} {empty} in column {column}, which names the table", remedy=remedy)
    if len(value) > LONGEST:
        raise TargetError(f"{of_topic} more than {LONGEST} characters in column {column}", remedy=remedy)


def _in_turn(report: Callable[[TableChange], None]) -> Callable[[TableChange], None]:
    """Let several threads report."""
    lock = Lock()

    def report_in_turn(change: TableChange) -> None:
        with lock:
            report(change)

    return report_in_turn

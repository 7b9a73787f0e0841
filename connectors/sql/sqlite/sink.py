"""A SQLite table as a sink, `commit: write-ahead-log`: rows wait in segments and are applied a checkpoint at a time.

Exactly-once without two-phase commit: a checkpoint's rows and the witness that counts it are one local transaction.
Segments lie in a folder that tasks and driver share, so the tasks run on the driver's machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from sqlalchemy import Connection

from connectors.api.contracts import Finding
from connectors.dead_letters import SCHEMA
from connectors.known import must_wait
from connectors.log.committer import LogCommitter
from connectors.log.keyed import Upsert
from connectors.log.keyed_rows import log_writer, row_writer
from connectors.log.place import LogPlace
from connectors.log.writer import LogWriter, Output, RowWriter
from connectors.sql.log.ledger import LogTarget, SqlLedger
from connectors.sql.log.refusing import DeadLettersTable
from connectors.sql.schema_match import RowColumn, SchemaMatch
from connectors.sql.schema_migration import (
    DeclaredTypes,
    SchemaMigrator,
    migrator_of,
    plan_findings,
    repeat_problems,
    with_order,
)
from connectors.sql.sqlite.check import findings
from connectors.sql.sqlite.columns import Binding
from connectors.sql.sqlite.database import Database, create_file, empty
from connectors.sql.sqlite.direct_writer import SqliteDirectWriter
from connectors.sql.sqlite.store import IDLE_S, SqliteStore
from connectors.sql.sqlite.target import Table, bind, find_table, folded, merge_problems, missing, unique_keys
from connectors.sql.sqlite.types import TYPES
from connectors.sql.sqlite.values import Stored
from connectors.sql.statements import translate_errors
from connectors.sql.table_settings import TableSettings, is_same_name
from eos.errors import TargetError
from twophase.ids import TransactionId
from twophase.values import Committable
from wal.errors import WalError
from wal.filesystem import refuse_network_filesystem


@dataclass(frozen=True, slots=True)
class SqliteSink:
    """See Sink. Picklable; opens nothing by itself."""

    name: str
    path: Path  # of the database
    table: str
    log: LogPlace
    upsert: Upsert | None = None  # None: rows are added
    renamed: Mapping[str, str] = field(default_factory=dict)  # by column of the table, that of the rows
    create: bool = False  # the table, and the database's file, at a start that finds none
    evolve: bool = False  # it, by columns that it lacks
    declared: DeclaredTypes = field(default_factory=DeclaredTypes)  # of columns that a start creates
    repeats: bool = False  # rows may come twice (at-least-once), and no unique key of the table must refuse them
    letters: SqliteSink | None = None  # of the dead letters, in the same file: it takes the rows that the table refuses
    most_letters: int = 0  # rows of a share that may be refused
    bindings: tuple[Binding, ...] = ()  # of an opened sink
    ran: tuple[str, ...] = ()  # statements by which `open` has created or changed the table

    learns_at_once: ClassVar[int] = 1  # a file has one writer

    def open(self, schema: pa.Schema) -> SqliteSink:
        """See Sink. Raises TargetError, SinkUnavailableError."""
        _, bindings, ran = self._compared(schema, run=True)
        self.log.open()
        upsert = self.upsert and self.upsert.of(schema)
        return replace(self, log=self.log.on_driver(), upsert=upsert, bindings=bindings, ran=ran)

    cached_target: ClassVar = None
    """See Sink. The file is on this machine: where it cannot be read, nothing else of the pipeline's may be there."""

    def open_cached(self, schema: pa.Schema, known: str) -> SqliteSink:
        del schema, known
        raise must_wait(self.name, f"{self.path} is needed")

    def dry_run(self, schema: pa.Schema) -> Sequence[str]:
        names, _, _ = self._compared(schema)
        return with_order(self.upsert and self.upsert.of(schema), names)

    def _compared(
        self, schema: pa.Schema, *, run: bool = False
    ) -> tuple[list[str], tuple[Binding, ...], tuple[str, ...]]:
        """The columns that are written, how they are bound, and the statements that have changed the table.

        `run`: make what is missing, where the spec says so; else take it for made.
        """
        self._check_file(run=run)
        with self._reading() as connection:
            maker = self._maker(connection, schema)
            seen, ran = self._made(maker) if run else (maker.dry_run(), ())
            if seen is None and (run or not self.create):
                raise missing(connection, self.table, maker.remedy())
            names = maker.columns(seen)
        if seen is None:
            return names, (), ran
        table, fit = seen
        if fit.problems:
            message = f"the rows do not fit table {table.name}: " + "; ".join(fit.problems)
            raise TargetError(message, remedy="change the table, or the columns in a transform")
        return names, fit.plans, ran

    def _reading(self) -> AbstractContextManager[Connection]:
        return empty() if self._is_missing else Database(self.path).reading()

    @property
    def _is_missing(self) -> bool:
        """Whether a start will create the file."""
        return self.create and not self.path.exists()

    def _check_file(self, *, run: bool) -> None:
        if run and self.create:
            create_file(self.path)
        if not self.path.is_file() and not self._is_missing:
            message = f"SQLite database {self.path} does not exist"
            raise TargetError(message, remedy="set `path` right, create the file, or write create: if-missing")
        try:
            refuse_network_filesystem(self.path)
        except WalError as error:
            raise TargetError(error.message, remedy=error.remedy) from error

    def _made(
        self, maker: SchemaMigrator[Table, Binding]
    ) -> tuple[tuple[Table, SchemaMatch[Binding]] | None, tuple[str, ...]]:
        with translate_errors(f"sink {self.name}"), closing(SqliteStore(self.path)) as store:
            return maker.make(store)

    def _maker(self, connection: Connection, schema: pa.Schema) -> SchemaMigrator[Table, Binding]:
        fit = partial(self._fit, connection)
        return migrator_of(self, schema, TYPES, partial(find_table, connection, self.table), fit)

    def _fit(self, connection: Connection, table: Table, rows: tuple[RowColumn, ...]) -> SchemaMatch[Binding]:
        fit = bind(table, rows)
        if self.repeats:
            return replace(fit, wrong=(*fit.wrong, *repeat_problems(unique_keys(connection, table, fit))))
        if self.upsert is None:
            return fit
        merge = self.upsert.merge(fit.columns_of)
        return replace(fit, wrong=(*fit.wrong, *merge_problems(connection, table, fit, merge)))

    def _ahead(self, schema: pa.Schema | None, connection: Connection) -> Iterator[Finding]:
        """What a run would make."""
        maker = None if schema is None else partial(self._maker, connection, schema)
        return plan_findings(self, "target table", partial(find_table, connection, self.table), maker)

    @property
    def columns(self) -> Sequence[str]:
        return with_order(self.upsert, [each.name for each in self.bindings])

    @property
    def identity(self) -> str:
        """See TableSink. SQLite compares names without regard to case."""
        return folded(self.table)

    @property
    def partition_by(self) -> Sequence[str] | None:
        """See Sink. Any writer may have any row, but for those of one key: nothing is locked before it is applied."""
        return None if self.upsert is None else self.upsert.key

    @property
    def rejects_duplicates(self) -> bool:
        return False

    def writer(self, transaction: TransactionId, replaces: Committable | None = None) -> LogWriter:
        return log_writer(self.log, Stored(self.table, self.bindings), self.upsert, transaction, replaces)

    def row_writer(self, output: Output) -> RowWriter:
        """Return a writer of rows to an output. See TableSink."""
        return row_writer(Stored(self.table, self.bindings), self.upsert, output)

    def of_table(self, table: str, key: tuple[str, ...], settings: TableSettings) -> SqliteSink:
        """Return the sink of another table of the file. See TableSink."""
        return replace(self, **settings.over(self.name, table, key, self.upsert, self.renamed, self.declared))

    def direct_writer(self, transaction: TransactionId) -> SqliteDirectWriter:
        return SqliteDirectWriter(self.name, self.path, self.table, Stored(self.table, self.bindings), transaction)

    def committer(self, pipeline: str) -> LogCommitter:
        letters = self.letters.letters_table if self.letters is not None else None
        connect, slots = partial(SqliteStore, self.path), self.log.slots
        target = LogTarget(self.name, self.table, str(self.path), connect, slots, IDLE_S, letters, self.most_letters)
        if self.create:
            target = replace(target, create=partial(create_file, self.path))
        return LogCommitter(self.name, SqlLedger(target, pipeline), self.log.open())

    def letters_table(self) -> DeadLettersTable:
        """Open this sink of dead letters, whose table exists. Changes nothing. Raises TargetError."""
        _, bindings, _ = replace(self, create=False, evolve=False)._compared(SCHEMA)
        return DeadLettersTable(self.table, Stored(self.table, bindings), [each.name for each in bindings])

    def check(self, schema: pa.Schema | None, writers: int | None = None) -> Sequence[Finding]:
        """See Sink. Any number of writers will do: they write to the log."""
        del writers
        dry_run, merged = partial(self._ahead, schema), self.upsert is not None
        compare = None if schema is None else lambda: self._compared(schema)[0]
        missing = self._is_missing
        return [*self.log.check(), *findings(self.path, self.table, compare, dry_run, merged=merged, missing=missing)]

    def require_server(self) -> None:
        self._check_file(run=True)
        with self._reading() as connection:
            connection.exec_driver_sql("PRAGMA schema_version")  # reads the file

    def is_reserved(self, table: str) -> bool:
        of_letters = self.letters is not None and is_same_name(table, self.letters.table)
        return of_letters or folded(table).startswith("sqlite_")

    def check_server(self, writers: int | None) -> Sequence[Finding]:
        """Return the findings without a table. See TableSink."""
        return replace(self, table="").check(None, writers)

"""A SQLite table as a sink, `commit: write-ahead-log`: rows wait in segments and are applied a checkpoint at a time.

Exactly-once without two-phase commit: a checkpoint's rows and the witness that counts it are one local transaction.
Segments lie in a folder that tasks and driver share, so the tasks run on the driver's machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from connectors.contracts import Finding
from connectors.log.keyed import Upsert, check_upsert, log_writer
from connectors.log.place import LogPlace
from connectors.log.writer import LogWriter
from connectors.sql.fitting import row_columns
from connectors.sql.log.committer import LogCommitter, LogTarget
from connectors.sql.sqlite.check import findings
from connectors.sql.sqlite.columns import Binding
from connectors.sql.sqlite.database import Database
from connectors.sql.sqlite.store import IDLE_S, SqliteStore
from connectors.sql.sqlite.target import bind, check_unique, read_table
from connectors.sql.sqlite.values import Stored
from twophase.errors import TargetError
from twophase.ids import TransactionId
from wal.errors import WalError
from wal.filesystem import refuse_network_filesystem


@dataclass(frozen=True, slots=True)
class SqliteSink:
    """See Sink. Picklable; opens nothing by itself."""

    name: str
    path: Path  # of the database, which exists
    table: str  # exists, too
    log: LogPlace
    upsert: Upsert | None = None  # None: rows are added
    renamed: Mapping[str, str] = field(default_factory=dict)  # by column of the table, that of the rows
    bindings: tuple[Binding, ...] = ()  # of an opened sink

    def open(self, schema: pa.Schema) -> SqliteSink:
        """See Sink. Creates nothing, not even the file. Raises TargetError, SinkUnavailableError."""
        bindings = self._compared(schema)
        self.log.open()
        return replace(self, log=self.log.on_driver(), bindings=bindings)

    def _compared(self, schema: pa.Schema) -> tuple[Binding, ...]:
        rows = row_columns(self.name, schema, self.renamed, self.upsert)
        if self.upsert is not None:
            check_upsert(self.name, self.upsert, schema)
        if not self.path.is_file():
            message = f"SQLite database {self.path} does not exist"
            raise TargetError(message, remedy="create it with its table, or set `path` right")
        try:
            refuse_network_filesystem(self.path)
        except WalError as error:
            raise TargetError(error.message, remedy=error.remedy) from error
        with Database(self.path).reading() as connection:
            table = read_table(connection, self.table, schema)
            found = bind(table, rows)
            columns = {each.name: each.column for each in found.plans}
            if found.complaints:
                message = f"the rows do not fit table {table.name}: " + "; ".join(found.complaints)
                raise TargetError(message, remedy="change the table, or the columns in a transform")
            if self.upsert is not None:
                check_unique(connection, table, [columns.get(name, name) for name in self.upsert.key])
        return found.plans

    @property
    def columns(self) -> Sequence[str]:
        """See Sink."""
        bound = tuple(each.name for each in self.bindings)
        return bound if self.upsert is None else (*bound, *(each for each in self.upsert.columns if each not in bound))

    @property
    def partition_by(self) -> Sequence[str] | None:
        """See Sink. Any writer may have any row, but for those of one key: nothing is locked before it is applied."""
        return None if self.upsert is None else self.upsert.key

    def writer(self, transaction: TransactionId) -> LogWriter:
        """See Sink."""
        return log_writer(self.log, Stored(self.table, self.bindings), self.upsert, transaction)

    def committer(self, pipeline: str) -> LogCommitter:
        """See Sink."""
        target = LogTarget(
            self.name, self.table, str(self.path), partial(SqliteStore, self.path), self.log.slots, IDLE_S
        )
        return LogCommitter(target, pipeline, self.log.open())

    def check(self, schema: pa.Schema | None, writers: int | None = None) -> Sequence[Finding]:
        """See Sink. Any number of writers will do: they write to the log."""
        del writers
        compare = None if schema is None else lambda: self._compared(schema)
        return [*self.log.check(), *findings(self.path, self.table, compare)]

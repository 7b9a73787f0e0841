"""A SQLite table as a sink, `commit: write-ahead-log`: rows wait in segments and are applied a checkpoint at a time.

Exactly-once without two-phase commit: a checkpoint's rows and the witness that counts it are one local transaction.
Segments lie in a folder that tasks and driver share, so the tasks run on the driver's machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from connectors.contracts import Finding
from connectors.log.committer import LogCommitter
from connectors.log.keyed import Upsert, check_upsert, log_writer
from connectors.log.place import LogPlace
from connectors.log.writer import LogWriter
from connectors.sql.log.ledger import LogTarget, SqlLedger
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
    bindings: tuple[Binding, ...] = ()  # of an opened sink

    def open(self, schema: pa.Schema) -> SqliteSink:
        """See Sink. Creates nothing, not even the file. Raises TargetError, SinkUnavailableError."""
        if not self.path.is_file():
            message = f"SQLite database {self.path} does not exist"
            raise TargetError(message, remedy="create it with its table, or set `path` right")
        try:
            refuse_network_filesystem(self.path)
        except WalError as error:
            raise TargetError(error.message, remedy=error.remedy) from error
        self.log.open()
        with Database(self.path).reading() as connection:
            table = read_table(connection, self.table, schema)
            bindings = bind(table, schema if self.upsert is None else self.upsert.of_table(schema, table.columns))
            if self.upsert is not None:
                check_upsert(self.name, self.upsert, schema)
                check_unique(connection, table, bindings, self.upsert.key)
        return replace(self, log=self.log.on_driver(), bindings=bindings)

    @property
    def columns(self) -> Sequence[str]:
        """See Sink."""
        bound = tuple(each.column for each in self.bindings)
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
        return LogCommitter(self.name, SqlLedger(target, pipeline), self.log.open())

    def check(self, schema: pa.Schema | None, writers: int | None = None) -> Sequence[Finding]:
        """See Sink. Any number of writers will do: they write to the log."""
        del writers
        compare = None if schema is None else lambda: [each.column for each in self.open(schema).bindings]
        return [*self.log.check(), *findings(self.path, self.table, compare, merged=self.upsert is not None)]

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
from connectors.log.place import LogPlace
from connectors.log.writer import LogWriter
from connectors.sql.log.committer import LogCommitter, LogTarget
from connectors.sql.sqlite.check import findings
from connectors.sql.sqlite.columns import Binding
from connectors.sql.sqlite.database import Database
from connectors.sql.sqlite.store import IDLE_S, SqliteStore
from connectors.sql.sqlite.target import bind, read_table
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
        return replace(self, log=self.log.on_driver(), bindings=bind(table, schema))

    @property
    def columns(self) -> Sequence[str]:
        """See Sink."""
        return tuple(each.column for each in self.bindings)

    @property
    def partition_by(self) -> Sequence[str] | None:
        """See Sink. Any writer may have any row: nothing is locked before the one transaction."""
        return None

    def writer(self, transaction: TransactionId) -> LogWriter:
        """See Sink."""
        return LogWriter(self.log.open(), Stored(self.table, self.bindings), self.log.slots, transaction)

    def committer(self, pipeline: str) -> LogCommitter:
        """See Sink."""
        target = LogTarget(
            self.name, self.table, str(self.path), partial(SqliteStore, self.path), self.log.slots, IDLE_S
        )
        return LogCommitter(target, pipeline, self.log.open())

    def check(self, schema: pa.Schema | None, writers: int | None = None) -> Sequence[Finding]:
        """See Sink. Any number of writers will do: they write to the log."""
        del writers
        return [*self.log.check(), *findings(self.path, self.table, schema)]

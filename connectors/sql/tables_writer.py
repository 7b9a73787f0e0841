"""Rows of several tables, as a task writes them: all into one segment of the log.

A table whose rows have several schemas is opened once for each: a row sets the columns that its own schema has.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Protocol, Self

import pyarrow as pa

from connectors.api.contracts import Finding
from connectors.api.table_rows import TableChanges
from connectors.log.chunks import TablePart
from connectors.log.keyed_rows import flush_in_order
from connectors.log.place import LogPlace
from connectors.log.segments import committable
from connectors.log.writer import Output, RowWriter, Segment
from connectors.sql.table_settings import TableSettings
from eos.errors import BadRowError
from twophase import faults
from twophase.ids import TransactionId
from twophase.participants import Committer
from twophase.values import Committable

MOST_SCHEMAS: Final = 10_000
"""Schemas of rows that a sink learns between two starts: more could fill the memory of the driver and of each task."""
_TOPIC: Final = b"eos.topic"


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
    def learns_at_once(self) -> int:
        """Tables that may be opened at once, each with a connection."""

    @property
    def identity(self) -> str:
        """Equal for two names of one table, such as `orders` and `public.orders`. Only an opened sink has it."""

    def of_table(self, table: str, key: tuple[str, ...], settings: TableSettings) -> Self:
        """Return the sink of this table, with its settings in place of the common settings.

        `key`: of the records. Raises TargetError.
        """

    def require_server(self) -> None:
        """Open a session and compare the server's settings with the needs of exactly-once.

        Raises TargetError, which no table and no row has caused; SinkUnavailableError.
        """

    def is_reserved(self, table: str) -> bool:
        """Return whether a table has the dead letters, or is SQLite's own: records must not choose it."""

    def open(self, schema: pa.Schema) -> Self:
        """Compare the table with the rows, and create or change it if the spec allows it. See Sink."""

    def dry_run(self, schema: pa.Schema) -> Sequence[str]:
        """Return the columns that `open` would write. Changes nothing. See Sink."""

    def row_writer(self, output: Output) -> RowWriter:
        """Return a writer of rows to an output. Only an opened sink has it."""

    def committer(self, pipeline: str) -> Committer:
        """Return the committer of the log. See Sink."""

    def check_server(self, writers: int | None) -> Sequence[Finding]:
        """Return the findings about the server and the log, without a table."""


@dataclass(slots=True)
class KnownTables:
    """The tables that a sink knows so far, by the schema of the rows. Travels to the tasks with the sink.

    It is pickled once after each change, and a worker loads it once: with 500 tables each takes 0.1 s.
    """

    opened: dict[bytes, tuple[str, TableSink]] = field(default_factory=dict)
    refused: dict[bytes, str] = field(default_factory=dict)  # why rows have no table
    further: str = ""  # why rows of an unknown schema have no table; empty while the sink learns schemas
    _pickled: bytes = b""  # as it is now; empty: it has changed

    @property
    def count(self) -> int:
        """Schemas that are known."""
        return len(self.opened) + len(self.refused)

    def add(self, schema: bytes, table: str, sink: TableSink) -> None:
        """Learn the table of rows, and its opened sink."""
        self.opened[schema] = table, sink
        self._pickled = b""

    def refuse(self, schema: bytes, reason: str) -> None:
        """Learn that rows have no table."""
        self.refused[schema] = reason
        self._pickled = b""

    def refuse_further(self, reason: str) -> None:
        """Learn no further schemas."""
        self.further = reason
        self._pickled = b""

    def __reduce__(self) -> tuple[Callable[[bytes], KnownTables], tuple[bytes]]:
        if not self._pickled:
            self._pickled = pickle.dumps((self.opened, self.refused, self.further))
        return _unpickled_tables, (self._pickled,)


def _unpickled_tables(pickled: bytes) -> KnownTables:
    opened, refused, further = _loaded(pickled)
    return KnownTables({**opened}, {**refused}, further, pickled)


@lru_cache(maxsize=4)
def _loaded(pickled: bytes) -> Any:
    return pickle.loads(pickled)


def schema_of(rows: pa.RecordBatch) -> pa.Schema:
    """Return the schema of rows of one topic, with the topic."""
    topic = rows.column("_topic")[0].as_py()
    return rows.schema.with_metadata({**(rows.schema.metadata or {}), _TOPIC: topic.encode()})


def topic_of(schema: pa.Schema) -> str:
    """Return the topic of rows that a `TablesWriter` wants a table for."""
    metadata: dict[bytes, bytes] = schema.metadata or {}
    return metadata.get(_TOPIC, b"").decode()


class TablesWriter:
    """A writer of a task's rows of all tables, into one segment. See Writer and MultiTableWriter."""

    def __init__(self, tables: KnownTables, segment: Segment, slots: int, transaction: TransactionId) -> None:
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
        schema = schema_of(batch)
        known = schema.serialize().to_pybytes()
        if known in self._tables.refused:
            raise BadRowError(self._tables.refused[known])
        if known not in self._tables.opened:
            if self._tables.further:
                raise BadRowError(self._tables.further)
            if len(self._wanted) <= MOST_SCHEMAS:  # one more: the sink then learns no further ones
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

"""Rows of several tables in one pipeline: batches that name their table, and sinks that get to know their tables.

A source whose records bring their own schema yields batches with the columns of the records. The name of the table and
its key are in the metadata of the batch's schema, so the batch passes through every function that takes batches.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

import pyarrow as pa

from connectors.api.contracts import METADATA, Source

_NAME: Final = b"eos.table"
_KEY: Final = b"eos.table.key"


def with_table(schema: pa.Schema, name: str, key: tuple[str, ...]) -> pa.Schema:
    """Return the schema of batches of this table. `name`, `key`: see `TableRows`."""
    return schema.with_metadata({_NAME: name.encode(), _KEY: json.dumps(key).encode()})


def table_of(schema: pa.Schema) -> tuple[str, tuple[str, ...]]:
    """Return the name and the key columns of a batch; both empty if its source has one schema."""
    metadata = schema.metadata or {}
    return metadata.get(_NAME, b"").decode(), tuple(json.loads(metadata.get(_KEY, b"[]")))


def source_of_tables(source: Source, columns: Sequence[str]) -> Source:
    """Return the source of the rows for a `MultiTableSink`: these columns, and all columns of the records."""
    return source.select([name for name in source.schema.names if name in columns or name not in METADATA])


@runtime_checkable
class TableChanges(Protocol):
    """An optional part of a sink that creates or changes its table. The driver reports the statements.

    Implemented by: a connector, in its `Sink`. Called by: the driver, once after `Sink.open`. Does not block.
    """

    @property
    def ran(self) -> Sequence[str]:
        """The statements by which `open` has created or changed the table; empty if it was as the rows need it."""


@dataclass(frozen=True, slots=True)
class TableChange:
    """A statement by which a sink has created or changed one of its tables."""

    table: str
    statement: str
    topic: str  # whose records need it


@runtime_checkable
class MultiTableSink(Protocol):
    """An optional part of a sink: it has a table for each kind of rows, which it gets to know by the rows.

    Implemented by: a connector, in its `Sink`. Called by: the driver.

    Call order: a task whose writer has `wanted` schemas prepares nothing. The driver then calls `learn` with the
    schemas of all tasks, and runs the tasks once more with the sink as it is then.

    Blocking: `learn` blocks on the service.

    Raises: as `Sink.open`.

    Rule: `learn` only adds tables and columns, and widens columns. So it does no harm in a checkpoint that is aborted,
    or if two drivers call it.
    """

    def learn(self, wanted: Sequence[pa.Schema], report: Callable[[TableChange], None]) -> None:
        """Find the tables of these schemas. Creates or changes them if the spec allows it, and reports each change.

        Raises TargetError for rows that do not fit, SinkUnavailableError if the service does not answer.
        """

    def rows_by_table(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the rows of each table, for `dry_run_table` and for a writer. Does not block.

        `rows`: of one topic and one schema. Called by: tasks, once per batch; `eos preview`.
        """

    def dry_run_table(self, rows: pa.RecordBatch) -> tuple[str, Sequence[str]]:
        """Return the table of rows, and the columns that a run would write, in their order. Changes nothing.

        `rows`: of one table, as `rows_by_table` gives them. Raises as `learn`. Called by: `eos preview`.
        """


@runtime_checkable
class MultiTableWriter(Protocol):
    """The task-side half of a `MultiTableSink`. See `Writer`."""

    @property
    def wanted(self) -> Sequence[pa.Schema]:
        """The schemas of rows that were written so far and that the sink does not know, for `MultiTableSink.learn`.

        If there are any, `abort` follows, and not `prepare`.
        """

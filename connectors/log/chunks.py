"""Segments with the rows of several tables: each row of such a segment is a *chunk*, rows of one table.

A chunk is an Arrow IPC stream. Its schema names the table, and has the metadata by which the rows are applied, as the
schema of any other segment has. So a segment has one schema, one checksum and one name, for any number of tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, groupby
from typing import Final

import pyarrow as pa

from connectors.log.writer import Segment

_TABLE: Final = b"table"
_CHUNK_BYTES: Final = 16 * 1024 * 1024
"""Target size of a chunk. A chunk has at least one row."""

SCHEMA: Final = pa.schema([pa.field("rows", pa.large_binary(), nullable=False)], metadata={b"chunks": b"1"})


class TablePart:
    """Implements Output by the chunks of one table in a segment that other tables share."""

    def __init__(self, segment: Segment, table: str) -> None:
        self._segment = segment
        self._table = table
        self._schema: pa.Schema | None = None

    def begin(self, schema: pa.Schema) -> None:
        if self._schema is None:
            self._segment.begin(SCHEMA)
            self._schema = schema.with_metadata({**(schema.metadata or {}), _TABLE: self._table.encode()})

    def write(self, batch: pa.RecordBatch) -> None:
        assert self._schema is not None, "not begun"
        rows = max(1, batch.num_rows * _CHUNK_BYTES // max(1, batch.nbytes))
        for start in range(0, batch.num_rows, rows):
            stream = pa.BufferOutputStream()
            with pa.ipc.new_stream(stream, self._schema) as writer:
                writer.write_batch(batch.slice(start, rows).replace_schema_metadata(self._schema.metadata))
            chunk = pa.array([stream.getvalue().to_pybytes()], pa.large_binary())
            self._segment.write(pa.record_batch([chunk], schema=SCHEMA))


def table_in(schema: pa.Schema) -> str | None:
    """Return the table that rows of a chunk are for; None for rows of a segment of one table."""
    table = (schema.metadata or {}).get(_TABLE)
    return None if table is None else table.decode()


def by_table(segments: Iterator[Iterator[pa.RecordBatch]]) -> Iterator[Iterator[pa.RecordBatch]]:
    """Yield the rows of the segments of one sink and checkpoint, in groups of one schema. Reads one segment at a time.

    Segments of one table are one group together. Chunks of two segments are never in one group: both segments
    may have rows of one key. All segments are of one kind. A segment may be empty, if each row of its task was refused.
    """
    for first in segments:
        row = next(first, None)
        if row is not None:
            break
    else:
        return
    if not row.schema.equals(SCHEMA, check_metadata=True):
        yield chain([row], first, chain.from_iterable(segments))
        return
    yield from _groups(chain([row], first))
    for segment in segments:
        yield from _groups(segment)


def _groups(chunks: Iterator[pa.RecordBatch]) -> Iterator[Iterator[pa.RecordBatch]]:
    for _, batches in groupby(_unpacked(chunks), lambda batch: batch.schema.serialize().to_pybytes()):
        yield batches


def _unpacked(chunks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in chunks:
        for chunk in batch.column(0):
            with pa.ipc.open_stream(chunk.as_buffer()) as stream:
                yield from stream

"""Rows of segments into the table, inside the transaction of the caller, and counted."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyarrow import types
from sqlalchemy import Connection

from connectors.sql.sqlite.log import segment_of
from twophase.errors import BadRowError
from twophase.values import Committable
from wal.segment import read_segment
from wal.storage import Storage


def apply_segments(connection: Connection, storage: Storage, table: str, committables: Sequence[Committable]) -> None:
    """Insert every row of every segment, each verified before its first row.

    Raises WalError (SegmentMissingError among them) and BadRowError; the caller rolls back.
    """
    for each in committables:
        ref = segment_of(each)
        if ref is not None:
            inserted = sum(_insert(connection, table, batch) for batch in read_segment(storage, ref))
            _check_count(table, ref.name, expected=ref.rows, found=inserted)


def _insert(connection: Connection, table: str, batch: pa.RecordBatch) -> int:
    if not batch.num_rows:
        return 0
    quote = connection.dialect.identifier_preparer.quote_identifier
    names = ", ".join(quote(name) for name in batch.schema.names)
    marks = ", ".join("?" * batch.num_columns)
    # OR ABORT overrides a conflict clause of the table's own, which could drop or replace rows in silence.
    statement = f"INSERT OR ABORT INTO {quote(table)} ({names}) VALUES ({marks})"
    rows = list(zip(*(_values(column) for column in batch.columns), strict=True))
    return connection.exec_driver_sql(statement, rows).rowcount


def _values(array: pa.Array) -> list[object]:
    """Python values of one column, made by NumPy in one go where that keeps them as they are."""
    number = types.is_integer(array.type) or types.is_floating(array.type)
    slow = number and array.null_count  # NumPy has no NULL for them: integers would become floats
    values: list[object] = array.to_pylist() if slow else array.to_numpy(zero_copy_only=False).tolist()
    return values


def _check_count(table: str, segment: str, *, expected: int, found: int) -> None:
    if expected != found:
        message = f"table {table} took {found} of {expected} rows of segment {segment}"
        raise BadRowError(message, remedy="a trigger of the table leaves rows out: change it and start again")

"""Which rows must come to one writer: two tasks of one checkpoint must never hold the same key (R5, H15).

The second would wait for the lock of the first, which ends with a commit that waits for both. So rows are shared out by
columns that all unique indexes have in common, in which what is equal for the server is equal for Spark's hash.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa
from pyarrow import types

from connectors.sql.kinds import is_bytes, is_text
from connectors.sql.postgres.target import Target, TargetColumn, UniqueIndex


def _is_number(kind: pa.DataType) -> bool:
    """Decimals of one type are all written with the same digits."""
    return bool(types.is_integer(kind) or types.is_decimal(kind))


_EXACT: Final[Mapping[str, Callable[[pa.DataType], bool]]] = {
    **dict.fromkeys(("int2", "int4", "int8", "numeric"), _is_number),
    "bool": types.is_boolean,
    **dict.fromkeys(("text", "varchar", "enum"), is_text),  # by a deterministic collation: equal byte by byte
    "bytea": is_bytes,
    "date": types.is_date,
    **dict.fromkeys(("timestamp", "timestamptz"), types.is_timestamp),
}
"""Types of columns, and of the rows for them. Not floats (`-0` is `0`), CHAR or UUID, which know no case."""

EXACT_TYPES: Final = (
    "a whole number, NUMERIC, TEXT, VARCHAR, UUID, an enum, BYTEA, DATE, TIMESTAMP or BOOLEAN, written in its own type"
)


def partition_columns(target: Target, rows: Mapping[str, tuple[str, pa.DataType]]) -> tuple[str, ...] | None:
    """As Sink.partition_by. `rows`: by column of the table, name and type of what is written."""
    columns = {column.name: column for column in target.columns}
    indexes = repeating_keys(target, rows)
    if not indexes:
        return None
    exact = [[name for name in index.columns if name and _is_exact(index, columns[name], rows)] for index in indexes]
    first, *others = exact
    return tuple(rows[name][0] for name in first if all(name in other for other in others))


def repeating_keys(target: Target, rows: Mapping[str, tuple[str, pa.DataType]]) -> list[UniqueIndex]:
    """The unique indexes that could meet one key twice."""
    columns = {column.name: column for column in target.columns}
    return [index for index in target.unique if not _never_equal(index, columns, rows)]


def _never_equal(
    index: UniqueIndex, columns: Mapping[str, TargetColumn], rows: Mapping[str, tuple[str, pa.DataType]]
) -> bool:
    """A counter does not repeat, and NULL is no key at all, where the rows do not give the column."""
    missing = [columns[name] for name in index.columns if name and name not in rows]
    return any(column.automatic or (index.exact and column.nullable and not column.filled) for column in missing)


def _is_exact(index: UniqueIndex, column: TargetColumn, rows: Mapping[str, tuple[str, pa.DataType]]) -> bool:
    return index.exact and column.name in rows and is_exact(column, rows[column.name][1])


def is_exact(column: TargetColumn, kind: pa.DataType) -> bool:
    """Whether values of it that are equal for the server, by an exact index, are equal for Spark, and in the log."""
    test = _EXACT.get(column.type)
    return test is not None and test(kind)

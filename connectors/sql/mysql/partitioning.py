"""Which rows must come to one writer: two tasks of one checkpoint must never hold the same key (R5, H15).

The second would wait for the lock of the first, which ends with a commit that waits for both. So whatever the server
holds for one key must be equal for Spark's hash, too. That is certain only where values arrive unaltered and are
compared digit by digit or byte by byte. Collations, padding, prefixes, expressions and signed zeros make one key of two
values, and a column that the rows do not give says nothing about them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyarrow import types

from connectors.sql.kinds import is_bytes, is_text
from connectors.sql.mysql.target import Target, TargetColumn, UniqueIndex
from connectors.sql.partitioning import Partitioning

_EXACT_COLLATIONS: Final = frozenset({"utf8mb4_0900_bin", "utf8mb4_nopad_bin"})
"""By code point and without PAD SPACE; `utf8mb4_bin` pads: `a` and `a ` are one key."""

_Test = Callable[[pa.DataType], bool]
_NUMBERS: Final[tuple[_Test, ...]] = (types.is_integer, types.is_boolean, types.is_decimal)
_STRINGS: Final[tuple[_Test, ...]] = (is_text, is_bytes)
_EXACT: Final[dict[str, tuple[_Test, ...]]] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "decimal"), _NUMBERS),
    "varchar": _STRINGS,
    "varbinary": _STRINGS,
    "date": (types.is_date,),
    **dict.fromkeys(("datetime", "timestamp"), (types.is_date, types.is_timestamp)),
}
"""Types of columns, and of the rows for them. Not CHAR, which drops spaces at the end, nor BINARY, which adds zeros."""

EXACT_TYPES: Final = (
    "written in its own type: a whole number, DECIMAL, DATE, DATETIME, TIMESTAMP, VARBINARY, or VARCHAR with the"
    " collation utf8mb4_0900_bin (MySQL) or utf8mb4_nopad_bin (MariaDB)"
)
REMEDY: Final = (
    "this is correct, and slower; for several writers all unique indexes need one column in common, " + EXACT_TYPES
)


def partitioning(target: Target, rows: Mapping[str, tuple[str, pa.DataType | None]]) -> Partitioning:
    """Rows that are one key in an index are equal in its exact columns; so they are in those that all indexes share.

    Args:
        target: the table.
        rows: by column of the table, name and type of what is written; None is a type that fits the column exactly.
    """
    indexes = repeating_keys(target, rows)
    if not indexes:
        return Partitioning()
    exact = {name: [part.name for part in parts if part.name and part.exact] for name, parts in indexes.items()}
    first, *others = exact.values()
    common = tuple(name for name in first if all(name in other for other in others))
    if common:
        return Partitioning(common)
    for index, names in exact.items():
        if not names:
            what = f"{index} ({', '.join(map(str, indexes[index]))})"
            return Partitioning((), f"keys of unique index {what} can be equal for the server and not for Spark")
    what = ", ".join(f"{index} ({', '.join(names)})" for index, names in exact.items())
    return Partitioning((), f"the unique indexes {what} have no column in common")


def repeating_keys(target: Target, rows: Mapping[str, tuple[str, pa.DataType | None]]) -> dict[str, list[_Part]]:
    """The unique indexes that could meet one key twice, by name."""
    every = {index.name: _parts(index, target, rows) for index in target.unique}
    return {name: parts for name, parts in every.items() if not any(part.never_equal for part in parts)}


def is_exact(column: TargetColumn, kind: pa.DataType | None) -> bool:
    """Whether values of it that are equal for the server are equal for Spark, too, and in the log.

    `kind`: of the rows; None: one that fits exactly.
    """
    if column.type == "varchar" and column.collation not in _EXACT_COLLATIONS:
        return False
    return any(kind is None or test(kind) for test in _EXACT.get(column.type, ()))


def partitioning_of_table(target: Target) -> Partitioning:
    """As far as the table alone tells: the rows give every column that the server does not fill by itself."""
    return partitioning(target, {c.name: (c.name, None) for c in target.columns if not (c.automatic or c.generated)})


@dataclass(frozen=True, slots=True)
class _Part:
    """One part of an index, with what is known about it."""

    whole: bool
    column: TargetColumn | None  # None: an expression
    name: str | None  # in the rows; None: they do not give it
    kind: pa.DataType | None

    @property
    def never_equal(self) -> bool:
        """A counter does not repeat, and NULL is no key at all."""
        column = self.column
        if column is None or self.name is not None:
            return False
        return column.automatic or (column.nullable and not column.filled and not column.generated)

    @property
    def exact(self) -> bool:
        """Whether values that are equal for the server are equal for Spark."""
        return self.column is not None and self.name is not None and self.whole and is_exact(self.column, self.kind)

    def __str__(self) -> str:
        column = self.column
        if column is None:
            return "an expression"
        if not self.whole:
            return f"the beginning of {column.name}"
        if self.name is None:
            return f"{column.name}, which the rows do not give"
        given = f"given as {self.kind}" if self.kind is not None else ""
        return " ".join(word for word in (column.name, column.declared, column.collation, given) if word)


def _parts(index: UniqueIndex, target: Target, rows: Mapping[str, tuple[str, pa.DataType | None]]) -> list[_Part]:
    columns = {column.name.lower(): column for column in target.columns}  # as MySQL compares column names
    given = {column.lower(): row for column, row in rows.items()}
    parts = []
    for part in index.parts:
        key = (part.column or "").lower()
        name, kind = given.get(key, (None, None))
        parts.append(_Part(part.whole, columns.get(key), name, kind))
    return parts

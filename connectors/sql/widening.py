"""Columns of a table that a start gives wider types: `evolve: add-and-widen`.

A wider type is of the same family and holds all values of the column and of the rows. So no stored value changes, and
the values that an older driver writes for the narrower column fit the wider one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from connectors.sql.schema_match import Plan, RowColumn, SchemaMatch, TableColumn, pair_columns

_Table = TypeVar("_Table")
_Plan = TypeVar("_Plan", bound=Plan)
_Column = TypeVar("_Column", bound=TableColumn)


class Widener(Protocol[_Table]):
    """The wider types of one database, and the statement that sets them."""

    def widened(self, table: _Table, rows: Sequence[RowColumn]) -> _Table:
        """Return the table with a wider type in each column that does not hold all values of its rows.

        An equal table: nothing can be wider, or has to be. Sends no query.
        """

    def statement(self, table: _Table, wider: _Table) -> str:
        """Return the statement that turns `table` into `wider`, a format string. Raises TargetError, StatementError."""

    def lock(self, table: _Table) -> AbstractContextManager[None]:
        """Keep other drivers from changing the table's columns meanwhile. Waits, and raises StatementError.

        A driver that looked before another one widened the table could narrow it.
        """


@dataclass(frozen=True, slots=True)
class TableWidening(Generic[_Table, _Plan]):
    """The wider types that the columns of one table need for its rows."""

    widener: Widener[_Table]
    rows: tuple[RowColumn, ...]
    kept: Collection[str]  # columns of the rows whose type the spec declares: it may be narrow on purpose
    fit: Callable[[_Table, tuple[RowColumn, ...]], SchemaMatch[_Plan]]  # compares rows with a table

    def widened(self, seen: tuple[_Table, SchemaMatch[_Plan]]) -> tuple[_Table, SchemaMatch[_Plan]]:
        """Return the table as `statements` would leave it. Sends no query that changes it."""
        wider = self.widener.widened(seen[0], [row for row in self.rows if row.name not in self.kept])
        return seen if wider == seen[0] else (wider, self.fit(wider, self.rows))

    def is_due(self, seen: tuple[_Table, SchemaMatch[_Plan]]) -> bool:
        """Return whether a column is too narrow, and the wider table takes the rows. Sends no query."""
        wider, fit = self.widened(seen)
        return wider != seen[0] and not fit.wrong

    def statements(self, seen: tuple[_Table, SchemaMatch[_Plan]]) -> list[str]:
        """Return the one statement for all columns: a server rewrites the table once. Empty if none is due.

        It may need the table's definition from the server, which agrees with `seen` for certain only under the lock.
        """
        return [self.widener.statement(seen[0], self.widened(seen)[0])] if self.is_due(seen) else []


def alter_columns(
    table: str, columns: Sequence[_Column], wider: Sequence[_Column], clause: Callable[[_Column, _Column], str]
) -> str:
    """Return the one statement for all columns that differ. `clause`: for a column and its wider form."""
    changes = [clause(old, new) for old, new in zip(columns, wider, strict=True) if old != new]
    return f"ALTER TABLE {table} {', '.join(changes)}"


def widen_columns(
    rows: Sequence[RowColumn],
    columns: Sequence[_Column],
    unique: Collection[str | None],
    wider: Callable[[pa.DataType, _Column, bool], _Column | None],
) -> tuple[_Column, ...]:
    """Return the columns of a table, each as wide as its rows need.

    Args:
        rows: the columns of the rows.
        columns: the columns of the table.
        unique: names of the columns that are in a unique index.
        wider: returns the wider column of the rows' type and a column; None if the column stays as it is. The last
            argument: whether the column is in a unique index.
    """
    found = {column.name: wider(row.kind, column, column.name in unique) for row, column in pair_columns(rows, columns)}
    return tuple(found.get(column.name) or column for column in columns)

"""Comparison of the rows' columns with a table's columns. Called on the driver, at a start.

The spec's `columns:` renames here, on the schema alone: writers go on taking rows by the names that these have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Generic, Protocol, TypeVar

import pyarrow as pa
from pyarrow import types

from connectors.api.contracts import EVENT_METADATA, METADATA
from connectors.log.keyed import Upsert
from eos.errors import TargetError

_SHOWN: Final = 20
"""Missing columns that are named. Records that bring their schema may have 30,000, and each is compared with all."""


@dataclass(frozen=True, slots=True)
class RowColumn:
    """One column of the rows on its way to the table."""

    name: str  # in the rows
    column: str  # in the table
    type: pa.DataType  # of its values
    nullable: bool
    optional: bool  # a table may leave it out: metadata, and what only says that a key goes

    @property
    def kind(self) -> pa.DataType:
        """Its type, however the values are packed."""
        return self.type.value_type if types.is_dictionary(self.type) else self.type


def row_columns(
    sink: str, schema: pa.Schema, renamed: Mapping[str, str], upsert: Upsert | None
) -> tuple[RowColumn, ...]:
    """The columns of the rows, in their order. Raises TargetError where the spec's `columns` does not fit them.

    `renamed`: by column of the table, that of the rows; any other keeps its name.
    """
    to_table = {name: column for column, name in renamed.items()}
    merged = set() if upsert is None else {upsert.deleted}
    stored = set() if upsert is None else {upsert.deleted_at, upsert.order_by}
    dispensable = (METADATA | EVENT_METADATA | merged) - stored
    rows = tuple(
        RowColumn(
            name=field.name,
            column=to_table.get(field.name, field.name),
            type=field.type,
            nullable=field.nullable,
            optional=field.name in dispensable and field.name not in to_table,
        )
        for field in schema
    )
    if wrong := [*_unknown(schema.names, renamed), *_collisions(rows)]:
        message = f"sink {sink}: `columns` does not fit the rows: " + "; ".join(wrong)
        raise TargetError(message, remedy="write `columns` as {column of the table: column of the rows}")
    return rows


def _unknown(names: Sequence[str], renamed: Mapping[str, str]) -> Iterable[str]:
    for column, name in renamed.items():
        if name not in names:
            near = get_close_matches(name, names, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield f"the rows have no column {name} for the table's {column}{hint}"


def _collisions(rows: Iterable[RowColumn]) -> Iterable[str]:
    """Where what keeps its name meets what is given that name."""
    first: dict[str, RowColumn] = {}
    for row in rows:
        other = first.setdefault(row.column.lower(), row)
        if other is not row and {row.name, other.name} != {row.column, other.column}:
            yield f"{other.name} and {row.name} of the rows both go to the table's column {row.column}"


class TableColumn(Protocol):
    """What is asked of a table's column, whichever database it is in."""

    @property
    def name(self) -> str:
        """Name of the column as declared."""

    @property
    def required(self) -> bool:
        """NOT NULL, and nothing fills it in where the rows do not give it."""


class Plan(Protocol):
    """How a column of the rows is written."""

    @property
    def name(self) -> str:
        """In the rows."""

    @property
    def column(self) -> str:
        """In the table, as declared there."""


_Column = TypeVar("_Column", bound=TableColumn)
_Plan = TypeVar("_Plan", bound=Plan)


@dataclass(frozen=True, slots=True)
class SchemaMatch(Generic[_Plan]):
    """How the rows stand to a table."""

    plans: tuple[_Plan, ...]  # of the columns to write, in the order of the rows
    lacking: tuple[RowColumn, ...]  # those that the table does not have
    wrong: tuple[str, ...]  # everything else that does not fit
    names: tuple[str, ...]  # of the table's columns
    rows: tuple[RowColumn, ...]

    def columns_of(self, names: Iterable[str]) -> tuple[str, ...]:
        """Columns of the rows by the names that the table has for them, or would have."""
        known = {row.name: row.column for row in self.rows} | {plan.name: plan.column for plan in self.plans}
        return tuple(known.get(name, name) for name in names)

    @property
    def problems(self) -> list[str]:
        """All that keeps the rows from being written."""
        shown, more = self.lacking[:_SHOWN], len(self.lacking) - _SHOWN
        left = [f"{more} further columns are missing in the table"] if more > 0 else []
        return [*self.wrong, *(_lacks(row, self.names) for row in shown), *left]


def match_columns(
    rows: tuple[RowColumn, ...], columns: Sequence[_Column], plan: Callable[[RowColumn, _Column], _Plan | str]
) -> SchemaMatch[_Plan]:
    """Give each column of the rows its column of the table.

    Args:
        rows: what is to be written.
        columns: the table's.
        plan: how values of the one are written into the other; or why they cannot be.
    """
    pairs = {row.name: column for row, column in pair_columns(rows, columns)}
    taken = {column.name for column in pairs.values()}
    plans: list[_Plan] = []
    lacking, wrong = [], []
    for row in rows:
        column = pairs.get(row.name)
        if column is not None:
            planned = plan(row, column)
            if isinstance(planned, str):
                wrong.append(planned)
            else:
                plans.append(planned)
        elif not row.optional:
            lacking.append(row)
    wrong += [
        f"column {column.name!r} of the table is NOT NULL without a default, and the rows do not give it"
        for column in columns
        if column.required and column.name not in taken
    ]
    if not (plans or lacking or wrong):
        wrong.append("the rows have no column of the table")
    return SchemaMatch(tuple(plans), tuple(lacking), tuple(wrong), tuple(column.name for column in columns), rows)


def pair_columns(rows: Sequence[RowColumn], columns: Sequence[_Column]) -> list[tuple[RowColumn, _Column]]:
    """Return the columns of the rows that the table has, each with its column of the table.

    A name is taken as it is written, else without regard to case, as all of these databases' users expect.
    """
    left = {column.name: column for column in columns}
    known = {name.lower() for name in left}  # rows may have very many columns that the table lacks
    found = (
        (row, left.pop(row.column, None) or _folded(left, row.column)) for row in rows if row.column.lower() in known
    )
    return [(row, column) for row, column in found if column is not None]


def _folded(left: dict[str, _Column], name: str) -> _Column | None:
    for each in left:
        if each.lower() == name.lower():
            return left.pop(each)
    return None


def _lacks(row: RowColumn, names: Sequence[str]) -> str:
    of_rows = "" if row.name == row.column else f", which takes {row.name!r} of the rows"
    near = get_close_matches(row.column.lower(), [name.lower() for name in names], n=1)
    hint = f"; did you mean {next(name for name in names if name.lower() == near[0])!r}?" if near else ""
    return f"column {row.column!r} is missing in the table{of_rows}{hint}"

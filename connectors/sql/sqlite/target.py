"""The target table as it is, and whether rows fit it. Read on the driver, before anything else is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import pyarrow as pa
from sqlalchemy import Connection, text
from sqlalchemy.dialects import sqlite

from connectors.sql.fitting import Fit, RowColumn, fit
from connectors.sql.kinds import METADATA
from connectors.sql.log.merging import check_indexes
from connectors.sql.sqlite.columns import Binding, TargetColumn, form_of, suggested_type
from twophase.errors import TargetError

_quote = sqlite.dialect().identifier_preparer.quote_identifier


@dataclass(frozen=True, slots=True)
class Table:
    """A table and its columns, in its order."""

    name: str
    columns: tuple[TargetColumn, ...]


def read_table(connection: Connection, name: str, schema: pa.Schema | None) -> Table:
    """The table's definition. Raises TargetError if it is missing, with the nearest name and a CREATE TABLE.

    SQLAlchemy's reflection gives a type of its own for each column; affinity needs the declared text, hence the pragma.
    """
    tables = connection.execute(text("SELECT name FROM sqlite_schema WHERE type = 'table'")).scalars().all()
    if name.lower() not in {each.lower() for each in tables}:
        raise _missing(name, [each for each in tables if not each.startswith(("eos_", "sqlite_"))], schema)
    rows = connection.execute(
        text('SELECT name, type, "notnull", dflt_value IS NOT NULL, pk, hidden FROM pragma_table_xinfo(:name)'),
        {"name": name},
    ).all()
    keys = sum(1 for row in rows if row[4])
    columns = []
    for column, declared, not_null, has_default, key, hidden in rows:
        generated = hidden in (2, 3)  # virtual, stored: https://sqlite.org/pragma.html#pragma_table_xinfo
        filled = has_default or generated or (keys == 1 and key and declared.upper() == "INTEGER")
        columns.append(TargetColumn(column, declared, not not_null, bool(not_null) and not filled, generated))
    return Table(name, tuple(columns))


def bind(table: Table, rows: Iterable[RowColumn]) -> Fit[Binding]:
    """Bind each column of the rows to one of the table, and say everything that does not fit."""
    return fit(rows, table.columns, _binding)


def check_unique(connection: Connection, table: Table, key: Sequence[str]) -> None:
    """Whether rows can be merged by this key. Raises TargetError."""
    unique = {"the primary key": _primary_key(connection, table.name)}
    lists = text("SELECT name, partial FROM pragma_index_list(:table) WHERE \"unique\" AND origin <> 'pk'")
    for name, partial in connection.execute(lists, {"table": table.name}).all():
        columns = text("SELECT name FROM pragma_index_info(:name)")
        found = connection.execute(columns, {"name": name}).scalars().all()
        unique[name] = [None] if partial else list(found)
    if problems := check_indexes(key, {name: columns for name, columns in unique.items() if columns}):
        message = f"table {table.name} cannot be merged into: " + "; ".join(problems)
        raise TargetError(message, remedy="change the table, or `key`")


def _primary_key(connection: Connection, table: str) -> list[str | None]:
    rows = connection.execute(text("SELECT name FROM pragma_table_info(:table) WHERE pk"), {"table": table})
    return list(rows.scalars().all())


def _binding(row: RowColumn, column: TargetColumn) -> Binding | str:
    if column.generated:
        return f"column {column.name!r} of the table is generated and cannot be written"
    form = form_of(row.type, column.affinity)
    if form is None:
        declared, better = column.declared or "no type", suggested_type(row.type)
        return f"column {column.name!r} ({declared}) would change values of {row.type}: declare it {better}"
    # An INTEGER PRIMARY KEY takes NULL for "the next number", and says that it is nullable.
    return Binding(row.name, column.name, row.type, form, column.nullable)


def _missing(name: str, tables: Sequence[str], schema: pa.Schema | None) -> TargetError:
    near = get_close_matches(name, tables, n=1)
    message = f"table {name} does not exist" + (f"; did you mean {near[0]}?" if near else "")
    return TargetError(message, remedy=f"create it: {suggested_table(name, schema)}" if schema else "create it")


def suggested_table(name: str, schema: pa.Schema) -> str:
    """A CREATE TABLE that takes the rows, without the metadata columns."""
    fields = [field for field in schema if field.name not in METADATA]
    columns = ", ".join(f"{_quote(field.name)} {suggested_type(field.type)}" for field in fields)
    return f"CREATE TABLE {_quote(name)} ({columns})"

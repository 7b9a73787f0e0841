"""The target table as it is, and whether rows fit it. Read on the driver, before anything else is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import pyarrow as pa
from sqlalchemy import Connection, text
from sqlalchemy.dialects import sqlite

from connectors.sql.kinds import METADATA
from connectors.sql.log.merging import check_key
from connectors.sql.sqlite.columns import Binding, Form, TargetColumn, form_of, suggested_type
from twophase.errors import TargetError

_EXACT_TYPES = "INTEGER, or TEXT, DECIMAL or BLOB whose unique index has no COLLATE but BINARY"
_quote = sqlite.dialect().identifier_preparer.quote_identifier


@dataclass(frozen=True, slots=True)
class Table:
    """A table and its columns by lower-case name: SQLite's names know no case."""

    name: str
    columns: Mapping[str, TargetColumn]


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
    columns = [
        TargetColumn(
            name=column,
            declared=declared,
            nullable=not not_null,
            required=bool(not_null) and not has_default and not (keys == 1 and key and declared.upper() == "INTEGER"),
            generated=hidden in (2, 3),  # virtual, stored: https://sqlite.org/pragma.html#pragma_table_xinfo
        )
        for column, declared, not_null, has_default, key, hidden in rows
    ]
    return Table(name, {each.name.lower(): each for each in columns})


def bind(table: Table, schema: pa.Schema) -> tuple[Binding, ...]:
    """Bind each column of the rows to one of the table. Raises TargetError that lists everything that does not fit."""
    kept = [field for field in schema if field.name not in METADATA or field.name.lower() in table.columns]
    problems = [problem for field in kept if (problem := _problem(table, field)) is not None]
    names = [field.name.lower() for field in kept]
    doubled = sorted({name for name in names if names.count(name) > 1})
    problems += [f"two columns of the rows are named {name}" for name in doubled]
    problems += [
        f"column {column.name} is NOT NULL without a default, and the rows do not have it"
        for key, column in table.columns.items()
        if column.required and not column.generated and key not in names
    ]
    if not kept:
        problems.append("the rows have no column that the table has")
    if problems:
        message = f"the rows do not fit table {table.name}: " + "; ".join(problems)
        raise TargetError(message, remedy="change the table, or the columns in a transform")
    return tuple(_binding(table.columns[field.name.lower()], field) for field in kept)


def check_unique(connection: Connection, table: Table, bindings: Sequence[Binding], key: Sequence[str]) -> None:
    """Whether rows can be merged by this key. Raises TargetError."""
    lists = text('SELECT name, partial, origin FROM pragma_index_list(:table) WHERE "unique"')
    indexes = connection.execute(lists, {"table": table.name}).all()
    compared = {name: _indexed(connection, name) for name, _, _ in indexes}
    unique = {name: [None] if partial else [column for column, _ in compared[name]] for name, partial, _ in indexes}
    if not any(origin == "pk" for _, _, origin in indexes) and (row_id := _row_id(connection, table.name)):
        unique["the primary key"] = row_id
    by_letters = {column for columns in compared.values() for column, collation in columns if collation != "BINARY"}
    exact = {table.columns[each.column.lower()].name for each in bindings if each.form is not Form.REAL} - by_letters
    columns = [table.columns[name.lower()].name if name.lower() in table.columns else name for name in key]
    if problems := check_key(columns, unique, exact, _EXACT_TYPES):
        message = f"table {table.name} cannot be merged into: " + "; ".join(problems)
        raise TargetError(message, remedy="change the table, or `key`")


def _indexed(connection: Connection, index: str) -> list[tuple[str | None, str]]:
    """Columns of an index, None for an expression, and by which collation it compares them."""
    rows = connection.execute(
        text("SELECT name, upper(coll) FROM pragma_index_xinfo(:name) WHERE key"), {"name": index}
    )
    return [(name, collation) for name, collation in rows.all()]


def _row_id(connection: Connection, table: str) -> list[str | None]:
    """The primary key of a table that needs no index for it: one INTEGER."""
    rows = connection.execute(text("SELECT name FROM pragma_table_info(:table) WHERE pk"), {"table": table})
    return list(rows.scalars().all())


def _problem(table: Table, field: pa.Field) -> str | None:
    column = table.columns.get(field.name.lower())
    if column is None:
        near = get_close_matches(field.name.lower(), table.columns, n=1)
        hint = f"; did you mean {table.columns[near[0]].name}?" if near else ""
        add = f"ALTER TABLE {_quote(table.name)} ADD COLUMN {_quote(field.name)} {suggested_type(field.type)}"
        return f"the table has no column {field.name}{hint} ({add})"
    if column.generated:
        return f"column {column.name} is generated and cannot be written"
    if form_of(field.type, column.affinity) is None:
        declared, better = column.declared or "no type", suggested_type(field.type)
        return f"column {column.name} ({declared}) would change values of {field.type}: declare it {better}"
    return None


def _binding(column: TargetColumn, field: pa.Field) -> Binding:
    form = form_of(field.type, column.affinity)
    assert form is not None  # `_problem` has said so
    # An INTEGER PRIMARY KEY takes NULL for "the next number", and says that it is nullable.
    return Binding(field.name, field.type, form, column.nullable)


def _missing(name: str, tables: Sequence[str], schema: pa.Schema | None) -> TargetError:
    near = get_close_matches(name, tables, n=1)
    message = f"table {name} does not exist" + (f"; did you mean {near[0]}?" if near else "")
    return TargetError(message, remedy=f"create it: {suggested_table(name, schema)}" if schema else "create it")


def suggested_table(name: str, schema: pa.Schema) -> str:
    """A CREATE TABLE that takes the rows, without the metadata columns."""
    fields = [field for field in schema if field.name not in METADATA]
    columns = ", ".join(f"{_quote(field.name)} {suggested_type(field.type)}" for field in fields)
    return f"CREATE TABLE {_quote(name)} ({columns})"

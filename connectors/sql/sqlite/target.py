"""The target table as it is, and whether rows fit it. Read on the driver, at a start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import pyarrow as pa
from pyarrow import types
from sqlalchemy import Connection, text

from connectors.log.merge import Merge
from connectors.spark_types import spark_type
from connectors.sql.log.merging import check_key, tombstone_problems
from connectors.sql.schema_match import RowColumn, SchemaMatch, match_columns
from connectors.sql.sqlite.columns import Binding, Form, TargetColumn, form_of
from connectors.sql.sqlite.types import TYPES, quote
from eos.errors import TargetError

_EXACT_TYPES = "INTEGER, or TEXT, DECIMAL or BLOB whose unique index has no COLLATE but BINARY"


@dataclass(frozen=True, slots=True)
class Table:
    """A table and its columns, in its order."""

    name: str
    columns: tuple[TargetColumn, ...]

    @property
    def quoted(self) -> str:
        """For a format string."""
        return quote(self.name)


def folded(name: str) -> str:
    """Return the name as SQLite compares it: only the letters of ASCII have a case."""
    return name.encode().lower().decode()


def find_table(connection: Connection, name: str) -> Table | None:
    """The table's definition. None: there is no such table.

    SQLAlchemy's reflection gives a type of its own for each column; affinity needs the declared text, hence the pragma.
    """
    if folded(name) not in map(folded, _tables(connection)):
        return None
    rows = connection.execute(
        text('SELECT name, type, "notnull", dflt_value IS NOT NULL, pk, hidden FROM pragma_table_xinfo(:name)'),
        {"name": name},
    ).all()
    keys = sum(1 for row in rows if row[4])
    columns = []
    for column, declared, not_null, has_default, key, hidden in rows:
        generated = hidden in (2, 3)  # virtual, stored: https://sqlite.org/pragma.html#pragma_table_xinfo
        is_row_id = keys == 1 and key and declared.upper() == "INTEGER"
        required = bool(not_null) and not (has_default or generated or is_row_id)
        nullable = not (not_null or is_row_id)  # SQLite takes NULL there for "the next number"
        columns.append(TargetColumn(column, declared, nullable, required, generated))
    return Table(name, tuple(columns))


def bind(table: Table, rows: tuple[RowColumn, ...]) -> SchemaMatch[Binding]:
    """Bind each column of the rows to one of the table, and say everything that does not fit."""
    return match_columns(rows, table.columns, _binding)


def merge_problems(connection: Connection, table: Table, fit: SchemaMatch[Binding], merge: Merge) -> list[str]:
    """Return why rows cannot be merged into the table."""
    lists = text('SELECT name, partial, origin FROM pragma_index_list(:table) WHERE "unique"')
    indexes = connection.execute(lists, {"table": table.name}).all()
    compared = {name: _indexed(connection, name) for name, _, _ in indexes}
    unique = {name: [None] if partial else [column for column, _ in compared[name]] for name, partial, _ in indexes}
    if not any(origin == "pk" for _, _, origin in indexes) and (row_id := _row_id(connection, table.name)):
        unique["the primary key"] = row_id
    by_letters = {column for columns in compared.values() for column, collation in columns if collation != "BINARY"}
    exact = {each.column for each in fit.plans if each.form is not Form.REAL} - by_letters
    required = {each.name for each in table.columns if each.required}
    problems = check_key(merge.key, unique, exact, _EXACT_TYPES) + tombstone_problems(merge, required)
    order = [each for each in fit.plans if each.column == merge.order_by]
    if any(each.form is Form.LEXICAL and not _is_time(each.type) for each in order):
        problems.append(f"in column {merge.order_by} SQLite compares numbers as text: let it be INTEGER")
    return problems


def _is_time(kind: pa.DataType) -> bool:
    """Whether the text of such values has the order of the values."""
    return bool(types.is_date(kind) or types.is_timestamp(kind))


def unique_keys(connection: Connection, table: Table, fit: SchemaMatch[Binding]) -> list[str]:
    """Unique indexes that could refuse a row that is written again. Not a row id that SQLite counts up by itself."""
    lists = text('SELECT name FROM pragma_index_list(:table) WHERE "unique"')
    found = list(connection.execute(lists, {"table": table.name}).scalars())
    given = {each.column for each in fit.plans}
    counts = text("SELECT count(*) FROM pragma_index_list(:table) WHERE origin = 'pk'")
    if not connection.execute(counts, {"table": table.name}).scalar_one():
        row_id = _row_id(connection, table.name)
        found += ["the primary key"] if given.intersection(row_id) else []
    return found


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


def _binding(row: RowColumn, column: TargetColumn) -> Binding | str:
    if column.generated:
        return f"column {column.name!r} of the table is generated and cannot be written"
    form = form_of(row.type, column.affinity)
    if form is None:
        declared, better = column.declared or "no type", TYPES.of(row.type)
        cure = f"declare it {better}" if better else "cast it in a transform"
        return f"column {column.name!r} ({declared}) would change values of {spark_type(row.type)}: {cure}"
    return Binding(row.name, column.name, row.type, form, column.nullable)


def missing(connection: Connection, name: str, remedy: str) -> TargetError:
    """That there is no such table, with the nearest name."""
    tables = [each for each in _tables(connection) if not each.startswith(("eos_", "sqlite_"))]
    near = get_close_matches(name, tables, n=1)
    return TargetError(f"table {name} does not exist" + (f"; did you mean {near[0]}?" if near else ""), remedy=remedy)


def _tables(connection: Connection) -> Sequence[str]:
    return connection.execute(text("SELECT name FROM sqlite_schema WHERE type = 'table'")).scalars().all()

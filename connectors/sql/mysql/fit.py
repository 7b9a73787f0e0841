"""Which Arrow types a column takes, and how their values are written as text.

One rule: refused at the start is what the server would alter in silence (a double in a FLOAT, text in
a DATETIME), or, where only some values are altered (no member of an ENUM), in the task (encode.py); what the server
reports (out of range, too long) is accepted here and judged row by row there, and before a log in the task (ranges.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Final

import pyarrow as pa
from pyarrow import types

from connectors.formats.json_text import supported
from connectors.spark_types import spark_type
from connectors.sql.kinds import is_bytes, is_nested, is_text
from connectors.sql.mysql.engine import quote
from connectors.sql.mysql.ranges import Range
from connectors.sql.mysql.target import Target, TargetColumn
from connectors.sql.mysql.types import TYPES
from connectors.sql.schema_match import RowColumn, SchemaMatch, match_columns

_EXACT_IN_FLOAT: Final = frozenset({"int8", "uint8", "int16", "uint16"})


class Form(Enum):
    """How the values of a column travel."""

    PLAIN = "plain"  # Arrow's own text for numbers
    INTEGER = "integer"  # text or decimal, cast to a whole number first
    FLOAT = "float"  # finite, as the double that it is
    TEXT = "text"
    BYTES = "bytes"  # in hex: not every byte sequence is text
    BITS = "bits"  # a whole number for a BIT column
    DATE = "date"
    MOMENT = "moment"  # date and time, UTC where there is a zone
    TIME = "time"
    JSON = "json"  # nested values


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """One column to write."""

    name: str  # in the rows
    column: str  # in the table; MySQL compares these without regard to case
    form: Form
    unsigned: bool = False
    fraction: int = 6  # digits of a second's fraction that the column holds
    type: str = ""  # of the column: `enum`
    members: tuple[str, ...] = ()  # of ENUM and SET
    fills_null: bool = False  # the server, with a number or a moment of its own
    range: Range = field(default=Range())


def plan_columns(rows: tuple[RowColumn, ...], target: Target) -> SchemaMatch[ColumnPlan]:
    """The columns to write, and everything that does not fit."""
    return match_columns(rows, target.columns, partial(_plan, target))


def _plan(target: Target, row: RowColumn, column: TargetColumn) -> ColumnPlan | str:
    if column.generated:
        return f"column {column.name!r} of the table is generated and cannot be written"
    kind = row.kind
    choose = _BY_TYPE.get(column.type)
    if choose is None:
        return f"column {column.name!r} is of type {column.declared}, which is not supported"
    if column.type in ("float", "double") and "(" in column.declared:
        problem = f"column {column.name!r} is of type {column.declared}, which rounds silently"
        return problem + _or_change(target, row, column)
    form = choose(kind, column)
    if form is None or (form is Form.JSON and is_nested(kind) and not supported(kind)):
        problem = f"column {column.name!r} of type {column.declared} cannot hold {spark_type(kind)} unaltered; "
        problem += "cast it in a transform"
        return problem + _or_change(target, row, column)
    return ColumnPlan(
        name=row.name,
        column=column.name,
        form=form,
        unsigned=column.unsigned,
        fraction=column.fraction,
        type=column.type,
        members=column.members,
        fills_null=column.automatic or (column.type == "timestamp" and not column.nullable),
        range=Range.of(column, kind),
    )


def _or_change(target: Target, row: RowColumn, column: TargetColumn) -> str:
    """A change for people only: it could alter stored values, or take hours."""
    in_key = column.name in (part.column for index in target.unique for part in index.parts)
    better = TYPES.of(row.type, in_key=in_key)
    if better is None:
        return ""
    null = "" if column.nullable else " NOT NULL"
    statement = f"ALTER TABLE {target.quoted} MODIFY COLUMN {quote(column.name)} {better}{null}"
    return f", or change the table: {statement % ()}"


def _integer(kind: pa.DataType, _column: TargetColumn) -> Form | None:
    if types.is_integer(kind) or types.is_boolean(kind):
        return Form.PLAIN
    return Form.INTEGER if types.is_decimal(kind) or is_text(kind) else None


def _decimal(kind: pa.DataType, _column: TargetColumn) -> Form | None:
    tests = (types.is_integer, types.is_boolean, types.is_decimal, is_text)
    return Form.PLAIN if any(test(kind) for test in tests) else None


def _float(kind: pa.DataType, _column: TargetColumn) -> Form | None:
    exact = types.is_floating(kind) and not types.is_float64(kind)
    return Form.FLOAT if exact or types.is_boolean(kind) or str(kind) in _EXACT_IN_FLOAT else None


def _double(kind: pa.DataType, _column: TargetColumn) -> Form | None:
    tests = (types.is_floating, types.is_integer, types.is_boolean)
    return Form.FLOAT if any(test(kind) for test in tests) else None


def _bits(kind: pa.DataType, _column: TargetColumn) -> Form | None:
    return Form.BITS if types.is_integer(kind) or types.is_boolean(kind) else None


def _text(kind: pa.DataType, _column: TargetColumn) -> Form | None:
    if types.is_integer(kind) or types.is_decimal(kind):
        return Form.PLAIN
    if types.is_date(kind):
        return Form.DATE
    if is_nested(kind):
        return Form.JSON
    return Form.TEXT if is_text(kind) or is_bytes(kind) else None


def _choice(kind: pa.DataType, _column: TargetColumn) -> Form | None:
    return Form.TEXT if is_text(kind) else None


def _bytes(kind: pa.DataType, _column: TargetColumn) -> Form | None:
    return Form.BYTES if is_text(kind) or is_bytes(kind) else None


def _date(kind: pa.DataType, _column: TargetColumn) -> Form | None:
    return Form.DATE if types.is_date(kind) else None


def _moment(kind: pa.DataType, _column: TargetColumn) -> Form | None:
    if types.is_date(kind):
        return Form.DATE
    return Form.MOMENT if types.is_timestamp(kind) else None


def _time(kind: pa.DataType, _column: TargetColumn) -> Form | None:
    return Form.TIME if types.is_time(kind) else None


def _json(kind: pa.DataType, _column: TargetColumn) -> Form | None:
    return Form.JSON if is_nested(kind) else _choice(kind, _column)


_BY_TYPE: Final[dict[str, Callable[[pa.DataType, TargetColumn], Form | None]]] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint"), _integer),
    "decimal": _decimal,
    "float": _float,
    "double": _double,
    "bit": _bits,
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext"), _text),
    **dict.fromkeys(("enum", "set"), _choice),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), _bytes),
    "date": _date,
    **dict.fromkeys(("datetime", "timestamp"), _moment),
    "time": _time,
    "json": _json,
}

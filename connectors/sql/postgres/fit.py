"""Which Arrow types a column takes, and how their values are written as text.

One rule: refused at the start is what the server would alter in silence (a double in a REAL, more digits than a NUMERIC
keeps), or, where only some values are altered (blanks at the end of a CHAR), in the task (encode.py); what the server
reports (out of range, no UUID) is accepted here and judged row by row there, and before a log in the task (stored.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Final

import pyarrow as pa
from pyarrow import types

from connectors.formats.json_text import supported
from connectors.spark_types import spark_type
from connectors.sql.kinds import is_bytes, is_nested, is_text
from connectors.sql.limits import MOST_DIGITS, decimals_fit
from connectors.sql.postgres.engine import quote
from connectors.sql.postgres.target import Target, TargetColumn
from connectors.sql.postgres.types import TYPES
from connectors.sql.schema_match import RowColumn, SchemaMatch, match_columns

INTEGER_BITS: Final = {"int2": 16, "int4": 32, "int8": 64}


class Form(Enum):
    """How the values of a column travel."""

    PLAIN = "plain"  # Arrow's own text
    DECIMAL = "decimal"  # with all its digits
    DOUBLE = "double"  # as the double that it is
    TEXT = "text"  # escaped, its length checked
    BYTES = "bytes"  # in hex
    UUID = "uuid"  # its digits alone: the server takes several forms for equal
    MOMENT = "moment"  # date and time, UTC where there is a zone
    TIME = "time"
    JSON = "json"  # nested values


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """One column to write."""

    name: str  # in the rows
    column: str  # in the table
    form: Form
    length: int | None = None  # characters
    fraction: int = 6  # digits of a second's fraction
    bits: int | None = None  # of an integer
    digits: tuple[int, int] | None = None  # of a numeric, precision and scale; None: those of the rows fit
    dated: bool = False  # has a year
    members: tuple[str, ...] = ()  # of an enum
    type: str = ""  # of the column: `bpchar`, of a domain the type below it


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
    form = choose(kind, column)
    if form is None or (form is Form.JSON and is_nested(kind) and not supported(kind)):
        problem = f"column {column.name!r} of type {column.declared} cannot hold {spark_type(kind)} unaltered; "
        problem += "cast it in a transform"
        return problem + _or_change(target, row, column)
    return ColumnPlan(
        name=row.name,
        column=column.name,
        form=form,
        length=column.length,
        fraction=column.fraction,
        bits=INTEGER_BITS.get(column.type),
        digits=_digits(kind, column),
        dated=column.type in ("date", "timestamp", "timestamptz"),
        members=column.members,
        type=column.type,
    )


def _digits(kind: pa.DataType, column: TargetColumn) -> tuple[int, int] | None:
    """In as many as Arrow counts: before the point, where alone a value can still have too many, they are the same."""
    if column.precision is None or decimals_fit(kind, column.precision, column.scale):
        return None
    whole = column.precision - column.scale
    if column.precision <= MOST_DIGITS:
        return column.precision, column.scale
    return (MOST_DIGITS, MOST_DIGITS - whole) if whole < MOST_DIGITS else None


def _or_change(target: Target, row: RowColumn, column: TargetColumn) -> str:
    """A change for people only: it could alter stored values, or take hours."""
    in_key = column.name in (name for index in target.unique for name in index.columns)
    better = TYPES.of(row.type, in_key=in_key)
    if better is None:
        return ""
    statement = f"ALTER TABLE {target.quoted} ALTER COLUMN {quote(column.name)} TYPE {better}"
    return f", or change the table: {statement % ()}"


def _boolean(kind: pa.DataType, _column: TargetColumn) -> Form | None:
    return Form.PLAIN if types.is_boolean(kind) else None


def _integer(kind: pa.DataType, _column: TargetColumn) -> Form | None:
    whole = types.is_integer(kind) or (types.is_decimal(kind) and kind.scale == 0)
    return Form.DECIMAL if whole and types.is_decimal(kind) else Form.PLAIN if whole else None


def _numeric(kind: pa.DataType, column: TargetColumn) -> Form | None:
    if types.is_decimal(kind) and (column.precision is None or column.scale >= kind.scale):
        return Form.DECIMAL
    fits = types.is_integer(kind) and (column.precision is None or column.scale >= 0)
    return Form.PLAIN if fits else None


def _double(kind: pa.DataType, _column: TargetColumn) -> Form | None:
    exact = types.is_integer(kind) and kind.bit_width < 64
    return Form.DOUBLE if types.is_floating(kind) or exact else None


def _real(kind: pa.DataType, _column: TargetColumn) -> Form | None:
    exact = types.is_integer(kind) and kind.bit_width < 32
    # The double's digits name the value exactly, also if the column is a DOUBLE PRECISION by the time they are read.
    return Form.DOUBLE if types.is_float32(kind) or types.is_float16(kind) or exact else None


def _text(kind: pa.DataType, _column: TargetColumn) -> Form | None:
    if is_nested(kind):
        return Form.JSON
    return Form.TEXT if is_text(kind) else None


def _words(kind: pa.DataType, _column: TargetColumn) -> Form | None:
    return Form.TEXT if is_text(kind) else None


def _uuid(kind: pa.DataType, _column: TargetColumn) -> Form | None:
    return Form.UUID if is_text(kind) else None


def _bytes(kind: pa.DataType, _column: TargetColumn) -> Form | None:
    return Form.BYTES if is_bytes(kind) else None


def _date(kind: pa.DataType, _column: TargetColumn) -> Form | None:
    return Form.PLAIN if types.is_date32(kind) else None


def _moment(kind: pa.DataType, _column: TargetColumn) -> Form | None:
    return Form.MOMENT if types.is_timestamp(kind) else None


def _time(kind: pa.DataType, _column: TargetColumn) -> Form | None:
    return Form.TIME if types.is_time(kind) else None


_BY_TYPE: Final[dict[str, Callable[[pa.DataType, TargetColumn], Form | None]]] = {
    "bool": _boolean,
    **dict.fromkeys(("int2", "int4", "int8"), _integer),
    "numeric": _numeric,
    "float8": _double,
    "float4": _real,
    **dict.fromkeys(("text", "varchar", "json", "jsonb"), _text),
    **dict.fromkeys(("bpchar", "enum", "citext", "inet", "cidr", "macaddr"), _words),
    "uuid": _uuid,
    "bytea": _bytes,
    "date": _date,
    **dict.fromkeys(("timestamp", "timestamptz"), _moment),
    "time": _time,
}

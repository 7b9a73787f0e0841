"""Wider types for columns of PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyarrow import types

from connectors.sql.exact_numbers import ExactNumbers
from connectors.sql.postgres.engine import Session, quote
from connectors.sql.postgres.fit import INTEGER_BITS
from connectors.sql.postgres.target import Target, TargetColumn
from connectors.sql.schema_match import RowColumn
from connectors.sql.statements import in_transaction
from connectors.sql.widening import alter_columns, widen_columns

_DECLARED: Final = {"int2": "smallint", "int4": "integer", "int8": "bigint", "float4": "real"}
_MOST_DIGITS: Final = 1000  # of a NUMERIC that declares them


def wider(kind: pa.DataType, column: TargetColumn, in_key: bool = False) -> TargetColumn | None:
    """Return the column with a type of its family that holds all of its values and all of the rows' type.

    None: the column holds them already, or no such type exists. A domain stays: it has further rules.

    Args:
        kind: the type of the rows' values.
        column: the column as it is.
        in_key: it is in a unique index, where only a whole number becomes another whole number.
    """
    if column.generated or column.automatic or column.declared != _declared(column):
        return None
    if column.type == "float4":
        is_double = types.is_float64(kind) or (types.is_integer(kind) and kind.bit_width == 32)
        return replace(column, type="float8", declared="double precision") if is_double and not in_key else None
    old, new = _numbers(column), ExactNumbers.of(kind)
    if old is None or new is None or old.holds(new):
        return None
    both = old.joined(new)
    if column.type in INTEGER_BITS:
        for name, bits in INTEGER_BITS.items():
            if ExactNumbers.integer(bits).holds(both):
                return replace(column, type=name, declared=_DECLARED[name])
    (precision, scale), whole = both.digits, column.type != "numeric" and not types.is_decimal(kind)
    if in_key or whole or precision > _MOST_DIGITS:
        return None
    return replace(column, type="numeric", declared=f"numeric({precision},{scale})", precision=precision, scale=scale)


def _declared(column: TargetColumn) -> str | None:
    """Return how the server shows the column's type, unless a domain is above it."""
    if column.type == "numeric":
        return f"numeric({column.precision},{column.scale})"
    return _DECLARED.get(column.type)


def _numbers(column: TargetColumn) -> ExactNumbers | None:
    """Return the numbers of a column; None also for a NUMERIC that rounds before the point, or below 0.1."""
    if column.type == "numeric" and column.precision is not None and 0 <= column.scale <= column.precision:
        return ExactNumbers.decimal(column.precision, column.scale)
    bits = INTEGER_BITS.get(column.type)
    return None if bits is None else ExactNumbers.integer(bits)


@dataclass(frozen=True, slots=True)
class PostgresWidener:
    """The wider types of PostgreSQL, for `Widener`. DDL is a part of a transaction."""

    session: Session

    def widened(self, table: Target, rows: Sequence[RowColumn]) -> Target:
        unique = {name for index in table.unique for name in index.columns}
        return replace(table, columns=widen_columns(rows, table.columns, unique, wider))

    def statement(self, table: Target, wider: Target) -> str:
        def clause(_: TargetColumn, new: TargetColumn) -> str:
            return f"ALTER COLUMN {quote(new.name)} TYPE {new.declared}"

        return alter_columns(table.quoted, table.columns, wider.columns, clause)

    @contextmanager
    def lock(self, table: Target) -> Iterator[None]:
        """The statement takes the same lock, and with it the answers to earlier queries hold."""
        with in_transaction(self.session):
            self.session.execute(f"LOCK TABLE {table.quoted} IN ACCESS EXCLUSIVE MODE")
            yield

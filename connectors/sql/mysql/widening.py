"""Wider types for columns of MySQL and MariaDB."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyarrow import types

from connectors.sql.exact_numbers import ExactNumbers
from connectors.sql.mysql.engine import Session, quote
from connectors.sql.mysql.errors import LOCK_WAIT_TIMEOUT, ServerError
from connectors.sql.mysql.ranges import INTEGER_BITS
from connectors.sql.mysql.target import Target, TargetColumn
from connectors.sql.mysql.types import MOST_DIGITS, MOST_SCALE
from connectors.sql.schema_match import RowColumn
from connectors.sql.widening import alter_columns, widen_columns
from eos.errors import TargetError

_FLOATS: Final = frozenset({"float", "float unsigned", "double unsigned"})
"""With digits, as FLOAT(7,4), a column shows rounded values, and a wider one would show others."""
_LOCK_WAIT_S: Final = 20
_REWRITE_S: Final = 86_400  # to copy a large table


def wider(kind: pa.DataType, column: TargetColumn, in_key: bool = False) -> TargetColumn | None:
    """Return the column with a type of its family that holds all of its values and all of the rows' type.

    None: the column holds them already, or no such type exists. A TINYINT(1) is a BOOLEAN, and ZEROFILL shows a value
    with the digits of its type: both stay.

    Args:
        kind: the type of the rows' values.
        column: the column as it is.
        in_key: it is in a unique index, where only a whole number becomes another whole number.
    """
    fixed = column.generated or column.automatic or "zerofill" in column.declared
    if fixed or column.declared.startswith("tinyint(1)"):
        return None
    if column.type in ("float", "double"):
        return None if in_key else _wider_float(kind, column)
    old, new = _numbers(column), ExactNumbers.of(kind)
    if old is None or new is None or old.holds(new):
        return None
    both = old.joined(new)
    if column.type in INTEGER_BITS:
        for name, bits in INTEGER_BITS.items():
            if ExactNumbers.integer(bits, unsigned=both.unsigned).holds(both):
                return replace(column, type=name, declared=name + _unsigned(both))
    (precision, scale), whole = both.digits, column.type != "decimal" and not types.is_decimal(kind)
    if in_key or whole or precision > MOST_DIGITS or scale > MOST_SCALE:
        return None
    declared = f"decimal({precision},{scale}){_unsigned(both)}"
    return replace(column, type="decimal", declared=declared, precision=precision, scale=scale)


def _numbers(column: TargetColumn) -> ExactNumbers | None:
    if column.type == "decimal":
        return ExactNumbers.decimal(column.precision, column.scale, unsigned=column.unsigned)
    bits = INTEGER_BITS.get(column.type)
    return None if bits is None else ExactNumbers.integer(bits, unsigned=column.unsigned)


def _unsigned(numbers: ExactNumbers) -> str:
    return " unsigned" if numbers.unsigned else ""


def _wider_float(kind: pa.DataType, column: TargetColumn) -> TargetColumn | None:
    is_whole = types.is_integer(kind) and kind.bit_width < 64  # a double holds 53 bits
    if column.declared not in _FLOATS or not (types.is_floating(kind) or is_whole):
        return None
    small = types.is_float16(kind) or types.is_float32(kind) or (is_whole and kind.bit_width < 32)
    positive = types.is_unsigned_integer(kind)
    if (small or column.type == "double") and (positive or not column.unsigned):
        return None
    return replace(column, type="double", declared="double")


@dataclass(frozen=True, slots=True)
class MySqlWidener:
    """See Widener. MODIFY COLUMN replaces a whole definition, so the server's is used, with another type."""

    session: Session

    def widened(self, table: Target, rows: Sequence[RowColumn]) -> Target:
        unique = {part.column for index in table.unique for part in index.parts}
        return replace(table, columns=widen_columns(rows, table.columns, unique, wider))

    def statement(self, table: Target, wider: Target) -> str:
        definitions = str(self.session.execute(f"SHOW CREATE TABLE {table.quoted}")[0][1])

        def clause(old: TargetColumn, new: TargetColumn) -> str:
            return f"MODIFY COLUMN {with_type(definitions, old, new.declared)}"

        return alter_columns(table.quoted, table.columns, wider.columns, clause)

    @contextmanager
    def lock(self, table: Target) -> Iterator[None]:
        """A named lock: DDL ends a transaction, and LOCK TABLES needs a further privilege."""
        name = f"eos-columns-{hashlib.sha256(str(table).encode()).hexdigest()[:32]}"
        if self.session.execute("SELECT GET_LOCK(%s, %s)", name, _LOCK_WAIT_S)[0][0] != 1:
            raise ServerError(LOCK_WAIT_TIMEOUT, f"another driver is changing the columns of {table}")
        try:
            with self.session.driver.patient(_REWRITE_S):
                yield
        finally:
            self._release(name)

    def _release(self, name: str) -> None:
        try:
            self.session.execute("SELECT RELEASE_LOCK(%s)", name)
        except ServerError as error:
            if not error.disconnected:  # a server releases the locks of a lost connection
                raise


def with_type(definitions: str, column: TargetColumn, declared: str) -> str:
    """Return the definition of a column with this type instead of its present one, as part of a format string.

    `definitions`: the result of SHOW CREATE TABLE, which has a line for each column and escapes the ends of lines.
    Raises TargetError if it does not show the column's type where it is expected.
    """
    begin = f"\n  {quote(column.name).replace('%%', '%')} "
    at = definitions.find(begin) + len(begin)
    end = at + len(column.declared)
    shown = definitions[at:end].lower() == column.declared and definitions[end : end + 1] in (" ", ",", "\n")
    if definitions.count(begin) != 1 or not shown:
        message = f"SHOW CREATE TABLE does not show column {column.name!r} as {column.declared}"
        raise TargetError(message, remedy=f"let an administrator change its type to {declared}")
    rest = definitions[end : definitions.index("\n", end)].removesuffix(",")
    return f"{quote(column.name)} {declared}{rest.replace('%', '%%')}"

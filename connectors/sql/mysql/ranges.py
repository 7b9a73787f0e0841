"""What a column holds, as far as the server says when it does not: the same is found by a task that writes to a log."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa

from connectors.sql.limits import (
    check_decimals,
    check_integers,
    check_length,
    check_moments,
    check_sign,
    check_size,
    decimals_fit,
    integer_range,
)
from connectors.sql.mysql.target import TargetColumn

INTEGER_BITS: Final = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_SIZES: Final = {"tiny": 2**8 - 1, "": 2**16 - 1, "medium": 2**24 - 1}  # bytes; no value of ours is too long for LONG
_LENGTH: Final = re.compile(r"(?:var)?(?:char|binary)\((\d+)\)")
_MOMENTS: Final = ("0000-01-01", "9999-12-31 23:59:59.999999")
_FIRST_TIMESTAMP: Final = "1970-01-01 00:00:01"  # the second before it is the server's zero


@dataclass(frozen=True, slots=True)
class Range:
    """What does not apply to a column's type is None."""

    integers: tuple[int, int] | None = None
    digits: tuple[int, int] | None = None  # precision and scale; None also where the rows' type has no more
    signed: bool = True  # of DECIMAL, FLOAT and DOUBLE
    moments: tuple[str, str] | None = None
    length: int | None = None  # bytes of what travels in hex, else characters
    size_bytes: int | None = None  # of text, in UTF-8

    @classmethod
    def of(cls, column: TargetColumn, kind: pa.DataType) -> Self:
        """Of a column that takes values of this type."""
        name, unsigned, bits = column.type, column.unsigned, INTEGER_BITS.get(column.type)
        length = _LENGTH.match(column.declared)  # MariaDB adds that it is compressed
        if name == "bit":
            return cls(integers=integer_range(column.precision, unsigned=True))
        if bits is not None:
            return cls(integers=integer_range(bits, unsigned=unsigned))
        if name == "decimal":
            fit = decimals_fit(kind, column.precision, column.scale)
            return cls(digits=None if fit else (column.precision, column.scale), signed=not unsigned)
        if name in ("float", "double"):
            return cls(signed=not unsigned)
        if name in ("date", "datetime"):
            return cls(moments=_MOMENTS)
        if name == "timestamp":
            return cls(moments=(_FIRST_TIMESTAMP, column.latest))
        if length is not None:
            return cls(length=int(length[1]))
        if name.endswith("blob"):
            return cls(length=_SIZES.get(name.removesuffix("blob")))
        if name.endswith("text"):
            return cls._of_text(column, _SIZES.get(name.removesuffix("text")))
        return cls()

    @classmethod
    def _of_text(cls, column: TargetColumn, size_bytes: int | None) -> Self:
        """In another character set than UTF-8 a character has at least one byte, and nobody here knows of more."""
        return cls(size_bytes=size_bytes) if column.collation.startswith("utf8") else cls(length=size_bytes)

    def check(self, name: str, texts: pa.Array, first_row: int, *, in_hex: bool) -> None:
        """Raises BadRowError for the first value that the server would refuse.

        Args:
            name: the column's, in the rows.
            texts: as encode.texts made them.
            first_row: number of the first row in this attempt, from 1; for messages.
            in_hex: the texts are bytes in hex.
        """
        if self.integers is not None:
            check_integers(name, texts, *self.integers, first_row)
        if self.digits is not None:
            check_decimals(name, texts, *self.digits, first_row)
        if not self.signed:
            check_sign(name, texts, first_row)
        if self.moments is not None:
            check_moments(name, texts, *self.moments, first_row)
        if self.length is not None:
            check_length(name, texts, self.length, first_row, in_hex=in_hex)
        if self.size_bytes is not None:
            check_size(name, texts, self.size_bytes, first_row)

"""Ranges of exact numbers, to find a type that holds all values of two others. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import pyarrow as pa
from pyarrow import types

from connectors.sql.limits import integer_range


@dataclass(frozen=True, slots=True)
class ExactNumbers:
    """All numbers from `low` to `high` that have up to `scale` digits behind the point.

    The bounds of a decimal are the powers of ten around it, which it does not reach. So -0.5 is within a DECIMAL(1,1).
    """

    low: int
    high: int
    scale: int = 0

    @classmethod
    def integer(cls, bits: int, *, unsigned: bool = False) -> Self:
        """Return the whole numbers of so many bits."""
        return cls(*integer_range(bits, unsigned=unsigned))

    @classmethod
    def decimal(cls, precision: int, scale: int, *, unsigned: bool = False) -> Self:
        """Return the numbers of a DECIMAL. Without digits before or behind the point, `scale` may be out of bounds."""
        bound = 10 ** max(precision - scale, 0)
        return cls(0 if unsigned else -bound, bound, max(scale, 0))

    @classmethod
    def of(cls, kind: pa.DataType) -> Self | None:
        """Return the numbers of an Arrow type; None if it has other values."""
        if types.is_integer(kind):
            return cls.integer(kind.bit_width, unsigned=types.is_unsigned_integer(kind))
        return cls.decimal(kind.precision, kind.scale) if types.is_decimal(kind) else None

    def holds(self, other: Self) -> bool:
        """Return whether each of the other numbers is one of these."""
        return self.low <= other.low and other.high <= self.high and other.scale <= self.scale

    def joined(self, other: Self) -> ExactNumbers:
        """Return the smallest range that holds both."""
        low, high = min(self.low, other.low), max(self.high, other.high)
        return ExactNumbers(low, high, max(self.scale, other.scale))

    @property
    def unsigned(self) -> bool:
        """Whether no number is below zero."""
        return self.low >= 0

    @property
    def digits(self) -> tuple[int, int]:
        """Precision and scale of the DECIMAL that holds all of these numbers."""
        greatest = max(-self.low, self.high) - 1  # of 2**b and 10**d alike it has the digits
        whole = len(str(greatest)) if greatest > 0 else 0
        return max(whole + self.scale, 1), self.scale

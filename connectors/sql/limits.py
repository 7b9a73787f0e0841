"""What a log has to find out by itself: whether the server will take a value once it is decided. No Python per row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from connectors.bad_values import bad_value, first_bad

MOST_DIGITS: Final = 76
"""Of a decimal in Arrow."""


def check_utf8(name: str, texts: pa.Array, first_row: int) -> None:
    """Raise BadRowError for the first text that is not UTF-8: of Spark's `CAST(value AS STRING)` it can be anything."""

    def validated(part: pa.Array) -> pa.Array:
        part.validate(full=True)
        return part

    _read(name, texts, validated, first_row, "not UTF-8")


def check_length(name: str, texts: pa.Array, length: int, first_row: int, *, in_hex: bool = False) -> None:
    """Raise BadRowError for the first text of more characters, or of more bytes in hex.

    Args:
        name: the column's.
        texts: its values.
        length: characters or bytes that it holds.
        first_row: number of the first row in this attempt, from 1; for messages.
    """
    most, unit = (2 * length, "bytes") if in_hex else (length, "characters")
    _refuse(name, pc.greater(pc.utf8_length(texts), most), first_row, f"longer than {length} {unit}")


def check_size(name: str, texts: pa.Array, size_bytes: int, first_row: int) -> None:
    """Raise BadRowError for the first text of more bytes in UTF-8."""
    _refuse(name, pc.greater(pc.binary_length(texts), size_bytes), first_row, f"longer than {size_bytes} bytes")


def check_integers(name: str, texts: pa.Array, low: int, high: int, first_row: int) -> None:
    """Raise BadRowError for the first number that is not between the two. `texts`: whole numbers as text."""
    reason = f"out of range: {low} to {high}"
    kind = pa.int64() if low < 0 else pa.uint64()
    found = _read(name, texts, lambda part: part.cast(kind), first_row, reason)
    outside = pc.greater(found, pa.scalar(high, kind))
    _refuse(name, pc.or_(outside, pc.less(found, low)) if low < 0 else outside, first_row, reason)


def check_decimals(name: str, texts: pa.Array, precision: int, scale: int, first_row: int) -> None:
    """Raise BadRowError for the first text that is no number, or one of more digits before or behind the point.

    `precision`, of up to MOST_DIGITS, and `scale`: of the column, as SQL counts them.
    """
    kind, reason = pa.decimal256(precision, scale), f"no number of {precision} digits, {scale} behind the point"
    _read(name, texts, lambda part: pc.ascii_ltrim_whitespace(part).cast(kind), first_row, reason)


def check_sign(name: str, texts: pa.Array, first_row: int) -> None:
    """Raise BadRowError for the first number below zero; zero itself may have a sign."""
    below = pc.match_substring_regex(texts, r"^\s*-[0.]*[1-9]")
    _refuse(name, below, first_row, "negative, in a column that is unsigned")


def check_moments(name: str, texts: pa.Array, low: str, high: str, first_row: int) -> None:
    """Raise BadRowError for the first date, or date with time, that is not between the two, written as they are."""
    four_digits = pc.match_substring_regex(texts, "^[0-9]{4}-")  # such texts compare as the moments do
    between = pc.and_(pc.greater_equal(texts, low), pc.less_equal(texts, high))
    _refuse(name, pc.invert(pc.and_(four_digits, between)), first_row, f"out of range: {low} to {high}")


def check_years(name: str, texts: pa.Array, first_row: int) -> None:
    """Raise BadRowError for the first date, or date with time, that is before the year 1 or that Arrow cannot write."""
    written = pc.match_substring_regex(texts, "^([1-9][0-9]{3,4}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-")
    _refuse(name, pc.invert(written), first_row, "out of range: years 1 to 32767")


def check_members(name: str, texts: pa.Array, members: Sequence[str], first_row: int) -> None:
    """Raise BadRowError for the first text that is none of these."""
    _refuse(name, no_members(texts, members), first_row, f"none of {', '.join(members)}")


def no_members(texts: pa.Array, members: Sequence[str]) -> pa.Array:
    """Which of the texts are none of these, letter by letter; NULL does not count as such."""
    known = pc.is_in(texts, value_set=pa.array(members, pa.string()))
    return pc.and_(texts.is_valid(), pc.invert(known))


def check_pattern(name: str, texts: pa.Array, pattern: str, first_row: int, reason: str) -> None:
    """Raise BadRowError for the first text that does not match."""
    _refuse(name, pc.invert(pc.match_substring_regex(texts, pattern)), first_row, reason)


def decimals_fit(kind: pa.DataType, precision: int, scale: int) -> bool:
    """Whether a column of so many digits holds every number of this type, so that none is to be looked at."""
    return bool(types.is_decimal(kind) and kind.scale <= scale and kind.precision - kind.scale <= precision - scale)


def integer_range(bits: int, *, unsigned: bool = False) -> tuple[int, int]:
    """The least and the greatest number of so many bits."""
    return (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _read(name: str, texts: pa.Array, convert: Callable[[pa.Array], pa.Array], first_row: int, reason: str) -> pa.Array:
    try:
        return convert(texts)
    except pa.ArrowInvalid as error:
        row, _ = first_bad(convert, texts, reason)
        raise bad_value(name, first_row + row, reason) from error


def _refuse(name: str, wrong: pa.Array, first_row: int, reason: str) -> None:
    if pc.any(wrong).as_py():
        raise bad_value(name, first_row + pc.index(wrong, True).as_py(), reason)

"""What a log has to find out by itself: whether the server will take a value once it is decided. No Python per row."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from connectors.bad_values import bad_value, first_bad


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


def check_integers(name: str, texts: pa.Array, low: int, high: int, first_row: int) -> None:
    """Raise BadRowError for the first number that is not between the two. `texts`: whole numbers as text."""
    reason = f"out of range: {low} to {high}"

    def numbers(part: pa.Array) -> pa.Array:
        return part.cast(pa.int64() if low < 0 else pa.uint64())

    try:
        found = numbers(texts)
    except pa.ArrowInvalid as error:
        row, _ = first_bad(numbers, texts, reason)
        raise bad_value(name, first_row + row, reason) from error
    outside = pc.greater(found, high)
    _refuse(name, pc.or_(outside, pc.less(found, low)) if low < 0 else outside, first_row, reason)


def integer_range(bits: int, *, unsigned: bool = False) -> tuple[int, int]:
    """The least and the greatest number of so many bits."""
    return (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _refuse(name: str, wrong: pa.Array, first_row: int, reason: str) -> None:
    if pc.any(wrong).as_py():
        raise bad_value(name, first_row + pc.index(wrong, True).as_py(), reason)

"""Values that a target cannot hold, found in a task, and the message that names them. No Python per row before that."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyarrow import types

from connectors.dead_letters import printable
from eos.errors import BadRowError


def first_bad(convert: Callable[[pa.Array], object], values: pa.Array, reason: str) -> tuple[int, str]:
    """The first row that cannot be converted, and why. Halves the column; only for the message, after it has failed."""
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            convert(values.slice(low, middle - low))
            low = middle
        except pa.ArrowInvalid as narrower:
            high, reason = middle, str(narrower)
    try:
        convert(values.slice(low, 1))
    except pa.ArrowInvalid as exact:
        reason = str(exact)
    return low, reason


def convert_checked(convert: Callable[[pa.Array], pa.Array], name: str, values: pa.Array, first_row: int) -> pa.Array:
    """A column through `convert`, which raises ArrowInvalid for what the target would alter or refuse.

    Args:
        convert: gives text, NULL where it is NULL.
        name: the column's, in the rows.
        values: the column.
        first_row: number of the first row in this attempt, from 1; for messages.

    Raises:
        BadRowError: a value does not fit; names the column and the row.
    """
    if types.is_dictionary(values.type):
        values = values.dictionary_decode()
    try:
        return convert(values)
    except pa.ArrowInvalid as error:
        row, reason = first_bad(convert, values, str(error))
        raise bad_value(name, first_row + row, reason) from error


def bad_value(name: str, row: int, reason: str) -> BadRowError:
    """The error for one value that does not fit."""
    message = f"row {row}, column {name!r}: {printable(reason)}"
    return BadRowError(message, remedy="correct the row in a transform, or change the column")

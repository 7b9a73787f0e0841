"""Parts of turning an Arrow column into the text that a database reads. No Python per row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from twophase.errors import BadRowError

_SLICE_BYTES: Final = 16 * 1024 * 1024  # of Arrow memory
_HEX: Final = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), dtype=np.uint16)


def hex_text(values: pa.Array) -> pa.Array:
    """Two hex digits for each byte of a binary column, through a table: Arrow has no function for it."""
    start, size = values.offset, len(values)
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[start : start + size + 1]
    raw = np.frombuffer(data, dtype=np.uint8)[ends[0] : ends[-1]] if data is not None else np.empty(0, np.uint8)
    positions = ((ends - ends[0]).astype(np.int64) * 2).astype(np.int32)
    digits = pa.py_buffer(_HEX[raw].tobytes())
    text = pa.Array.from_buffers(pa.string(), size, [None, pa.py_buffer(positions.tobytes()), digits])
    return pc.if_else(values.is_valid(), text, pa.scalar(None, pa.string())) if values.null_count else text


def whole_fraction(values: pa.Array, fraction: int) -> pa.Array:
    """The times, if a column of so many digits holds every one of theirs: servers round in silence.

    Raises ArrowInvalid. `values`: microseconds.
    """
    step = 10 ** (6 - fraction)
    if step > 1:
        ticks = values.cast(pa.int64())
        rounded = pc.multiply(pc.divide(ticks, step), step)
        if pc.all(pc.equal(ticks, rounded)).as_py() is False:
            raise pa.ArrowInvalid(f"the column holds {fraction} digits of a second's fraction, the value has more")
    return values


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


def checked(convert: Callable[[pa.Array], pa.Array], name: str, values: pa.Array, first_row: int) -> pa.Array:
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
    message = f"row {row}, column {name!r}: {reason}"
    return BadRowError(message, remedy="correct the row in a transform, or change the column")


def slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in parts of bounded size, each for one statement."""
    parts = max(1, -(-batch.nbytes // _SLICE_BYTES))
    rows = max(1, -(-batch.num_rows // parts))
    return (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))

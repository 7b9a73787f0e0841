"""An Arrow column as the text that MySQL reads, checked so that nothing is altered on the way. No Python per row."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from connectors.sql.json_text import finite, json_text
from connectors.sql.mysql.fit import ColumnPlan, Form, is_nested
from twophase.errors import BadRowError

_HEX: Final = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), dtype=np.uint16)


def texts(plan: ColumnPlan, values: pa.Array, first_row: int) -> pa.Array:
    """Unescaped text (hex for bytes) of a column, NULL where it is NULL.

    Args:
        plan: how the column is written.
        values: the column.
        first_row: number of the first row in this attempt, from 1; for messages.

    Raises:
        BadRowError: a value does not fit; names the column and the row.
    """
    if types.is_dictionary(values.type):
        values = values.dictionary_decode()
    try:
        return _text(plan, values)
    except pa.ArrowInvalid as error:
        row, reason = _first_bad(plan, values, error)
        message = f"row {first_row + row}, column {plan.name!r}: {reason}"
        raise BadRowError(message, remedy="correct the row in a transform, or change the column") from error


def _text(plan: ColumnPlan, values: pa.Array) -> pa.Array:
    match plan.form:
        case Form.TEXT:
            return values.cast(pa.string())
        case Form.PLAIN | Form.BITS:
            whole = values.cast(pa.int8()) if types.is_boolean(values.type) else values
            return whole.cast(pa.string())
        case Form.INTEGER:
            return values.cast(pa.uint64() if plan.unsigned else pa.int64()).cast(pa.string())
        case Form.FLOAT:
            numbers = values.cast(pa.int8()) if types.is_boolean(values.type) else values
            # The double's digits also for a FLOAT column: they name its value exactly, whichever column reads them.
            return finite(numbers.cast(pa.float64())).cast(pa.string())
        case Form.DATE:
            return values.cast(pa.date32()).cast(pa.string())
        case Form.MOMENT:
            return _moment(values, plan.fraction).cast(pa.string())
        case Form.TIME:
            return _whole(values.cast(pa.time64("us")), plan.fraction).cast(pa.string())
        case Form.JSON:
            return json_text(values) if is_nested(values.type) else values.cast(pa.string())
        case Form.BYTES:
            return _hex(values.cast(pa.binary()))


def _moment(values: pa.Array, fraction: int) -> pa.Array:
    """Without a zone; an Arrow timestamp with a zone holds UTC, and so does our session."""
    plain = values.cast(pa.timestamp(values.type.unit)).cast(pa.timestamp("us"))
    return _whole(plain, fraction)


def _whole(values: pa.Array, fraction: int) -> pa.Array:
    """The values, if the column holds every digit of theirs: the server would round in silence."""
    step = 10 ** (6 - fraction)
    if step > 1:
        ticks = values.cast(pa.int64())
        rounded = pc.multiply(pc.divide(ticks, step), step)
        if pc.all(pc.equal(ticks, rounded)).as_py() is False:
            raise pa.ArrowInvalid(f"the column holds {fraction} digits of a second's fraction, the value has more")
    return values


def _hex(values: pa.Array) -> pa.Array:
    """Two hex digits for each byte, through a table: Arrow has no function for it."""
    start, size = values.offset, len(values)
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[start : start + size + 1]
    raw = np.frombuffer(data, dtype=np.uint8)[ends[0] : ends[-1]] if data is not None else np.empty(0, np.uint8)
    positions = ((ends - ends[0]).astype(np.int64) * 2).astype(np.int32)
    digits = pa.py_buffer(_HEX[raw].tobytes())
    text = pa.Array.from_buffers(pa.string(), size, [None, pa.py_buffer(positions.tobytes()), digits])
    return pc.if_else(values.is_valid(), text, pa.scalar(None, pa.string())) if values.null_count else text


def _first_bad(plan: ColumnPlan, values: pa.Array, error: pa.ArrowInvalid) -> tuple[int, str]:
    """Halve the column until one row is left. Only for the message, after the batch has failed."""
    low, high, reason = 0, len(values), str(error)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _text(plan, values.slice(low, middle - low))
            low = middle
        except pa.ArrowInvalid as narrower:
            high, reason = middle, str(narrower)
    try:
        _text(plan, values.slice(low, 1))
    except pa.ArrowInvalid as exact:
        reason = str(exact)
    return low, reason

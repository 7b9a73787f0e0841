"""Outcome of turning an Arrow column into the text that a database reads. No Python per row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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


def slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in parts of bounded size, each for one statement."""
    parts = max(1, -(-batch.nbytes // _SLICE_BYTES))
    rows = max(1, -(-batch.num_rows // parts))
    return (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))

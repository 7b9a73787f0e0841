"""Decimals as Avro and Kafka Connect write them: the unscaled number, big-endian, in two's complement."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from connectors.formats.avro.cursor import Cursor
from connectors.formats.spans import Flags, Ints, Spans


def decimals(cursor: Cursor, spans: Spans, kind: pa.Decimal128Type) -> tuple[pa.Array, Flags]:
    """Return the decimals in these spans, and where one has more digits than `kind`, which is 0 then.

    A span without bytes has any value.
    """
    start, end = spans
    low, high = _halves(cursor, start, end)
    wrong = _exceeds(low, high, 10**kind.precision) | _is_cut_off(cursor, start, end, high)
    if wrong.any():
        low, high = np.where(wrong, 0, low).astype(np.uint64), np.where(wrong, 0, high)
    both = pa.py_buffer(np.stack([low, high.view(np.uint64)], 1))
    return pa.Array.from_buffers(kind, len(low), [None, both]), wrong


def decimal_column(values: pa.Array, kind: pa.Decimal128Type) -> tuple[pa.Array, Flags]:
    """Return the decimals of a binary column, and where a value has no bytes or more digits than `kind`.

    Null stays null, and a wrong value becomes null.
    """
    cursor = Cursor(values.fill_null(b""))
    spans = cursor.whole()
    found, wrong = decimals(cursor, spans, kind)
    is_given = values.is_valid().to_numpy(zero_copy_only=False)
    wrong = (wrong | (spans[0] == spans[1])) & is_given
    lost = wrong | ~is_given
    return pc.if_else(pa.array(lost), pa.scalar(None, kind), found) if lost.any() else found, wrong


_HALF: Final = 8
"""Bytes of the lower and of the upper half of a decimal."""


def _halves(cursor: Cursor, start: Ints, end: Ints) -> tuple[NDArray[np.uint64], Ints]:
    """Return the last 16 bytes of each span as a number with a sign, in two halves."""
    size = end - start
    lower = _signed(cursor.words_before(end), np.clip(size, 1, _HALF))
    upper = _signed(cursor.words_before(end - _HALF), np.clip(size - _HALF, 1, _HALF))
    return lower.view(np.uint64), np.where(size > _HALF, upper, lower >> 63)


def _signed(words: NDArray[np.uint64], size: Ints) -> Ints:
    """Extend the sign of the last `size` bytes of each word over the bytes in front."""
    shift = (64 - 8 * size).astype(np.uint64)
    signed: Ints = (words << shift).view(np.int64) >> shift.view(np.int64)
    return signed


def _exceeds(low: NDArray[np.uint64], high: Ints, bound: int) -> Flags:
    """Whether a number in two halves is at least `bound`, or at most its negative."""
    above, below = divmod(bound, 1 << 64), divmod(-bound, 1 << 64)
    too_large = (high > above[0]) | ((high == above[0]) & (low >= np.uint64(above[1])))
    too_small = (high < below[0]) | ((high == below[0]) & (low <= np.uint64(below[1])))
    exceeds: Flags = too_large | too_small
    return exceeds


def _is_cut_off(cursor: Cursor, start: Ints, end: Ints, high: Ints) -> Flags:
    """Whether the bytes in front of the last 16 are more than a repeated sign."""
    found = np.zeros(len(start), np.bool_)
    for at in np.flatnonzero(end - start > 2 * _HALF).tolist():
        sign = 0xFF if high[at] < 0 else 0
        found[at] = (cursor.data[start[at] : end[at] - 2 * _HALF] != sign).any()
    return found

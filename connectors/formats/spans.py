"""Spans of bytes in a batch of records, and the columns that are copied out of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Bytes: TypeAlias = NDArray[np.uint8]
Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
Spans: TypeAlias = tuple[Ints, Ints]
"""Where the bytes of each row start and end."""

PADDING: Final = 32
"""Bytes of value 0 before the records and behind them: a read may begin or end outside of its record."""


def content_of(values: pa.Array) -> tuple[Bytes, Ints, Ints]:
    """Return the bytes of a binary column without nulls, with padding, and where each value starts and ends."""
    offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4).astype(np.int64)
    content = np.frombuffer(values.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    offsets += PADDING - offsets[0]
    data = np.zeros(len(content) + 2 * PADDING, np.uint8)
    data[PADDING : offsets[-1]] = content
    return data, offsets[:-1], offsets[1:]


def binary_of(data: Bytes, spans: Spans) -> pa.Array:
    """Copy spans into a binary column. Spans that are not empty are in ascending order."""
    start, end = spans
    empty = start == end  # at any place, and Arrow's offsets never descend
    offsets = np.zeros(2 * len(start) + 1, np.int64)
    offsets[:-1:2] = np.where(empty, 0, start)
    offsets[1::2] = np.where(empty, 0, end)
    offsets = np.maximum.accumulate(offsets).astype(np.int32)
    with_gaps = pa.Array.from_buffers(pa.binary(), 2 * len(start), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return with_gaps.take(pa.array(np.arange(0, 2 * len(start), 2)))


def as_text(values: pa.Array) -> tuple[pa.Array, Flags | None]:
    """Return binary values as text, and which are not UTF-8: empty in the text. None: all are."""
    try:
        return values.cast(pa.string()), None
    except pa.ArrowInvalid:
        pass
    wrong = np.array([not _is_utf8(value) for value in values.to_pylist()])
    return pc.if_else(pa.array(wrong), pa.scalar(b"", pa.binary()), values).cast(pa.string()), wrong


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def by_row(places: Sequence[Ints], count: int) -> tuple[Ints | None, pa.Array]:
    """Return the order that groups items by their rows, and where each of `count` rows begins in it.

    The order is None for items that have it already.
    """
    joined = np.concatenate([np.empty(0, np.int64), *places])
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(joined, minlength=count), out=offsets[1:])
    is_ordered = bool((joined[1:] >= joined[:-1]).all())
    return None if is_ordered else np.argsort(joined, kind="stable"), pa.array(offsets)


def last_of_equal(places: Sequence[Ints], keys: pa.Array) -> Ints | None:
    """Return the last entry of each key in each map; None if no map repeats a key. `places`: the map of each key."""
    if len(keys) < 2:
        return None
    codes = keys.dictionary_encode().indices.to_numpy().astype(np.int64)
    pairs = np.concatenate(list(places)) * (codes.max() + 1) + codes
    _, last = np.unique(pairs[::-1], return_index=True)
    return None if len(last) == len(pairs) else np.sort(len(pairs) - 1 - last)

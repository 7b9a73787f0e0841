"""Bytes of many rows at once: a piece has some bytes of each row, and `joined` puts the pieces of a row together.

No value passes through Python: numpy forms the bytes, and Arrow joins them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from connectors.formats.spans import Flags, Ints

Piece: TypeAlias = pa.BinaryArray | pa.BinaryScalar
"""Some bytes of each row. A scalar is the same bytes in all rows; a null has none."""

_MOST_BYTES: Final = 2**31 - 1
_PAYLOAD: Final = 0x7F
_BITS: Final = 7
_DECIMAL_BYTES: Final = 16
_HALF_BITS: Final = 63  # of the lower half of a decimal, without a sign


def joined(pieces: Sequence[Piece], count: int) -> pa.BinaryArray:
    """Return the bytes of each row, in the order of the pieces."""
    if len(pieces) == 1 and isinstance(pieces[0], pa.Array) and not pieces[0].null_count:
        return pieces[0]
    if all(isinstance(each, pa.Scalar) for each in pieces):
        return pa.repeat(constant(b"".join(each.as_py() for each in pieces)), count)
    return pc.binary_join_element_wise(*pieces, b"", null_handling="replace", null_replacement=b"")


def constant(content: bytes) -> pa.BinaryScalar:
    """Return a piece with the same bytes in all rows."""
    return pa.scalar(content, pa.binary())


def fixed(values: NDArray[Any]) -> pa.BinaryArray:
    """Return the bytes of each item of a one-dimensional array, or of each row of a two-dimensional one."""
    values = np.ascontiguousarray(values)
    width = values.itemsize * (values.shape[1] if values.ndim == 2 else 1)
    return binary(np.arange(0, len(values) * width + 1, width), pa.py_buffer(values))


def binary(ends: Ints | NDArray[np.int32], data: pa.Buffer | None) -> pa.BinaryArray:
    """Return a binary column with these bytes. `ends`: where a value begins, and the one before it ends.

    Raises ArrowCapacityError for more bytes than a column can have.
    """
    if ends[-1] > _MOST_BYTES:
        raise pa.ArrowCapacityError(f"{ends[-1]:,} bytes of one column in a batch, and at most {_MOST_BYTES:,} fit")
    offsets = pa.py_buffer(ends.astype(np.int32, copy=False))
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, [None, offsets, data or pa.py_buffer(b"")])


def offsets_of(values: pa.Array) -> NDArray[np.int32]:
    """Return where the bytes of each value begin, and where the last bytes end."""
    return np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4)


def numbers(values: Ints) -> pa.BinaryArray:
    """Return variable-length zig-zag numbers: `int`, `long`, lengths and branches of unions."""
    left: NDArray[np.uint64] = ((values << 1) ^ (values >> 63)).view(np.uint64)
    width = max(1, -(-int(left.max(initial=0)).bit_length() // _BITS))
    if width == 1:
        return fixed(left.astype(np.uint8))
    digits = np.empty((len(values), width), np.uint8)
    sizes = np.ones(len(values), np.int64)
    for at in range(width):
        more = left > _PAYLOAD
        digits[:, at] = (left & np.uint64(_PAYLOAD)).astype(np.uint8) | (more.view(np.uint8) << _BITS)
        sizes += more
        left = left >> np.uint64(_BITS)
    return chosen(digits, sizes, np.arange(width) < sizes[:, None])


def chosen(digits: NDArray[np.uint8], sizes: Ints, mask: Flags) -> pa.BinaryArray:
    """Return the bytes of each row for which the mask is true. `sizes`: their number."""
    if sizes.min(initial=digits.shape[1]) == digits.shape[1]:
        return fixed(digits)
    return binary(np.concatenate(([0], np.cumsum(sizes))), pa.py_buffer(digits[mask]))


def spread(piece: Piece, valid: Flags) -> pa.BinaryArray:
    """Return the piece of the valid rows as a piece of all rows, without a byte in the others."""
    ends = np.concatenate(([0], np.cumsum(valid)))
    if isinstance(piece, pa.Scalar):
        content = piece.as_py()
        return binary(ends * len(content), pa.py_buffer(content * int(ends[-1])))
    if piece.null_count:
        piece = pc.fill_null(piece, b"")
    return binary(offsets_of(piece)[ends], piece.buffers()[2])


def grouped(encoded: pa.BinaryArray, counts: Ints) -> pa.BinaryArray:
    """Return the bytes of so many values in a row as one value: the items of a list. Copies nothing."""
    ends = np.concatenate(([0], np.cumsum(counts)))
    return binary(offsets_of(encoded)[ends], encoded.buffers()[2])


def decimals(values: pa.Array) -> NDArray[np.uint8]:
    """Return the unscaled numbers of a column decimal128: 16 bytes each, the highest first."""
    raw = np.frombuffer(values.buffers()[1], np.uint8, len(values) * _DECIMAL_BYTES, values.offset * _DECIMAL_BYTES)
    return raw.reshape(-1, _DECIMAL_BYTES)[:, ::-1]


def decimal_sizes(values: pa.Array) -> Ints:
    """Return how many bytes hold each unscaled number in two's complement."""
    halves = np.frombuffer(values.buffers()[1], np.int64, 2 * len(values), values.offset * _DECIMAL_BYTES)
    low, high = halves.reshape(-1, 2).T
    sign = high >> 63
    low, high = (low ^ sign).view(np.uint64), (high ^ sign).view(np.uint64)
    lower = np.searchsorted(_BOUNDS, low, side="right") + 1
    upper = np.searchsorted(_BOUNDS, high, side="right") + 1 + 8
    return np.where(high > 0, upper, np.where(low >> np.uint64(_HALF_BITS) > 0, 9, lower)).astype(np.int64)


_BOUNDS: Final = np.array([1 << (8 * size - 1) for size in range(1, 8)], np.uint64)
"""The least number without a sign that needs a byte more."""

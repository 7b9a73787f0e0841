"""Numbers of variable length, seven bits in each byte: Avro and Protobuf write them."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from connectors.formats.spans import Bytes, Flags, Ints

LONGEST: Final = 10
"""Bytes of the longest number."""


def varints(data: Bytes, at: Ints) -> tuple[NDArray[np.uint64], Ints, Flags]:
    """Return the number at each place, its size, and whether it has more than 64 bits.

    `data`: ends in at least ten bytes of value 0. A number that has more bits is 0.
    """
    byte = data[at]
    value = (byte & 0x7F).astype(np.uint64)
    size = np.ones(len(at), np.int64)
    overlong = np.zeros(len(at), np.bool_)
    going = np.flatnonzero(byte >= 0x80)
    for width in range(1, LONGEST):
        if not len(going):
            break
        byte = data[at[going] + width]
        value[going] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * width)
        size[going] += 1
        if width == LONGEST - 1:
            overlong[going[byte > 1]] = True
            value[overlong] = 0
        going = going[byte >= 0x80]
    return value, size, overlong


def zigzag(values: NDArray[np.uint64]) -> Ints:
    """Decode zig-zag numbers: return numbers with signs."""
    signed: Ints = (values >> np.uint64(1)).view(np.int64) ^ -(values & np.uint64(1)).view(np.int64)
    return signed

"""The next position in each record of a batch, and the reading of numbers and bytes there for many records at once."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
Spans: TypeAlias = tuple[Ints, Ints]
"""Where the bytes of each row start and end."""
Rows: TypeAlias = Ints | slice
"""Numbers of records. The slice ALL is every record, without a copy."""

ALL: Final = slice(None)

_WIDEST: Final = 16
"""Bytes of the widest value that `fixed` loads. So many bytes are 0 before the records and behind them."""

_LONGEST: Final = 10
"""Bytes of the longest number."""


class Cursor:
    """The records of a batch.

    A record with a fault is *parked*: its position moves behind the last record, where every byte is 0 and nothing
    advances. The other records are read on, and the parked ones are left out in the end.
    """

    def __init__(self, values: pa.Array, start: int = 0) -> None:
        """`values`: a binary column without nulls. `start`: bytes of each value to leave out."""
        offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4).astype(np.int64)
        content = np.frombuffer(values.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
        offsets += _WIDEST - offsets[0]
        self.data = np.zeros(len(content) + 2 * _WIDEST + _LONGEST, np.uint8)
        self.data[_WIDEST : offsets[-1]] = content
        self._parked: int = offsets[-1] + 1
        # Invariant: _at <= _end < _parked, or both are _parked.
        self._at: Ints = np.minimum(offsets[:-1] + start, offsets[1:])
        self._end: Ints = offsets[1:].copy()
        self.faults: dict[int, str] = {}
        """Reason by record: the first fault of each."""

    def __len__(self) -> int:
        return len(self._at)

    def count(self, rows: Rows) -> int:
        """Return the number of rows."""
        return len(self._at) if isinstance(rows, slice) else len(rows)

    def park(self, rows: Rows, chosen: Flags, reason: str) -> None:
        """Park the chosen ones of `rows`. A record that is parked already keeps its first reason."""
        found = select(rows, chosen)
        for row in found[self._at[found] != self._parked].tolist():
            self.faults[row] = reason
        self._at[found] = self._end[found] = self._parked

    def left(self, rows: Rows) -> Ints:
        """Return how many bytes of each record are unread."""
        left: Ints = self._end[rows] - self._at[rows]
        return left

    def finish(self) -> None:
        """Park each record that has bytes behind its last field."""
        left = self.left(ALL)
        for row in np.flatnonzero(left).tolist():
            self.faults[row] = f"{left[row]} bytes follow the last field"

    def longs(self, rows: Rows, what: str) -> Ints:
        """Read a variable-length zig-zag number of each row; 0 for a row that is parked."""
        at = self._at[rows]
        byte = self.data[at]
        value = (byte & 0x7F).astype(np.uint64)
        size = np.ones(len(at), np.int64)
        going = np.flatnonzero(byte >= 0x80)
        for width in range(1, _LONGEST):
            if not len(going):
                break
            byte = self.data[at[going] + width]
            value[going] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * width)
            size[going] += 1
            if width == _LONGEST - 1 and (byte > 1).any():
                overlong = np.zeros(len(at), np.bool_)
                overlong[going[byte > 1]] = True
                self.park(rows, overlong, f"{what}: a number has more than 64 bits")
            going = going[byte >= 0x80]
        if self._advance(rows, size, what):
            value[self._at[rows] == self._parked] = 0
        return (value >> np.uint64(1)).view(np.int64) ^ -(value & np.uint64(1)).view(np.int64)

    def fixed(self, rows: Rows, dtype: str, what: str) -> NDArray[Any]:
        """Read a value of a fixed width, such as `<f8`, of each row. A row that is parked has any value."""
        width = np.dtype(dtype).itemsize
        at = self._at[rows]
        everywhere: NDArray[Any] = np.ndarray((len(self.data) - width + 1,), dtype, self.data, strides=(1,))
        values = everywhere[at]
        self._advance(rows, np.full(len(at), width, np.int64), what)
        return values

    def words_before(self, end: Ints) -> NDArray[np.uint64]:
        """Return the 8 bytes before each place as a big-endian number. A place is behind a value of some record."""
        everywhere: NDArray[np.uint64] = np.ndarray((len(self.data) - 7,), ">u8", self.data, strides=(1,))
        return everywhere[end - 8].astype(np.uint64)

    def spans(self, rows: Rows, lengths: Ints, what: str) -> Spans:
        """Step over `lengths` bytes of each row. The span of a row that is parked is empty."""
        negative, long = lengths < 0, lengths > self.left(rows)
        if negative.any() or long.any():
            self.park(rows, negative, f"{what}: a negative length")
            self.park(rows, long, f"{what}: the record ends before the value")
            lengths = np.where(negative | long, 0, lengths)
        start = self._at[rows].copy()
        end = start + lengths
        self._at[rows] = end
        return start, end

    def binary(self, spans: Spans) -> pa.Array:
        """Copy spans into a binary column. Spans that are not empty are in ascending order."""
        start, end = spans
        empty = start == end  # at any place, and Arrow's offsets never descend
        offsets = np.zeros(2 * len(start) + 1, np.int64)
        offsets[:-1:2] = np.where(empty, 0, start)
        offsets[1::2] = np.where(empty, 0, end)
        offsets = np.maximum.accumulate(offsets).astype(np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.data)]
        with_gaps = pa.Array.from_buffers(pa.binary(), 2 * len(start), buffers)
        return with_gaps.take(pa.array(np.arange(0, 2 * len(start), 2)))

    def _advance(self, rows: Rows, size: Ints, what: str) -> bool:
        """Move each row on, and park the rows that end before. Return whether any row is parked."""
        self._at[rows] += size
        behind = self._at[rows] > self._end[rows]
        if not behind.any():
            return False
        found = select(rows, behind)
        for row in found[self._end[found] != self._parked].tolist():
            self.faults[row] = f"{what}: the record ends too early"
        self._at[found] = self._end[found] = self._parked
        return True


def select(rows: Rows, chosen: Flags) -> Ints:
    """Return the rows for which `chosen` is True."""
    found: Ints = np.flatnonzero(chosen)
    return found if isinstance(rows, slice) else rows[found]

"""The next position in each record of a batch, and the reading of numbers and bytes there for many records at once."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from connectors.formats.spans import PADDING, Flags, Ints, Spans, binary_of, content_of
from connectors.formats.varints import varints, zigzag

Rows: TypeAlias = Ints | slice
"""Numbers of records. The slice ALL is every record, without a copy."""

ALL: Final = slice(None)

MOST_ITEMS: Final = 100_000
"""Steps of a record: items that are read one after another, and blocks that are read at once. So many take 20 s."""


class Cursor:
    """The records of a batch.

    A record with a fault is *parked*: its position moves behind the last record, where every byte is 0 and nothing
    advances. The other records are read on, and the parked ones are left out in the end.
    """

    def __init__(self, values: pa.Array, start: int = 0) -> None:
        """`values`: a binary column without nulls. `start`: bytes of each value to leave out."""
        self.data, first, end = content_of(values)
        self._parked: int = len(self.data) - PADDING + 1
        # Invariant: _at <= _end < _parked, or both are _parked.
        self._at: Ints = np.minimum(first + start, end)
        self._end: Ints = end.copy()
        self._items: Ints = np.zeros(len(end), np.int64)  # that `count_items` has counted
        self._last_bytes: Ints | None = None  # places of the last bytes of numbers, if all bytes were numbers
        self.faults: dict[int, str] = {}
        """Reason by record: the first fault of each."""

    def count(self, rows: Rows) -> int:
        """Return the number of rows."""
        return len(self._at) if isinstance(rows, slice) else len(rows)

    def park(self, rows: Rows, chosen: Flags, reason: str) -> None:
        """Park the chosen ones of `rows`. A record that is parked already keeps its first reason."""
        if not chosen.any():
            return
        found = select(rows, chosen)
        for row in found[self._end[found] != self._parked].tolist():
            self.faults[row] = reason
        self._at[found] = self._end[found] = self._parked

    def count_items(self, rows: Ints, counts: Ints, what: str) -> Flags:
        """Count items of each row, and park rows with more than MOST_ITEMS. Return which rows have no more."""
        self._items[rows] += counts
        within: Flags = self._items[rows] <= MOST_ITEMS
        self.park(rows, ~within, f"{what}: the record has more than {MOST_ITEMS:,} items")
        return within

    def left(self, rows: Rows) -> Ints:
        """Return how many bytes of each record are unread."""
        left: Ints = self._end[rows] - self._at[rows]
        return left

    def whole(self) -> Spans:
        """Return the span of the unread bytes of each record."""
        return self._at.copy(), self._end.copy()

    def finish(self) -> None:
        """Park each record that has bytes behind its last field."""
        left = self.left(ALL)
        for row in np.flatnonzero(left).tolist():
            self.faults[row] = f"{left[row]} bytes follow the last field"

    def longs(self, rows: Rows, what: str) -> Ints:
        """Read a variable-length zig-zag number of each row; 0 for a row that is parked."""
        values, size, overlong = self._numbers(self._at[rows])
        self.park(rows, overlong, f"{what}: a number has more than 64 bits")
        if self._advance(rows, size, what):
            values[self._at[rows] == self._parked] = 0
        return values

    def longs_run(self, rows: Ints, counts: Ints, what: str) -> Ints:
        """Read `counts` numbers of each row, one row after another; 0 for a row that is parked."""
        if self._last_bytes is None:
            self._last_bytes = np.flatnonzero(self.data < 0x80)
        first = np.searchsorted(self._last_bytes, self._at[rows])
        last = self._last_bytes[np.minimum(first + counts, len(self._last_bytes)) - 1]
        short = last >= self._end[rows]
        self.park(rows, short, f"{what}: the record ends too early")
        number = _ascending(counts)
        following = self._last_bytes[np.minimum(np.repeat(first, counts) + number, len(self._last_bytes)) - 1] + 1
        starts = np.where(number == 0, np.repeat(self._at[rows], counts), following)
        starts[np.repeat(short, counts)] = self._parked
        values, _, overlong = self._numbers(starts)
        self._at[rows] = np.where(short, self._parked, last + 1)
        self.park(np.repeat(rows, counts), overlong, f"{what}: a number has more than 64 bits")
        return values

    def fixed(self, rows: Rows, dtype: str, what: str) -> NDArray[Any]:
        """Read a value of a fixed width, such as `<f8`, of each row. A row that is parked has any value."""
        at = self._at[rows]
        values = self._everywhere(dtype)[at]
        self._advance(rows, np.full(len(at), np.dtype(dtype).itemsize, np.int64), what)
        return values

    def fixed_run(self, rows: Ints, counts: Ints, dtype: str, what: str) -> NDArray[Any]:
        """Read `counts` such values of each row, one row after another. The caller has compared their size."""
        width = np.dtype(dtype).itemsize
        values: NDArray[Any] = self._everywhere(dtype)[np.repeat(self._at[rows], counts) + _ascending(counts) * width]
        self._advance(rows, counts * width, what)
        return values

    def _everywhere(self, dtype: str) -> NDArray[Any]:
        """Return the value that begins at each byte."""
        width = np.dtype(dtype).itemsize
        values: NDArray[Any] = np.ndarray((len(self.data) - width + 1,), dtype, self.data, strides=(1,))
        return values

    def _numbers(self, at: Ints) -> tuple[Ints, Ints, Flags]:
        """Return the number at each place, its size, and whether it is longer than 64 bits."""
        values, size, overlong = varints(self.data, at)
        return zigzag(values), size, overlong

    def words_before(self, end: Ints) -> NDArray[np.uint64]:
        """Return the 8 bytes before each place as a big-endian number. A place is behind a value of some record."""
        words: NDArray[np.uint64] = self._everywhere(">u8")[end - 8].astype(np.uint64)
        return words

    def spans(self, rows: Rows, lengths: Ints, what: str) -> Spans:
        """Step over `lengths` bytes of each row. The span of a row that is parked is empty."""
        negative, long = lengths < 0, lengths > self.left(rows)
        self.park(rows, negative, f"{what}: a negative length")
        self.park(rows, long, f"{what}: the record ends before the value")
        start = self._at[rows].copy()
        end = start + np.where(negative | long, 0, lengths)
        self._at[rows] = end
        return start, end

    def binary(self, spans: Spans) -> pa.Array:
        """Copy spans into a binary column. Spans that are not empty are in ascending order."""
        return binary_of(self.data, spans)

    def _advance(self, rows: Rows, size: Ints, what: str) -> bool:
        """Move each row on, and park the rows that end before. Return whether any row is parked."""
        self._at[rows] += size
        behind = self._at[rows] > self._end[rows]
        self.park(rows, behind, f"{what}: the record ends too early")
        return bool(behind.any())


def _ascending(counts: Ints) -> Ints:
    """Return 0, 1, 2 … for each count, up to the count."""
    ends = np.cumsum(counts)
    numbers: Ints = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
    return numbers


def select(rows: Rows, chosen: Flags) -> Ints:
    """Return the rows for which `chosen` is True."""
    found: Ints = np.flatnonzero(chosen)
    return found if isinstance(rows, slice) else rows[found]

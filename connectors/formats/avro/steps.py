"""Reading of values that have no parts: numbers, text, bytes, enums. One step per field of a writer's schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from connectors.formats.avro.cursor import Cursor, Rows
from connectors.formats.avro.unscaled import decimals
from connectors.formats.spans import Ints, Spans, as_text

DURATION: Final = pa.struct([pa.field(name, pa.int64(), nullable=False) for name in ("months", "days", "milliseconds")])
"""The type of a `duration`: Spark has no type for its three parts."""


class Step(Protocol):
    """A part of the plan by which records are read.

    Built by: `resolution`. Called by: the step around it, in a task, once per batch for the rows that have the value.
    It is immutable and can be pickled.
    """

    @property
    def type(self) -> pa.DataType:
        """The type of the column that `read` returns."""

    def read(self, cursor: Cursor, rows: Rows) -> pa.Array:
        """Read the value of each row, in the order of the rows, and move the cursor behind it.

        A row with a fault is parked, and has any value in the column. Never blocks.
        """


@runtime_checkable
class RunStep(Step, Protocol):
    """A step that can read several values of a row at once: the items of an array."""

    def read_run(self, cursor: Cursor, rows: Ints, counts: Ints) -> pa.Array:
        """Read `counts` values of each row, of one row after those of another."""


@dataclass(frozen=True, slots=True)
class NullStep:
    """`null`: takes no bytes."""

    type: pa.DataType

    def read(self, cursor: Cursor, rows: Rows) -> pa.Array:
        return pa.nulls(cursor.count(rows), self.type)


@dataclass(frozen=True, slots=True)
class BooleanStep:
    """`boolean`: a byte 0 or 1."""

    what: str
    type: pa.DataType = pa.bool_()  # noqa: RUF009 - immutable

    def read(self, cursor: Cursor, rows: Rows) -> pa.Array:
        return self._column(cursor, rows, cursor.fixed(rows, "u1", self.what))

    def read_run(self, cursor: Cursor, rows: Ints, counts: Ints) -> pa.Array:
        return self._column(cursor, np.repeat(rows, counts), cursor.fixed_run(rows, counts, "u1", self.what))

    def _column(self, cursor: Cursor, rows: Rows, values: NDArray[np.uint8]) -> pa.Array:
        cursor.park(rows, values > 1, f"{self.what}: neither true nor false")
        return pa.array(values == 1)


@dataclass(frozen=True, slots=True)
class NumberStep:
    """`int` or `long`, with the logical types that they carry."""

    what: str
    type: pa.DataType
    low: int
    high: int
    convert: Callable[[Ints], pa.Array]
    whole: int = 1  # what is not a multiple is refused

    def read(self, cursor: Cursor, rows: Rows) -> pa.Array:
        return self._column(cursor, rows, cursor.longs(rows, self.what))

    def read_run(self, cursor: Cursor, rows: Ints, counts: Ints) -> pa.Array:
        return self._column(cursor, np.repeat(rows, counts), cursor.longs_run(rows, counts, self.what))

    def _column(self, cursor: Cursor, rows: Rows, values: Ints) -> pa.Array:
        wrong = (values < self.low) | (values > self.high)
        cursor.park(rows, wrong, f"{self.what}: a number out of the range of its type")
        values[wrong] = 0
        if self.whole > 1:
            cursor.park(rows, values % self.whole != 0, f"{self.what}: has nanoseconds, and the column microseconds")
        return self.convert(values)


@dataclass(frozen=True, slots=True)
class FloatStep:
    """`float` or `double`, by `width` the `<f4` or `<f8` of the writer."""

    what: str
    width: str
    type: pa.DataType

    def read(self, cursor: Cursor, rows: Rows) -> pa.Array:
        return pa.array(cursor.fixed(rows, self.width, self.what)).cast(self.type)

    def read_run(self, cursor: Cursor, rows: Ints, counts: Ints) -> pa.Array:
        return pa.array(cursor.fixed_run(rows, counts, self.width, self.what)).cast(self.type)


@dataclass(frozen=True, slots=True)
class BytesStep:
    """`bytes` or `string` as BINARY. Also `fixed`, of `size` bytes."""

    what: str
    size: int | None = None
    type: pa.DataType = pa.binary()  # noqa: RUF009 - immutable

    def read(self, cursor: Cursor, rows: Rows) -> pa.Array:
        return cursor.binary(spans_of(cursor, rows, self.what, self.size))


@dataclass(frozen=True, slots=True)
class TextStep:
    """`string`, or `bytes` where the reader wants a string: UTF-8."""

    what: str
    type: pa.DataType = pa.string()  # noqa: RUF009 - immutable

    def read(self, cursor: Cursor, rows: Rows) -> pa.Array:
        return text_of(cursor, rows, cursor.binary(spans_of(cursor, rows, self.what, None)), self.what)


@dataclass(frozen=True, slots=True)
class EnumStep:
    """`enum`: the reader's symbol for each of the writer's; None where the reader has none."""

    what: str
    symbols: Sequence[str | None]
    names: Sequence[str]  # the writer's
    type: pa.DataType = pa.string()  # noqa: RUF009 - immutable

    def read(self, cursor: Cursor, rows: Rows) -> pa.Array:
        numbers = cursor.longs(rows, self.what)
        outside = (numbers < 0) | (numbers >= len(self.symbols))
        cursor.park(rows, outside, f"{self.what}: not one of {len(self.symbols)} symbols")
        numbers = np.where(outside, 0, numbers)
        values = pa.array(self.symbols, self.type).take(pa.array(numbers))
        if values.null_count:
            for at in np.unique(numbers[values.is_null().to_numpy(zero_copy_only=False)]).tolist():
                cursor.park(rows, numbers == at, f"{self.what}: the reader's schema has no symbol {self.names[at]}")
        return values


@dataclass(frozen=True, slots=True)
class DecimalStep:
    """`decimal` in `bytes`, or in `fixed` of `size`: an unscaled big-endian number in two's complement."""

    what: str
    type: pa.Decimal128Type
    size: int | None = None

    def read(self, cursor: Cursor, rows: Rows) -> pa.Array:
        spans = spans_of(cursor, rows, self.what, self.size)
        cursor.park(rows, spans[0] == spans[1], f"{self.what}: a decimal without bytes")
        values, wrong = decimals(cursor, spans, self.type)
        cursor.park(rows, wrong, f"{self.what}: more than {self.type.precision} digits")
        return values


def spans_of(cursor: Cursor, rows: Rows, what: str, size: int | None) -> Spans:
    """Return where the bytes of each row are: of a `fixed` of `size` bytes, or behind their length."""
    lengths = cursor.longs(rows, what) if size is None else np.full(cursor.count(rows), size, np.int64)
    return cursor.spans(rows, lengths, what)


def text_of(cursor: Cursor, rows: Rows, values: pa.Array, what: str) -> pa.Array:
    """Return binary values as text, and park the rows whose bytes are not UTF-8."""
    text, wrong = as_text(values)
    if wrong is not None:
        cursor.park(rows, wrong, f"{what}: not UTF-8")
    return text


@dataclass(frozen=True, slots=True)
class UuidStep:
    """`uuid` in a `fixed` of 16 bytes, as the text that RFC 9562 writes."""

    what: str
    type: pa.DataType = pa.string()  # noqa: RUF009 - immutable

    def read(self, cursor: Cursor, rows: Rows) -> pa.Array:
        start, _ = spans_of(cursor, rows, self.what, _UUID_BYTES)
        digits = _HEX[cursor.data[start[:, None] + np.arange(_UUID_BYTES)]].reshape(len(start), 2 * _UUID_BYTES)
        text = np.full((len(start), _UUID_CHARACTERS), ord("-"), np.uint8)
        text[:, _UUID_DIGITS] = digits
        offsets = np.arange(0, text.size + 1, _UUID_CHARACTERS, dtype=np.int32)
        return pa.Array.from_buffers(pa.string(), len(start), [None, pa.py_buffer(offsets), pa.py_buffer(text)])


_UUID_BYTES: Final = 16
_UUID_CHARACTERS: Final = 36
_UUID_DIGITS: Final = [at for at in range(_UUID_CHARACTERS) if at not in (8, 13, 18, 23)]
_HEX: Final = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint8).reshape(256, 2)


@dataclass(frozen=True, slots=True)
class DurationStep:
    """`duration`: months, days and milliseconds, each of 32 bits without a sign."""

    what: str
    type: pa.DataType = DURATION

    def read(self, cursor: Cursor, rows: Rows) -> pa.Array:
        parts = [pa.array(cursor.fixed(rows, "<u4", self.what).astype(np.int64)) for _ in range(3)]
        return pa.StructArray.from_arrays(parts, fields=list(self.type))

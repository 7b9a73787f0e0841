"""Writing of values that have no parts: numbers, text, bytes, enums. One step per field of a schema.

A step raises ArrowInvalid for a value that the schema cannot hold, with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.avro.pieces import (
    Piece,
    chosen,
    constant,
    decimal_sizes,
    decimals,
    fixed,
    numbers,
    offsets_of,
    spread,
)
from connectors.formats.spans import Ints

_UUID: Final = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
_TIME: Final = r"^(?P<h>[01]\d|2[0-3]):(?P<m>[0-5]\d):(?P<s>[0-5]\d)(?:\.(?P<f>\d{1,6}))?$"
_UNSIGNED: Final = 2**32


class WriteStep(Protocol):
    """A part of the plan by which rows are encoded.

    Built by: `matching`. Called by: the step around it, in a task, once per batch. It is immutable.
    """

    def pieces(self, values: pa.Array) -> list[Piece]:
        """Return the bytes of each value, in pieces that follow each other.

        `values`: without nulls, unless the step is of a union. Raises ArrowInvalid. Never blocks.
        """


@dataclass(frozen=True, slots=True)
class RequiredStep:
    """Any type but a union: takes no null."""

    what: str
    step: WriteStep

    def pieces(self, values: pa.Array) -> list[Piece]:
        if values.null_count:
            raise pa.ArrowInvalid(f"{self.what}: NULL, which the schema does not take")
        return self.step.pieces(values)


@dataclass(frozen=True, slots=True)
class OptionalStep:
    """`union` of null and one type."""

    step: WriteStep
    branch: int  # of the type

    def pieces(self, values: pa.Array) -> list[Piece]:
        if not values.null_count:
            return [constant(bytes([2 * self.branch])), *self.step.pieces(values)]
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        branches = np.where(valid, 2 * self.branch, 2 * (1 - self.branch)).astype(np.uint8)
        return [fixed(branches), *(spread(each, valid) for each in self.step.pieces(values.drop_null()))]


@dataclass(frozen=True, slots=True)
class LoneStep:
    """`union` of one type, which is not null."""

    what: str
    step: WriteStep

    def pieces(self, values: pa.Array) -> list[Piece]:
        return [constant(b"\0"), *RequiredStep(self.what, self.step).pieces(values)]


@dataclass(frozen=True, slots=True)
class NullStep:
    """`union` with null, of a column that has no value in any row; or `null`."""

    branch: int | None  # of null in the union; None: not a union

    def pieces(self, values: pa.Array) -> list[Piece]:
        return [] if self.branch is None else [numbers(np.full(len(values), self.branch, np.int64))]


@dataclass(frozen=True, slots=True)
class BooleanStep:
    """`boolean`: a byte 0 or 1."""

    def pieces(self, values: pa.Array) -> list[Piece]:
        return [fixed(values.cast(pa.uint8()).to_numpy())]


@dataclass(frozen=True, slots=True)
class NumberStep:
    """`int` or `long` with their logical types, from a column that holds whole numbers."""

    what: str
    low: int
    high: int
    multiply: int = 1  # from the unit of the column to the schema's
    divide: int = 1

    def pieces(self, values: pa.Array) -> list[Piece]:
        return [numbers(self.scaled(whole_numbers(values)))]

    def scaled(self, found: Ints) -> Ints:
        """Return the numbers in the unit of the schema."""
        if self.divide > 1:
            if (found % self.divide).any():
                raise pa.ArrowInvalid(f"{self.what}: more decimals of a second than the schema holds")
            found = found // self.divide
        # Compared before the multiplication, which would overflow silently.
        if ((found < -(-self.low // self.multiply)) | (found > self.high // self.multiply)).any():
            raise pa.ArrowInvalid(f"{self.what}: a number out of the range of the schema's type")
        return found * self.multiply


def whole_numbers(values: pa.Array) -> Ints:
    """Return the numbers of a column without nulls: integers, dates, and times in microseconds."""
    kind = values.type
    if pa.types.is_date(kind):
        values = values.cast(pa.date32()).cast(pa.int32())
    if pa.types.is_timestamp(kind):
        values = values.cast(pa.timestamp("us", kind.tz))
    if pa.types.is_time(kind):
        values = values.cast(pa.time64("us"))
    found: Ints = values.cast(pa.int64()).to_numpy()
    return found


@dataclass(frozen=True, slots=True)
class TimeTextStep:
    """`time-millis` or `time-micros` from text, such as `13:05:00.250000`."""

    what: str
    number: NumberStep

    def pieces(self, values: pa.Array) -> list[Piece]:
        parts = pc.extract_regex(values, _TIME)
        if parts.null_count:
            raise pa.ArrowInvalid(f"{self.what}: not a time, such as 13:05:00.250000")
        hours, minutes, seconds = (pc.struct_field(parts, name).cast(pa.int64()).to_numpy() for name in "hms")
        decimals_of = pc.utf8_rpad(pc.struct_field(parts, "f"), 6, "0").cast(pa.int64()).to_numpy()
        return [numbers(self.number.scaled(((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + decimals_of))]


@dataclass(frozen=True, slots=True)
class FloatStep:
    """`float` or `double`, by `width` `<f4` or `<f8`."""

    width: str

    def pieces(self, values: pa.Array) -> list[Piece]:
        return [fixed(values.to_numpy(zero_copy_only=False).astype(self.width))]


@dataclass(frozen=True, slots=True)
class BytesStep:
    """`string` or `bytes`: a length, and the bytes."""

    def pieces(self, values: pa.Array) -> list[Piece]:
        values = values.cast(pa.binary())
        return [numbers(pc.binary_length(values).cast(pa.int64()).to_numpy()), values]


@dataclass(frozen=True, slots=True)
class FixedStep:
    """`fixed`: bytes of one size, without their length."""

    what: str
    size: int

    def pieces(self, values: pa.Array) -> list[Piece]:
        values = values.cast(pa.binary())
        if pc.any(pc.not_equal(pc.binary_length(values), self.size)).as_py():
            raise pa.ArrowInvalid(f"{self.what}: not {self.size} bytes")
        return [values]


@dataclass(frozen=True, slots=True)
class UuidStep:
    """`uuid` in a `string`, or in a `fixed` of 16 bytes."""

    what: str
    is_fixed: bool

    def pieces(self, values: pa.Array) -> list[Piece]:
        if not pc.all(pc.match_substring_regex(values, _UUID)).as_py() and len(values):
            raise pa.ArrowInvalid(f"{self.what}: not a UUID, such as 123e4567-e89b-12d3-a456-426614174000")
        if not self.is_fixed:
            return BytesStep().pieces(values)
        digits = pc.utf8_lower(pc.replace_substring(values, "-", ""))
        ends = offsets_of(digits)
        characters = np.frombuffer(digits.buffers()[2] or b"", np.uint8)[ends[0] : ends[-1]]
        halves = np.where(characters >= ord("a"), characters - (ord("a") - 10), characters - ord("0")).astype(np.uint8)
        return [fixed((halves[::2] << 4 | halves[1::2]).reshape(-1, 16))]


@dataclass(frozen=True, slots=True)
class EnumStep:
    """`enum`: the number of the symbol."""

    what: str
    symbols: tuple[str, ...]

    def pieces(self, values: pa.Array) -> list[Piece]:
        found = pc.index_in(values, pa.array(self.symbols, values.type))
        if found.null_count:
            raise pa.ArrowInvalid(f"{self.what}: not one of the {len(self.symbols)} symbols of the schema")
        return [numbers(found.cast(pa.int64()).to_numpy())]


@dataclass(frozen=True, slots=True)
class DecimalStep:
    """`decimal` in `bytes`, or in `fixed` of `size`: an unscaled big-endian number in two's complement."""

    what: str
    type: pa.Decimal128Type
    size: int | None = None

    def pieces(self, values: pa.Array) -> list[Piece]:
        try:
            values = values.cast(self.type)
        except pa.ArrowInvalid:
            raise pa.ArrowInvalid(f"{self.what}: more than {self.type.precision} digits") from None
        content, sizes = decimals(values), decimal_sizes(values)
        if self.size is None:
            whole = np.zeros((len(values), 17), np.uint8)
            whole[:, 1:] = content
            whole[np.arange(len(values)), 16 - sizes] = 2 * sizes  # the length, in front of the number
            return [chosen(whole, sizes + 1, np.arange(17) >= 16 - sizes[:, None])]
        if self.size <= content.shape[1]:
            return [fixed(content[:, content.shape[1] - self.size :])]
        padded = np.where(content[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8).repeat(self.size - 16, axis=1)
        return [fixed(np.concatenate([padded, content], axis=1))]


@dataclass(frozen=True, slots=True)
class DurationStep:
    """`duration`: months, days and milliseconds, each of 32 bits without a sign."""

    what: str

    def pieces(self, values: pa.Array) -> list[Piece]:
        found = []
        for at in range(3):
            part = values.field(at)
            if part.null_count:
                raise pa.ArrowInvalid(f"{self.what}: a part of a duration is NULL")
            numbers_of = part.cast(pa.int64()).to_numpy()
            if ((numbers_of < 0) | (numbers_of >= _UNSIGNED)).any():
                raise pa.ArrowInvalid(f"{self.what}: a part of a duration is below 0, or above 32 bits")
            found.append(numbers_of.astype("<u4"))
        return [fixed(np.stack(found, axis=1))]

"""Reading of single values: numbers, enums, text and bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from connectors.formats.protobuf.faults import Faults
from connectors.formats.protobuf.walk import LENGTH
from connectors.formats.protobuf.wire import Tokens
from connectors.formats.spans import Bytes, as_text, binary_of
from connectors.formats.varints import zigzag

UINT64: Final = pa.decimal128(20, 0)
"""The type of a column that holds each number of 64 bits without a sign."""


class Value(Protocol):
    """Reads the values of one field. Immutable."""

    @property
    def type(self) -> pa.DataType:
        """The type of the column."""

    @property
    def wire(self) -> int:
        """The type that the field has in the wire format."""

    @property
    def default(self) -> Any:
        """The value of a field without presence that is absent."""

    def read(self, data: Bytes, tokens: Tokens, faults: Faults) -> pa.Array:
        """Return the value of each token. Tokens are in the order of their bytes. Adds bad messages to `faults`."""


@dataclass(frozen=True, slots=True)
class Coding:
    """How the wire format writes a scalar type of numbers."""

    wire: int
    load: str  # signed, unsigned, zigzag; or numpy's type of a number of fixed length
    low: int = 0
    high: int = 0  # low = high = 0: any


@dataclass(frozen=True, slots=True)
class NumberValue:
    """A number or a bool. A number that the writer's or the reader's type does not have is a fault."""

    what: str
    coding: Coding
    low: int
    high: int
    type: pa.DataType
    name: str  # of the reader's type, for messages

    @property
    def wire(self) -> int:
        return self.coding.wire

    @property
    def default(self) -> Any:
        return False if self.type == pa.bool_() else 0

    def read(self, data: Bytes, tokens: Tokens, faults: Faults) -> pa.Array:
        values = loaded(self.coding, data, tokens)
        if values.dtype.kind == "f":
            return pa.array(values)
        values = within(values, self.low, self.high, f"{self.what}: outside of {self.name}", tokens, faults)
        if self.type == UINT64:
            halves = np.stack([values.astype(np.uint64), np.zeros(len(values), np.uint64)], 1)
            return pa.Array.from_buffers(UINT64, len(values), [None, pa.py_buffer(halves)])
        return pa.array(values.astype(self.type.to_pandas_dtype()))


@dataclass(frozen=True, slots=True)
class EnumValue:
    """An enum, as the name of the number. A number without a name is a fault, in open and in closed enums."""

    what: str
    coding: Coding
    names: Mapping[int, str]
    default: str | None  # the name of 0
    type: pa.DataType = pa.string()  # noqa: RUF009 - immutable

    @property
    def wire(self) -> int:
        return self.coding.wire

    def read(self, data: Bytes, tokens: Tokens, faults: Faults) -> pa.Array:
        values = loaded(self.coding, data, tokens)
        known = np.array(sorted(self.names), np.int64)
        values = within(values, int(known[0]), int(known[-1]), f"{self.what}: a number without a name", tokens, faults)
        numbers = values.astype(np.int64)
        at = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
        faults.check(tokens.row, known[at] != numbers, f"{self.what}: a number without a name")
        return pa.array([self.names[number] for number in known.tolist()], pa.string()).take(pa.array(at))


@dataclass(frozen=True, slots=True)
class BytesValue:
    """`bytes`, or a message that stays as it is."""

    what: str
    wire: int = LENGTH
    default: bytes = b""
    type: pa.DataType = pa.binary()  # noqa: RUF009 - immutable

    def read(self, data: Bytes, tokens: Tokens, faults: Faults) -> pa.Array:
        return binary_of(data, tokens.spans)


@dataclass(frozen=True, slots=True)
class TextValue:
    """`string`: UTF-8, also where the schema does not have it checked."""

    what: str
    wire: int = LENGTH
    default: str = ""
    type: pa.DataType = pa.string()  # noqa: RUF009 - immutable

    def read(self, data: Bytes, tokens: Tokens, faults: Faults) -> pa.Array:
        text, wrong = as_text(binary_of(data, tokens.spans))
        if wrong is not None:
            faults.check(tokens.row, wrong, f"{self.what}: not UTF-8")
        return text


def loaded(coding: Coding, data: Bytes, tokens: Tokens) -> NDArray[Any]:
    """Return the number of each token."""
    match coding.load:
        case "signed":
            return tokens.value.view(np.int64)
        case "unsigned":
            return tokens.value
        case "zigzag":
            return zigzag(tokens.value)
    width = np.dtype(coding.load).itemsize
    everywhere: NDArray[Any] = np.ndarray((len(data) - width + 1,), coding.load, data, strides=(1,))
    values: NDArray[Any] = everywhere[tokens.at]
    return values


def within(values: NDArray[Any], low: int, high: int, reason: str, tokens: Tokens, faults: Faults) -> NDArray[Any]:
    """Return the numbers, with `low` or 0 in place of each that is outside of the bounds: its message is bad."""
    info = np.iinfo(values.dtype)
    wrong = np.zeros(len(values), np.bool_)
    if low > info.min:
        wrong |= values < values.dtype.type(min(low, info.max))
    if high < info.max:
        wrong |= values > values.dtype.type(max(high, info.min))
    if not wrong.any():
        return values
    faults.check(tokens.row, wrong, reason)
    kept: NDArray[Any] = np.where(wrong, values.dtype.type(0), values)
    return kept

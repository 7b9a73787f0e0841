"""Columns of messages: fields that a message has once, several times, or by keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.protobuf.faults import Faults
from connectors.formats.protobuf.packed import items_of
from connectors.formats.protobuf.values import Value
from connectors.formats.protobuf.walk import LENGTH
from connectors.formats.protobuf.wire import Messages, Tokens, tokens_of
from connectors.formats.spans import Bytes, Ints, binary_of, by_row, content_of, last_of_equal


class FieldStep(Protocol):
    """Reads the column of one field. Immutable."""

    @property
    def number(self) -> int:
        """The field's number."""

    @property
    def field(self) -> pa.Field:
        """The column."""

    def read(self, data: Bytes, tokens: Tokens, count: int, faults: Faults) -> pa.Array:
        """Return the column of `count` messages. `tokens`: of this field."""


@dataclass(frozen=True, slots=True)
class Singular:
    """A field that a message has once. Of several values the last one counts, and several messages are merged."""

    number: int
    field: pa.Field
    value: Value
    what: str
    merges: bool = False
    has_default: bool = False  # in place of NULL where it is absent
    required: bool = False
    absent_is_empty: bool = False  # as the message in an entry of a map

    def read(self, data: Bytes, tokens: Tokens, count: int, faults: Faults) -> pa.Array:
        tokens = _of_type(tokens, self.value.wire, self.what, faults)
        last = np.full(count, -1, np.int64)
        last[tokens.row] = np.arange(len(tokens))  # numpy keeps the last of several
        present: Ints = np.flatnonzero(last >= 0)
        if self.merges and len(present) < len(tokens):
            data, tokens = _merged(data, tokens, count)
        else:
            tokens = tokens.take(last[present])
        if self.absent_is_empty and len(present) < count:
            tokens, present = _for_all(tokens, count), np.arange(count)
        values = self.value.read(data, tokens, faults)
        if len(present) == count:
            return values
        if self.required:
            faults.add(np.flatnonzero(last < 0), f"{self.what}: required, and absent")
        index = np.full(count, -1, np.int64)
        index[present] = np.arange(len(present))
        found = values.take(pa.array(index, mask=index < 0))
        if self.has_default or self.required:
            return pc.fill_null(found, pa.scalar(self.value.default, self.value.type))
        return found


def _for_all(tokens: Tokens, count: int) -> Tokens:
    """Return a token for each message: empty for a message without one."""
    value, at = np.zeros(count, np.uint64), np.zeros(count, np.int64)
    value[tokens.row], at[tokens.row] = tokens.value, tokens.at
    row = np.arange(count)
    return Tokens(row, row, np.full(count, LENGTH, np.uint8), value, at)


def _merged(data: Bytes, tokens: Tokens, count: int) -> tuple[Bytes, Tokens]:
    """Return one token for each message, with the bytes of all its tokens: parsing these bytes merges the messages."""
    order, offsets = by_row([tokens.row], count)
    tokens = tokens if order is None else tokens.take(order)
    pieces = pa.ListArray.from_arrays(offsets, binary_of(data, tokens.spans))
    row: Ints = np.unique(tokens.row)
    whole, start, end = content_of(pc.binary_join(pieces, pa.scalar(b"", pa.binary())).take(pa.array(row)))
    fixed = np.full(len(row), LENGTH, np.uint8)
    return whole, Tokens(row, row, fixed, (end - start).view(np.uint64), start)


@dataclass(frozen=True, slots=True)
class Repeated:
    """A field that a message has any number of times, packed or not."""

    number: int
    field: pa.Field
    value: Value
    what: str

    def read(self, data: Bytes, tokens: Tokens, count: int, faults: Faults) -> pa.Array:
        if self.value.wire != LENGTH:
            tokens = items_of(data, tokens, self.value.wire, self.what, faults)
        tokens = _of_type(tokens, self.value.wire, self.what, faults)
        order, offsets = by_row([tokens.row], count)
        values = self.value.read(data, tokens if order is None else tokens.take(order), faults)
        return pa.ListArray.from_arrays(offsets, values, type=self.field.type)


@dataclass(frozen=True, slots=True)
class MapField:
    """A field with entries of a key and a value. The later of two equal keys counts."""

    number: int
    field: pa.Field
    entry: MessageStep
    what: str

    def read(self, data: Bytes, tokens: Tokens, count: int, faults: Faults) -> pa.Array:
        tokens = _of_type(tokens, LENGTH, self.what, faults)
        order, _ = by_row([tokens.row], count)
        tokens = tokens if order is None else tokens.take(order)
        inner = Faults()
        keys, values = self.entry.columns(Messages(data, *tokens.spans), inner)
        faults.lift(inner, tokens.row)
        row, kept = tokens.row, last_of_equal([tokens.row], keys)
        if kept is not None:
            row, keys, values = row[kept], keys.take(pa.array(kept)), values.take(pa.array(kept))
        _, offsets = by_row([row], count)
        return pa.MapArray.from_arrays(offsets, keys, values, type=self.field.type)


@dataclass(frozen=True, slots=True, eq=False)
class MessageStep:
    """All fields of a message that become columns."""

    fields: Sequence[FieldStep]  # in the order of the columns
    oneofs: Sequence[Sequence[int]] = ()  # places in `fields`: of these a message has one
    what: str = ""
    is_entry: bool = False
    """Whether it is an entry of a map. Another field in it is bad: Google's parsers differ in its effect."""

    def columns(self, messages: Messages, faults: Faults) -> list[pa.Array]:
        """Return the columns of the fields. Adds bad messages to `faults`."""
        tokens = tokens_of(messages, faults, f"{self.what}: " if self.what else "")
        *chosen, unknown = self._by_field(tokens)
        if self.is_entry:
            faults.add(tokens.row[unknown], f"{self.what}: a field that is neither key nor value")
        for members in self.oneofs:
            _keep_last_member(tokens, chosen, members, len(messages))
        return [
            field.read(messages.data, tokens.take(at), len(messages), faults)
            for field, at in zip(self.fields, chosen, strict=True)
        ]

    def _by_field(self, tokens: Tokens) -> list[Ints]:
        """Return the tokens of each field, and the tokens that belong to no field of the reader's message."""
        numbers = np.array([field.number for field in self.fields], np.int64)
        ascending = np.argsort(numbers)
        known = numbers[ascending]
        at = np.minimum(np.searchsorted(known, tokens.number), len(known) - 1)
        codes = np.where(known[at] == tokens.number, ascending[at], len(known)).astype(np.uint32)
        if len(known) < _MOST_OF_16_BITS:
            codes = codes.astype(np.uint16)  # numpy sorts these in linear time
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=len(known) + 1))
        return np.split(order, ends[:-1])


_MOST_OF_16_BITS: Final = 2**16 - 1


@dataclass(frozen=True, slots=True)
class MessageValue:
    """A message inside of a message, as a STRUCT."""

    step: MessageStep
    wire: int = LENGTH
    default: Any = None

    @property
    def type(self) -> pa.DataType:
        return pa.struct([each.field for each in self.step.fields])

    def read(self, data: Bytes, tokens: Tokens, faults: Faults) -> pa.Array:
        columns = parts_of(self.step, data, tokens, faults)
        return pa.StructArray.from_arrays(columns, fields=list(self.type))


def parts_of(step: MessageStep, data: Bytes, tokens: Tokens, faults: Faults) -> list[pa.Array]:
    """Return the columns of the message in each token."""
    inner = Faults()
    columns = step.columns(Messages(data, *tokens.spans), inner)
    faults.lift(inner, tokens.row)
    return columns


def _of_type(tokens: Tokens, wire: int, what: str, faults: Faults) -> Tokens:
    """Return the tokens of this type. Another one means that the message was written with another schema."""
    wrong = tokens.wire != wire
    if not wrong.any():
        return tokens
    faults.add(tokens.row[wrong], f"{what}: not written with the type that the schema gives")
    return tokens.take(~wrong)


def _keep_last_member(tokens: Tokens, chosen: list[Ints], members: Sequence[int], count: int) -> None:
    """Of the members of a oneof, keep the tokens behind the last token of another member."""
    found = np.zeros(count, np.int64)
    for member in members:
        found[np.unique(tokens.row[chosen[member]])] += 1
    if not (found > 1).any():
        return
    last = {member: np.full(count, -1, np.int64) for member in members}
    for member in members:
        last[member][tokens.row[chosen[member]]] = chosen[member]
    for member in members:
        others = np.max([last[other] for other in members if other != member], axis=0)
        chosen[member] = chosen[member][chosen[member] > others[tokens.row[chosen[member]]]]

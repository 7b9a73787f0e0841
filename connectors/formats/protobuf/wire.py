"""The fields of many messages at once, in Protobuf's wire format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from connectors.formats.protobuf import walk
from connectors.formats.protobuf.faults import Faults, nothing
from connectors.formats.spans import Bytes, Flags, Ints, content_of
from connectors.formats.varints import varints

FEW: Final = 64
"""For fewer messages, a step of numpy costs more than a loop over the fields of each message."""

_FIXED: Final = np.array([0, 8, 0, 0, 0, 4, 0, 0], np.int64)
"""Bytes of a field, by its type."""
_HAS_NUMBER: Final = np.array([kind in (walk.VARINT, walk.LENGTH) for kind in range(8)])

_Found: TypeAlias = Sequence[tuple[str, Flags]]


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of one type: where each starts and ends. Messages with bytes are in ascending order."""

    data: Bytes
    start: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.start)


def messages_of(values: pa.Array) -> Messages:
    """Return the messages in a binary column without nulls."""
    return Messages(*content_of(values))


@dataclass(frozen=True, slots=True)
class Tokens:
    """Fields as messages have them. The tokens of one message are in the order of its bytes."""

    row: Ints  # number of the message
    number: Ints  # of the field
    wire: NDArray[np.uint8]
    value: NDArray[np.uint64]  # of a number of variable length; of bytes, their length
    at: Ints  # where a number of fixed length, or bytes, begin

    def __len__(self) -> int:
        return len(self.row)

    def take(self, chosen: Ints | Flags) -> Tokens:
        """Return the chosen tokens."""
        return Tokens(self.row[chosen], self.number[chosen], self.wire[chosen], self.value[chosen], self.at[chosen])

    @property
    def spans(self) -> tuple[Ints, Ints]:
        """Where the bytes of each token start and end."""
        return self.at, self.at + self.value.view(np.int64)


def joined(parts: Sequence[Tokens]) -> Tokens:
    """Return the tokens of all parts, one part after another."""
    return Tokens(
        np.concatenate([np.empty(0, np.int64), *(each.row for each in parts)]),
        np.concatenate([np.empty(0, np.int64), *(each.number for each in parts)]),
        np.concatenate([np.empty(0, np.uint8), *(each.wire for each in parts)]),
        np.concatenate([np.empty(0, np.uint64), *(each.value for each in parts)]),
        np.concatenate([np.empty(0, np.int64), *(each.at for each in parts)]),
    )


def tokens_of(messages: Messages, faults: Faults, inside: str = "") -> Tokens:
    """Return the fields of all messages. Of a group there is one token, without its content. `inside`: for reasons.

    A bad message has any tokens. Time and memory are proportional to the bytes of the messages.
    """
    row: Ints = np.flatnonzero(messages.start < messages.end)
    at, end = messages.start[row], messages.end[row]
    parts: list[Tokens] = []
    groups = _Groups(len(messages))
    steps = 0
    while len(row) > FEW:
        if steps == walk.MOST_FIELDS:
            faults.add(row, inside + walk.MANY)
            return joined(parts)
        steps += 1
        tokens, following, wrong = _next(messages.data, row, at, end)
        is_inside, wrong_groups = groups.step(tokens)
        good = np.ones(len(row), np.bool_)
        for reason, flags in (*wrong, *wrong_groups):
            if flags.any():
                faults.add(row[flags & good], inside + reason)
                good &= ~flags
        is_token = good & ~is_inside
        parts.append(tokens if is_token.all() else tokens.take(is_token))
        going = good & (following < end)
        faults.check(row, good & ~going & groups.are_open(row), inside + walk.UNCLOSED)
        row, at, end = row[going], following[going], end[going]
    for each, start in zip(row.tolist(), at.tolist(), strict=True):
        parts.append(_walked(messages, each, start, groups.around(each), steps, faults, inside))
    return joined(parts)


def _next(data: Bytes, row: Ints, at: Ints, end: Ints) -> tuple[Tokens, Ints, _Found]:
    """Return the field at each place, the place behind it, and which fields are bad for which reason."""
    key, key_size, overlong_key = varints(data, at)
    wire, number = (key & np.uint64(7)).astype(np.uint8), (key >> np.uint64(3)).view(np.int64)
    is_short = at + key_size > end
    begin = np.where(is_short, end, at + key_size)
    value, size, overlong = varints(data, begin)
    has_number, is_bytes = _HAS_NUMBER[wire], wire == walk.LENGTH
    begin = begin + np.where(has_number, size, 0)
    length = np.where(is_bytes, np.minimum(value, np.uint64(walk.MOST_BYTES)).view(np.int64), _FIXED[wire])
    following = begin + length
    is_cut_off = has_number & (begin > end)
    wrong = (  # in the order of `walk`: a reason does not depend on the records behind
        (walk.ENDS, is_short),
        (
            walk.NO_FIELD,
            overlong_key | (key_size > walk.MOST_KEY_SIZE) | (key > np.uint64(walk.MOST_KEY)) | (number == 0),
        ),
        (walk.NO_FIELD, wire > walk.FIXED32),
        (walk.ENDS, is_cut_off),
        (walk.OVERLONG, has_number & overlong),
        (walk.ENDS, (following > end) | (is_bytes & (size > walk.MOST_KEY_SIZE))),
    )
    return Tokens(row, number, wire, value, begin), following, wrong


def _walked(
    messages: Messages, row: int, start: int, around: Sequence[int], done: int, faults: Faults, inside: str
) -> Tokens:
    """Return the fields of one message from a place on. See walk."""
    data = messages.data[start : messages.end[row]].tobytes()
    numbers, types, values, places, reason = walk.walk(data, around, done)
    if reason:
        faults.add(np.array([row]), inside + reason)
    at = np.frombuffer(places, np.int64) + start
    wire, value = np.frombuffer(types, np.uint8), np.frombuffer(values, np.uint64)
    return Tokens(np.full(len(at), row), np.frombuffer(numbers, np.int64), wire, value, at)


class _Groups:
    """The groups around the next field of each message. Nothing is allocated before the first group."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._depth: Ints | None = None
        self._opened: list[Ints] = []  # by level, the number of the group of each message

    def step(self, tokens: Tokens) -> tuple[Flags, _Found]:
        """Open and close groups. Return which tokens are inside of a group, and which are bad for which reason."""
        row, number = tokens.row, tokens.number
        opens, closes = tokens.wire == walk.GROUP, tokens.wire == walk.GROUP_END
        if self._depth is None:
            if not (opens | closes).any():
                return nothing(len(row)), ()
            self._depth = np.zeros(self._count, np.int64)
        depth = self._depth[row]
        deep = opens & (depth >= walk.DEEPEST)
        other = closes & (depth == 0)
        for level in np.unique(depth[opens & ~deep]).tolist():
            if level == len(self._opened):
                self._opened.append(np.zeros(self._count, np.int64))
            chosen = opens & (depth == level)
            self._opened[level][row[chosen]] = number[chosen]
        for level in np.unique(depth[closes & ~other]).tolist():
            other |= closes & (depth == level) & (self._opened[level - 1][row] != number)
        self._depth[row] += (opens & ~deep).astype(np.int64) - (closes & (depth > 0))
        return (depth > 0) | closes, ((walk.DEEP, deep), (walk.UNOPENED, other))

    def are_open(self, row: Ints) -> Flags:
        """Return which messages are inside of a group."""
        return nothing(len(row)) if self._depth is None else self._depth[row] > 0

    def around(self, row: int) -> list[int]:
        """Return the numbers of the groups around the next field of a message."""
        depth = 0 if self._depth is None else int(self._depth[row])
        return [int(level[row]) for level in self._opened[:depth]]

"""The fields of one message, one after another: for a few messages with many fields.

Source: Protocol Buffers Documentation, "Encoding". Keys and lengths have at most 5 bytes, as in Google's parsers.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final, NamedTuple

from connectors.formats.varints import LONGEST

VARINT: Final = 0
FIXED64: Final = 1
LENGTH: Final = 2
GROUP: Final = 3
GROUP_END: Final = 4
FIXED32: Final = 5
"""Types of the wire format."""

MOST_BYTES: Final = 2**31 - 1
"""Bytes of the longest part of a message."""
MOST_KEY: Final = 2**32 - 1
MOST_KEY_SIZE: Final = 5
"""Bytes of a key, or of a length."""
DEEPEST: Final = 64
"""Levels of groups. Google's parsers take 100."""
MOST_FIELDS: Final = 1_000_000
"""Fields of one message: this bounds its memory. The numbers of a packed field are one field."""

ENDS: Final = "the message ends too early"
NO_FIELD: Final = "a key that is not of a field"
OVERLONG: Final = "a number has more than 64 bits"
UNCLOSED: Final = "a group that does not end"
UNOPENED: Final = "the end of a group that did not begin"
DEEP: Final = f"groups nested deeper than {DEEPEST} levels"
MANY: Final = f"more than {MOST_FIELDS:,} fields"
"""Reasons why a message is bad."""


class Walked(NamedTuple):
    """The fields of a message."""

    numbers: array[int]
    types: array[int]
    values: array[int]
    places: array[int]
    reason: str  # why the message is bad, or empty


def walk(data: bytes, around: Sequence[int] = (), done: int = 0) -> Walked:
    """Return the fields of a message from a place on.

    Args:
        data: the rest of the message.
        around: numbers of the groups around it, the outer ones first.
        done: fields in front of it.
    """
    found = Walked(array("q"), array("B"), array("Q"), array("q"), "")
    try:
        _walk(data, list(around), done, found)
    except _BadError as error:
        return found._replace(reason=error.reason)
    return found


def _walk(data: bytes, groups: list[int], done: int, found: Walked) -> None:
    at = 0
    while at < len(data):
        if done == MOST_FIELDS:
            raise _BadError(MANY)
        done += 1
        key, begin = _number(data, at)
        number, kind = key >> 3, key & 7
        if begin - at > MOST_KEY_SIZE or key > MOST_KEY or not number or kind > FIXED32:
            raise _BadError(NO_FIELD)
        is_inside = bool(groups) or kind == GROUP_END
        value, at = 0, begin
        if kind in (VARINT, LENGTH):
            value, at = _number(data, begin)
            if value >> 64:
                raise _BadError(OVERLONG)
        if kind == LENGTH:
            if at - begin > MOST_KEY_SIZE:
                raise _BadError(ENDS)
            begin, at = at, at + value
        elif kind == GROUP:
            if len(groups) >= DEEPEST:
                raise _BadError(DEEP)
            groups.append(number)
        elif kind == GROUP_END:
            if not groups or groups.pop() != number:
                raise _BadError(UNOPENED)
        elif kind != VARINT:
            at += 8 if kind == FIXED64 else 4
        if at > len(data):
            raise _BadError(ENDS)
        if not is_inside:
            found.numbers.append(number)
            found.types.append(kind)
            found.values.append(value)
            found.places.append(begin)
    if groups:
        raise _BadError(UNCLOSED)


class _BadError(Exception):
    def __init__(self, reason: str) -> None:
        self.reason = reason


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, which may have too many bits, and the place behind it."""
    value = shift = 0
    for byte in data[at : at + LONGEST]:
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
    if shift < 7 * LONGEST:
        raise _BadError(ENDS)
    return value | 1 << 64, at

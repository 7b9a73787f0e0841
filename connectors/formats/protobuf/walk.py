"""The fields of one message, one after another: for a few messages with many fields.

Source: Protocol Buffers Documentation, "Encoding". Keys and lengths have at most 5 bytes, as in Google's parsers.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final, NamedTuple

VARINT: Final = 0
FIXED64: Final = 1
LENGTH: Final = 2
GROUP: Final = 3
GROUP_END: Final = 4
FIXED32: Final = 5
"""Types of the wire format."""

MOST_BYTES: Final = 2**31 - 1
"""Of a part of a message."""
MOST_KEY: Final = 2**32 - 1
MOST_KEY_SIZE: Final = 5
"""Bytes of a key, or of a length."""
DEEPEST: Final = 64
"""Levels of groups. Google's parsers take 100."""
MOST_FIELDS: Final = 1_000_000
"""Of one message, which bounds the memory that it takes. Numbers of a packed field are one field."""

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


def walk(data: bytes, opened: Sequence[int] = ()) -> Walked:
    """Return the fields of a message. `opened`: numbers of the groups around its first byte, the outer ones first."""
    numbers, types, values, places = array("q"), array("B"), array("Q"), array("q")
    groups, at, reason = list(opened), 0, ""
    try:
        while at < len(data):
            key, begin = _number(data, at)
            number, kind = key >> 3, key & 7
            if begin - at > MOST_KEY_SIZE or key > MOST_KEY or not number or kind > FIXED32:
                raise _BadError(NO_FIELD)
            value, at, is_inside = 0, begin, bool(groups) or kind == GROUP_END
            if kind == VARINT:
                value, at = _number(data, begin)
            elif kind == LENGTH:
                value, begin = _number(data, begin, MOST_KEY_SIZE)
                at = begin + value
            elif kind == GROUP:
                if len(groups) >= DEEPEST:
                    raise _BadError(DEEP)
                groups.append(number)
            elif kind == GROUP_END:
                if not groups or groups.pop() != number:
                    raise _BadError(UNOPENED)
            else:
                at += 8 if kind == FIXED64 else 4
            if at > len(data):
                raise _BadError(ENDS)
            if is_inside:
                continue
            if len(numbers) == MOST_FIELDS:
                raise _BadError(MANY)
            numbers.append(number)
            types.append(kind)
            values.append(value)
            places.append(begin)
        if groups:
            raise _BadError(UNCLOSED)
    except _BadError as error:
        reason = error.reason
    return Walked(numbers, types, values, places, reason)


class _BadError(Exception):
    def __init__(self, reason: str) -> None:
        self.reason = reason


def _number(data: bytes, at: int, most: int = 10) -> tuple[int, int]:
    """Return the number at a place, and the place behind it."""
    value = shift = 0
    for byte in data[at : at + most]:
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                raise _BadError(OVERLONG)
            return value, at
        shift += 7
    raise _BadError(ENDS if shift < 7 * most or most < 10 else OVERLONG)

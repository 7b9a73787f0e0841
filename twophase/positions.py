"""Positions of splits: opaque, ordered values of JSON (R6).

A source chooses what a position is: an integer (Kafka's offset), a text (a time, a name), or a list of positions (a
file name and a row). The protocol never computes with a position. It compares two positions of one split, stores them,
and gives them back as they were.

The order is Python's order of values of one type: integers by size, texts by code point, lists item by item. A source
with another order puts what it orders by into the position, as a first item.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from eos.errors import IdentityError

Position: TypeAlias = "int | str | list[Position]"
"""Plain JSON, so that it is equal to itself after it was stored and read again: a tuple is not a position."""

_LEAST: Final = -(2**63)
_MOST: Final = 2**63 - 1
_MOST_LISTS: Final = 16  # one in another
_MOST_SHOWN: Final = 100  # characters of a value in a message
_OF_POSITIONS: Final = (
    "return an int of at most 64 bits, a str of valid Unicode, or a list of positions (docs/tutorial/plugins.md): "
    "write a larger number as text of a fixed width, and encode other text, for example by urllib.parse.quote"
)
_OF_SPLITS: Final = "return a mapping of the name of each split, a str of valid Unicode, to its position"

Positions: TypeAlias = "Mapping[str, Position]"
"""Split -> where it goes on. For Kafka a split is `<topic>/<partition>`, and a position the next offset to read."""


def is_before(left: Position, right: Position) -> bool:
    """Return whether `left` comes before `right` in one split.

    Raises IdentityError if the two are not of one type, item by item: they are not positions of one source.
    """
    if type(left) is int and type(right) is int:  # Kafka's, on every plan
        return left < right
    if type(left) is str and type(right) is str:
        return left < right
    if type(left) is list and type(right) is list:
        for one, other in zip(left, right, strict=False):
            if is_before(one, other):
                return True
            if one != other:
                return False
        return len(left) < len(right)
    message = f"the positions {left!r} and {right!r} do not compare: they are of two types"
    raise IdentityError(message, remedy="was the source replaced by another one of the same name? Change it back")


def check_position(value: object, where: str) -> Position:
    """Return a position as a source gave it. `where`: the source and the split, for the message.

    Raises IdentityError for a value that JSON would not give back as it was (a tuple, a float, True, None), and for one
    that head cannot store: an integer of more than 64 bits, text with half of a surrogate pair.
    """
    return _checked(value, where, _MOST_LISTS)


def check_positions(found: object, where: str) -> dict[str, Position]:
    """Return positions by split as a source gave them. `where` names the source in messages.

    Raises IdentityError for what is not a mapping of splits to positions, see `check_position`.
    """
    if not isinstance(found, Mapping):
        message = f"{where}: {_shown(found)} is not a mapping of splits to positions"
        raise IdentityError(message, remedy=_OF_SPLITS)
    for split in found:
        if type(split) is not str or not _is_unicode(split):
            message = f"{where}: {_shown(split)} is not the name of a split"
            raise IdentityError(message, remedy=_OF_SPLITS)
    return {split: check_position(position, f"{where}, split {split}") for split, position in found.items()}


def _checked(value: object, where: str, lists: int) -> Position:
    if type(value) is int and _LEAST <= value <= _MOST:
        return value
    if type(value) is str and _is_unicode(value):
        return value
    if type(value) is list and lists > 0:
        return [_checked(item, where, lists - 1) for item in value]
    raise IdentityError(f"{where}: {_shown(value)} is not a position", remedy=_OF_POSITIONS)


def _is_unicode(text: str) -> bool:
    """Return whether UTF-8 can encode the text: it has no half of a surrogate pair."""
    if text.isascii():  # Kafka's, on every plan
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: object) -> str:
    """Return a short ASCII text of any value. Runs no code of the value's class."""
    if type(value) is int:  # Python refuses to write an integer of 5,000 digits
        return f"an integer of {value.bit_length()} bits" if not _LEAST <= value <= _MOST else str(value)
    if type(value) is str:
        return ascii(value[:_MOST_SHOWN])
    if type(value) is float or value is None or type(value) is bool or type(value) is bytes:
        return ascii(value[:_MOST_SHOWN] if type(value) is bytes else value)
    return f"a {type(value).__name__}"


def distance(start: Position, end: Position) -> int | None:
    """Return how many integer positions are between two, 0 if `end` is not after `start`.

    None: there are records between them, and positions of this source do not count records.
    """
    if type(start) is int and type(end) is int:
        return max(end - start, 0)
    return None if is_before(start, end) else 0


def least(like: Position) -> Position:
    """Return the first of all positions of one type, where nothing is known of a split: 0, "" or []."""
    return 0 if type(like) is int else "" if type(like) is str else []


def total(counts: Iterable[int | None]) -> int | None:
    """Return the sum of counts of records; None if one of them is not known."""
    found = list(counts)
    known = [each for each in found if each is not None]
    return sum(known) if len(known) == len(found) else None

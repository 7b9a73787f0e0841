"""Positions of splits: opaque, ordered values of JSON (R6).

A source chooses what a position is: an integer (Kafka's offset), a text (a time, a name), or a list of positions (a
file name and a row). The protocol never computes with a position. It compares two positions of one split, stores them,
and gives them back as they were.

The order is Python's order of values of one type: integers by size, texts by code point, lists item by item. A source
with another order puts what it orders by into the position, as a first item.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from eos.errors import IdentityError

Position: TypeAlias = "int | str | list[Position]"
"""Plain JSON, so that it is equal to itself after it was stored and read again: a tuple is not a position."""

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

    Raises IdentityError for a value that JSON would not give back as it was (a tuple, a float, True, None).
    """
    if type(value) is int or type(value) is str:
        return value
    if type(value) is list:
        return [check_position(item, where) for item in value]
    message = f"{where}: {value!r} is not a position"
    raise IdentityError(message, remedy="a position is an int, a str or a list of them (docs/tutorial/plugins.md)")


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

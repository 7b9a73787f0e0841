"""Rows grouped by what they have next: the branch of a union, or a further item of an array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

from connectors.formats.avro.cursor import Cursor, Rows
from connectors.formats.spans import Ints

_MOST_EMPTY: Final = 1_000
"""Items of no bytes that an array may have: the size of the record does not bound their number."""

_FEW: Final = 16
"""Branches that are looked at one after another, whether a record has them or not."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A branch of the writer's union that the reader's schema cannot take."""

    reason: str


def blocks(
    cursor: Cursor, rows: Rows, what: str, least_bytes: int, *, one_by_one: bool = False
) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Yield the rows that have a further block of items: their places among `rows`, the rows, and the numbers of items.

    The caller reads these items before the next step: all at once, or `one_by_one`. Parks a row whose number of items
    cannot be, or that takes too many steps.
    """
    places = np.arange(cursor.count(rows))
    active = places if isinstance(rows, slice) else rows
    while len(active):
        counts = cursor.longs(active, what)
        sized = counts < 0  # its size in bytes follows, for a reader that steps over the block
        if sized.any():
            cursor.longs(active[sized], what)
            counts = np.abs(counts)
        most = cursor.left(active) // least_bytes if least_bytes else np.full(len(active), _MOST_EMPTY)
        wrong = (counts < 0) | (counts > most)
        cursor.park(active, wrong, f"{what}: more items than the record has bytes for")
        counts = np.where(wrong, 0, counts)
        counts[~cursor.count_items(active, counts if one_by_one else np.minimum(counts, 1), what)] = 0
        active, places, counts = active[counts > 0], places[counts > 0], counts[counts > 0]
        if len(active):
            yield places, active, counts


def items(cursor: Cursor, rows: Rows, what: str, least_bytes: int) -> Iterator[tuple[Ints, Ints]]:
    """Yield the rows that have a further item, with their places among `rows`, once per item of the longest.

    The caller reads that item before the next step.
    """
    for places, active, counts in blocks(cursor, rows, what, least_bytes, one_by_one=True):
        order = np.argsort(-counts, kind="stable")
        descending, taken, end = counts[order], 0, len(order)
        while end:
            chosen = np.sort(order[:end])
            yield places[chosen], active[chosen]
            taken += 1
            while end and descending[end - 1] == taken:
                end -= 1


def by_branch(
    cursor: Cursor, rows: Rows, what: str, branches: Sequence[T | Unreadable]
) -> Iterator[tuple[int, T, Ints, Rows]]:
    """Yield each branch that a row has: its number, its step, the places of its rows among `rows`, and the rows."""
    numbers = cursor.longs(rows, what)
    few = len(branches) <= _FEW
    outside = (numbers < 0) | (numbers >= len(branches))
    cursor.park(rows, outside, f"{what}: a union has no such branch")
    for number in range(len(branches)) if few else np.unique(numbers[~outside]).tolist():
        step = branches[number]
        places = np.flatnonzero(numbers == number)
        if isinstance(step, Unreadable):
            cursor.park(rows, numbers == number, step.reason)
        elif len(places) == len(numbers):
            yield number, step, places, rows
        elif len(places):
            yield number, step, places, places if isinstance(rows, slice) else rows[places]

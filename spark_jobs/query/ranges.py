"""How the ranges of a source are shared out to tasks: by their offsets alone, so that it is the same each time."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from twophase.values import OffsetRange


def pieces(whole: OffsetRange, most: int | None) -> Iterator[OffsetRange]:
    """A range in pieces of about equal size, none of them larger than `most`; nothing for an empty range."""
    count = -(-(whole.end - whole.start) // (most or sys.maxsize))
    cuts = [whole.start + (whole.end - whole.start) * number // max(count, 1) for number in range(count + 1)]
    return (OffsetRange(whole.split, start, end) for start, end in pairwise(cuts))


def shares(ranges: Iterable[OffsetRange], split_above: int | None, join_below: int) -> Iterator[Sequence[OffsetRange]]:
    """What each task reads: a range, a piece of one, or as many small ones as come to `join_below` offsets together."""
    small: list[OffsetRange] = []
    offsets = 0  # of the small ones
    for each in ranges:
        cut = list(pieces(each, split_above))
        if len(cut) != 1 or each.end - each.start >= join_below:
            yield from ([piece] for piece in cut)
            continue
        small.append(each)
        offsets += each.end - each.start
        if offsets >= join_below:
            yield small
            small, offsets = [], 0
    if small:
        yield small

"""How a range of a source is shared out to tasks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise

from twophase.values import OffsetRange


def pieces(whole: OffsetRange, most: int | None) -> Iterator[OffsetRange]:
    """A range in pieces of about equal size, none of them larger than `most`; nothing for an empty range."""
    count = -(-(whole.end - whole.start) // (most or sys.maxsize))
    cuts = [whole.start + (whole.end - whole.start) * number // max(count, 1) for number in range(count + 1)]
    return (OffsetRange(whole.split, start, end) for start, end in pairwise(cuts))

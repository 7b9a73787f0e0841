"""What a format is: a column of value bytes in, decoded columns and the records that do not decode out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa

from connectors.api.format import Decoded, Undecodable

Parse = Callable[[pa.Array], pa.RecordBatch]
"""Decodes a whole column, one row per value; raises ValueError if any value of it does not decode."""

Judge = Callable[[pa.Array], Sequence[object | None]]
"""Says of each value of a column whether it is bad for sure: None where it is not, or where only parsing tells.

What it says instead of None is for `Explain`. Invariant: a value that is bad for sure is one that `Parse` refuses.
"""

Explain = Callable[[pa.Array, object], str]
"""Says in words why the one value of a column did not decode, given the judge's answer, or the ValueError."""


_EXPLAINED: Final = 100
"""So many bad records of one column are explained; explaining all of a topic in another format would take hours."""

_UNEXPLAINED: Final = "does not decode, as others of this batch"

_PIECE: Final = 1024
"""Values that are parsed at once, and judged one by one where that fails: few are judged if few records are bad."""


def sieve(values: pa.Array, schema: pa.Schema, parse: Parse, judge: Callable[[], Judge], explain: Explain) -> Decoded:
    """Parse a column at once and, only if that fails, find what is bad in it, piece by piece.

    Called once per batch. A column without bad values costs one `parse`. In a piece that fails the judge finds what is
    bad for sure, and the rest is parsed at once; only if that fails, too, it is halved until the values at fault stand
    alone. `judge` makes one: a batch without bad values needs none.
    """
    try:
        return Decoded(parse(values))
    except ValueError:  # pa.ArrowInvalid, UnicodeError and binascii.Error are ValueErrors
        pass
    parts = _Parts(parse)
    judged = judge()
    for first in range(0, len(values), _PIECE):
        piece = values.slice(first, _PIECE)
        if len(piece) == len(values) or not parts.took(piece):
            answers = judged(piece)
            parts.found.update((first + at, answer) for at, answer in enumerate(answers) if answer is not None)
            left = [at for at, answer in enumerate(answers) if answer is None]
            parts.sift(piece.take(pa.array(left, pa.int64())), [first + at for at in left])
    bad = tuple(
        Undecodable(at, explain(values.slice(at, 1), parts.found[at]) if number < _EXPLAINED else _UNEXPLAINED)
        for number, at in enumerate(sorted(parts.found))
    )
    return Decoded(_joined(parts.batches, schema), bad)


class _Parts:
    """The parts of a column that were parsed, in order, and what is bad of it."""

    def __init__(self, parse: Parse) -> None:
        self._parse = parse
        self.batches: list[pa.RecordBatch] = []
        self.found: dict[int, object] = {}  # index of the value -> the judge's answer, or the ValueError

    def took(self, values: pa.Array) -> bool:
        """Whether all of these decode; then they are parsed."""
        try:
            self.batches.append(self._parse(values))
        except ValueError:
            return False
        return True

    def sift(self, values: pa.Array, places: Sequence[int]) -> None:
        """Parse these values of the column, halving what fails."""
        if len(values) == 0:
            return
        try:
            self.batches.append(self._parse(values))
        except ValueError as error:
            if len(values) == 1:
                self.found[places[0]] = error
                return
            half = len(values) // 2
            self.sift(values.slice(0, half), places[:half])
            self.sift(values.slice(half), places[half:])


def _joined(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches, schema=schema).combine_chunks()
    return table.to_batches()[0] if len(table) else pa.RecordBatch.from_pylist([], schema=schema)

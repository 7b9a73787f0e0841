"""What a format is: a column of value bytes in, decoded columns and the records that do not decode out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

Parse = Callable[[pa.Array], pa.RecordBatch]
"""Decodes a whole column, one row per value; raises ValueError if any value of it does not decode."""

Explain = Callable[[pa.Array, ValueError], str]
"""Says in words why the one value of a column did not decode."""


_EXPLAINED = 100
"""So many bad records of one column are explained; explaining all of a topic in another format would take hours."""

_UNEXPLAINED = "does not decode, as others of this batch"


@dataclass(frozen=True, slots=True)
class Undecodable:
    """One record that does not decode."""

    index: int  # in the column that was given
    reason: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """The outcome of one column: every value is either a row of `rows` or an entry of `bad`."""

    rows: pa.RecordBatch  # the good records, in order
    bad: tuple[Undecodable, ...] = ()  # by ascending index


class Format(Protocol):
    """How values are decoded. Picklable: it travels to the tasks inside a source."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of `Decoded.rows`."""

    def decode(self, values: pa.Array) -> Decoded:
        """Decode a binary column that may hold nulls. Never blocks; raises nothing on account of what a value holds."""


def sieve(values: pa.Array, schema: pa.Schema, parse: Parse, explain: Explain) -> Decoded:
    """Parse a column at once and, only if that fails, find what is bad in it by halving.

    Called once per batch. A column without bad values costs one `parse`; one bad value among n costs about as much as
    parsing three times.
    """
    batches: list[pa.RecordBatch] = []
    bad: list[Undecodable] = []
    _sift(values, 0, parse, explain, batches, bad)
    if len(batches) == 1:
        return Decoded(batches[0], tuple(bad))
    table = pa.Table.from_batches(batches, schema=schema).combine_chunks()
    rows = table.to_batches()[0] if len(table) else pa.RecordBatch.from_pylist([], schema=schema)
    return Decoded(rows, tuple(bad))


def _sift(
    values: pa.Array, first: int, parse: Parse, explain: Explain, batches: list[pa.RecordBatch], bad: list[Undecodable]
) -> None:
    if len(values) == 0:
        return
    try:
        batches.append(parse(values))
    except ValueError as error:  # pa.ArrowInvalid, UnicodeError and binascii.Error are ValueErrors
        if len(values) == 1:
            bad.append(Undecodable(first, explain(values, error) if len(bad) < _EXPLAINED else _UNEXPLAINED))
            return
        half = len(values) // 2
        _sift(values.slice(0, half), first, parse, explain, batches, bad)
        _sift(values.slice(half), first + half, parse, explain, batches, bad)

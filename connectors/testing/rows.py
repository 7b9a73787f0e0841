"""Rows that the tests write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

import pyarrow as pa

SCHEMA: Final = pa.schema(
    [
        ("n", pa.int64()),
        ("text", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("gone", pa.bool_()),
    ]
)
"""Of the rows that the tests write. A target has the columns `n` and `text`."""

Row = tuple[int, str | None]

MANY: Final = 1_000_000
AT_ONCE: Final = 50_000
"""Of them, in one batch."""

TEXTS: Final = (
    *(None, "", " ", "\\", "\\N", "NULL", "'", '"', "\t", "\n", "\r\n", "a,b;c", "%s %%"),
    *("\u017c\u00f3\u0142\u0107", "\U0001d518\U0001f600", "x" * 200),
)
"""Texts that a careless encoder changes."""

_offsets = count()


@dataclass(frozen=True, slots=True)
class Change:
    """What a keyed sink is told of one key."""

    n: int
    text: str | None = None
    offset: int | None = None  # None: after everything before
    gone: bool = False


def rows(start: int, stop: int) -> list[Row]:
    """Rows that are told apart by their number."""
    return [(n, f"row {n}") for n in range(start, stop)]


def batch(*rows: Row | Change) -> pa.RecordBatch:
    """Rows as a writer gets them, each with a greater offset than all before unless it says otherwise."""
    changes = [row if isinstance(row, Change) else Change(*row) for row in rows]
    columns = [
        [each.n for each in changes],
        [each.text for each in changes],
        [0] * len(changes),
        [next(_offsets) if each.offset is None else each.offset for each in changes],
        [each.gone for each in changes],
    ]
    return pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def numbered(start: int, stop: int) -> pa.RecordBatch:
    """The same, many at once, each with its number as text and as offset."""
    numbers = pa.array(range(start, stop), pa.int64())
    zeros = pa.repeat(pa.scalar(0, pa.int32()), len(numbers))
    gone = pa.repeat(pa.scalar(False), len(numbers))
    return pa.record_batch([numbers, numbers.cast(pa.string()), zeros, numbers, gone], schema=SCHEMA)


def as_spark_has(values: Sequence[object], kind: pa.DataType) -> pa.Array:
    """A column of these; bytes for text are taken as they are, as Spark does, whether they are UTF-8 or not."""
    if kind == pa.string() and isinstance(values[0], bytes):
        return pa.array(values, pa.binary()).view(kind)
    if kind == pa.list_(pa.string()):
        lists = pa.array(values, pa.list_(pa.binary()))
        return pa.ListArray.from_arrays(lists.offsets, lists.values.view(pa.string()))
    return pa.array(values, kind)

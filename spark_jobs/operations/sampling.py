"""The newest records of a source, for `eos init --from-topic`. Needs no Spark."""

from __future__ import annotations

from itertools import islice
from typing import Final

from connectors.api.entry import SourceEntry
from connectors.registry import build_source
from twophase.positions import Position
from twophase.values import OffsetRange, StartingPoint

_VALUE: Final = "value"


def newest_values(entry: SourceEntry, most: int) -> list[bytes]:
    """Return the values of the newest records, in no order; as many of each split.

    Records without a value are left out. Blocks until all are read. Raises the errors of Source's methods.

    Args:
        entry: a source whose records are bytes in the column `value`.
        most: of all splits together.
    """
    source = build_source(entry)
    begin = source.starting_point(StartingPoint())
    ends = source.horizon(begin).ends
    share = max(1, most // max(1, len(ends)))
    ranges = [
        OffsetRange(split, _start(begin.positions[split], end, share), end)
        for split, end in ends.items()
        if split in begin.positions
    ]
    values = (
        value
        for batch in source.read([each for each in ranges if not each.is_empty])
        for value in batch.column(_VALUE).to_pylist()
        if value is not None
    )
    return list(islice(values, most))


def _start(begin: Position, end: Position, records: int) -> Position:
    """Return where the newest records begin. Only numbers can be counted back from the end."""
    if isinstance(begin, int) and isinstance(end, int):
        return max(begin, end - records)
    return begin

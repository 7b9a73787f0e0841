"""The newest records of a source, for `eos init --from-topic`. Needs no Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from connectors.api.entry import SourceEntry
from connectors.registry import build_source
from twophase.positions import Position
from twophase.values import OffsetRange, StartingPoint

_VALUE: Final = "value"
_KEY: Final = "_key"


@dataclass(frozen=True, slots=True)
class Sample:
    """The newest records of a source, in no order."""

    values: list[bytes]  # of the records that have one
    keys: list[bytes]  # of the records that have one


def newest_records(entry: SourceEntry, most: int) -> Sample:
    """Return the newest records; as many of each split.

    Blocks until all are read. Raises the errors of Source's methods.

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
    batches = list(source.read([each for each in ranges if not each.is_empty]))
    columns = ([each for batch in batches for each in batch.column(name).to_pylist()] for name in (_VALUE, _KEY))
    values, keys = ([each for each in column if each is not None][:most] for column in columns)
    return Sample(values, keys)


def _start(begin: Position, end: Position, records: int) -> Position:
    """Return where the newest records begin. Only numbers can be counted back from the end."""
    if isinstance(begin, int) and isinstance(end, int):
        return max(begin, end - records)
    return begin

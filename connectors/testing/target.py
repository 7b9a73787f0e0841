"""What the author of a sink provides for the tests: a target that they may fill, and an eye on it of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Final, Protocol

import pyarrow as pa

from connectors.contracts import Sink
from wal.storage import Storage

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

_offsets = count()


@dataclass(frozen=True, slots=True)
class Change:
    """What a keyed sink is told of one key."""

    n: int
    text: str | None = None
    offset: int | None = None  # None: after everything before
    gone: bool = False


class Target(Protocol):
    """A place for rows of SCHEMA, empty at first, which refuses none of them."""

    keyed: bool
    """Whether a sink merges rows by `n` and deletes those that are `gone`; else it keeps all, equal ones too."""

    def sink(self, name: str) -> Sink:
        """A sink that writes there, not yet opened. Asked for several times, also under several names."""

    def rows(self) -> Counter[Row]:
        """What everybody sees there now. Shares no code with the sink."""

    def leave_foreign(self) -> Callable[[], None] | None:
        """Leave something prepared on the server as another program would; returns what asserts that it is still there
        and takes it away. None: nothing of that kind exists here."""


def leave_in_log(storage: Storage) -> Callable[[], None]:
    """`Target.leave_foreign` of a sink with a log: an object of somebody's."""
    writer = storage.create("README")
    writer.write(b"somebody's")
    writer.publish()

    def take_away() -> None:
        storage.open("README").close()
        storage.delete("README")

    return take_away


def schema_for(target: Target) -> pa.Schema:
    """Of the rows that its sink is opened with."""
    return SCHEMA if target.keyed else pa.schema([field for field in SCHEMA if field.name != "gone"])


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

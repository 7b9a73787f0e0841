"""What the author of a sink provides for the tests: a target that they may fill, and an eye on it of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

import pyarrow as pa

from connectors.contracts import Sink

SCHEMA: Final = pa.schema([("n", pa.int64()), ("text", pa.string())])
"""Of the rows that the tests write."""

Row = tuple[int, str | None]


class Target(Protocol):
    """A place for rows of SCHEMA, empty at first, which refuses none of them and keeps duplicates."""

    def sink(self, name: str) -> Sink:
        """A sink that writes there, not yet opened. Asked for several times, also under several names."""

    def rows(self) -> Counter[Row]:
        """What everybody sees there now. Shares no code with the sink."""

    def leave_foreign(self) -> Callable[[], None] | None:
        """Leave something prepared on the server as another program would; returns what asserts that it is still there
        and takes it away. None: nothing of that kind exists here."""


def batch(*rows: Row) -> pa.RecordBatch:
    """Rows as a writer gets them."""
    numbers, texts = [row[0] for row in rows], [row[1] for row in rows]
    return pa.record_batch([pa.array(numbers, pa.int64()), pa.array(texts, pa.string())], schema=SCHEMA)

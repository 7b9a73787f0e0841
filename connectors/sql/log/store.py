"""What is asked of a connection to a database that applies a log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import pyarrow as pa

from connectors.sql.statements import Connected


class Store(Connected, Protocol):
    """A connection of the driver's. Every call may block, and may raise StatementError."""

    def load(self, table: str, batches: Iterable[pa.RecordBatch]) -> None:
        """Put rows of segments, all of one schema, into the table, and see that all of them are there.

        Inside the open transaction. `table`: as the spec names it. Raises BadRowError for a row that the table refuses,
        TargetError.
        """

    def mark(self, name: str) -> None:
        """Let this connection be found under `name` by `end`."""

    def end(self, name: str) -> int:
        """End the connections that are marked with this name, but for this one; returns how many."""

    def answers(self) -> bool:
        """Whether the connection still stands."""

    def close(self) -> None:
        """Disconnect; an open transaction is rolled back. Never raises."""

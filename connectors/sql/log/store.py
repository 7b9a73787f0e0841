"""What is asked of a connection to a database that applies a log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import pyarrow as pa

from connectors.log.merge import Merge
from connectors.sql.statements import Connected


class Store(Connected, Protocol):
    """A connection of the driver's. Every call may block, and may raise StatementError."""

    def load(self, table: str, batches: Iterable[pa.RecordBatch]) -> None:
        """Put rows of segments, all of one schema, into the table, and see that all of them are there.

        Inside the open transaction. `table`: as the spec names it. Raises BadRowError for a row that the table refuses,
        TargetError.
        """

    def merge(self, table: str, merge: Merge, batches: Iterable[pa.RecordBatch]) -> None:
        """Have the table hold, of each key in these rows, this row and no other; or none, where `GONE` is true.

        Inside the open transaction. Batches are taken one after another: a deletion that writes `deleted_at` follows
        the row of its key. Key columns are those of a unique index of the table; no two rows are equal in them, and
        no two deletions. Raises BadRowError, TargetError.
        """

    def mark(self, name: str, member: int | None = None) -> None:
        """Let `end` find this connection under `name`. `member`: which of those of this name it is."""

    def end(self, name: str, member: int | None = None) -> int:
        """End the connections that are marked with this name, or with this member of it, but not this connection.

        Return how many.
        """

    def answers(self) -> bool:
        """Whether the connection still stands."""

    def close(self) -> None:
        """Disconnect; an open transaction is rolled back. Never raises."""

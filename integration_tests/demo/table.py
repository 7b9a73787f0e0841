"""The table of the demo on a server."""

from __future__ import annotations

from collections import Counter

from integration_tests.harness.oracle import SinkTable
from spark_jobs.demo.place import COLUMN, CREATE, NAME


class ServerTable:
    """A table of MySQL or MariaDB, read with statements of its own."""

    def __init__(self, url: str) -> None:
        self._server = SinkTable(url, NAME)

    def create(self, statement: str = CREATE) -> None:
        """Create the table."""
        self._server.execute(statement)

    def count(self) -> int:
        """Return the number of visible rows."""
        return self._server.count()

    def rows(self) -> Counter[str]:
        """Return all visible rows."""
        return Counter(row[0] for row in self._server.execute(f"SELECT {COLUMN} FROM {NAME}"))

    def prepared(self, incarnation: str) -> list[str]:
        """List the prepared transactions of an incarnation of the pipeline."""
        return self._server.prepared(incarnation)

    def roll_back(self, incarnation: str) -> None:
        """Roll back the prepared transactions of an incarnation of the pipeline."""
        self._server.roll_back(incarnation)

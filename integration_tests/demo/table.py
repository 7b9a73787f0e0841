"""The table that the job writes, looked at from outside, with statements of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import sqlalchemy

NAME = "eos"
COLUMN = "testcol"


class Table:
    """On purpose without a key: a duplicate would show."""

    def __init__(self, url: str) -> None:
        self._engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)

    def create(self) -> None:
        """Create it, empty."""
        with self._engine.begin() as connection:
            connection.exec_driver_sql(f"CREATE TABLE {NAME} ({COLUMN} VARCHAR(255))")

    def count(self) -> int:
        """The number of visible rows."""
        return int(self._select("COUNT(*)")[0][0])

    def rows(self) -> Counter[str]:
        """All visible rows."""
        return Counter(row[0] for row in self._select(COLUMN))

    def _select(self, what: str) -> Sequence[sqlalchemy.Row[Any]]:
        with self._engine.connect() as connection:
            return connection.exec_driver_sql(f"SELECT {what} FROM {NAME}").all()

"""What everybody sees in the table, asked every 20 ms on one connection while a system writes."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import pymysql

from benchmarks.bench.comparison.expected import Expected
from benchmarks.bench.comparison.work import TABLE, Work

POLL_S = 0.02


class Table:
    """Use as a context manager; it makes the table. `expected`: its rows when all is written."""

    def __init__(self, work: Work, statement: str, expected: Expected) -> None:
        self._expected = expected
        url = work.url
        self._connection = pymysql.connect(
            host=url.host,
            port=url.port or 3306,
            user=url.username,
            password=str(url.password or ""),
            database=url.database,
            autocommit=True,
        )
        self._ask(statement)
        last = ",".join(map(str, expected.last_ids))
        some = f"SELECT COUNT(*) FROM (SELECT 1 FROM {TABLE} LIMIT 1) AS some"
        self._probe = f"SELECT ({some}), (SELECT COUNT(*) FROM {TABLE} WHERE id IN ({last}))"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def begun_and_ended(self) -> tuple[bool, bool]:
        """Whether any row is seen, and whether the last one of each partition is. Takes a millisecond."""
        some, last = self._ask(self._probe)[0]
        return some > 0, last == len(self._expected.last_ids)

    def count(self) -> int:
        """All rows; takes a tenth of a second for a million."""
        return int(self._ask(f"SELECT COUNT(*) FROM {TABLE}")[0][0])

    def is_complete(self) -> bool:
        """Whether nothing is left to come."""
        return self.count() == self._expected.rows and (not self._expected.is_changing or self.holds_all())

    def holds_all(self) -> bool:
        """Whether these are the expected rows, each once. Takes a second for a million rows with a checksum."""
        found = self._ask(f"SELECT COUNT(*), COUNT(DISTINCT id), COALESCE(SUM(id), 0) FROM {TABLE}")[0]
        expected = self._expected
        if tuple(map(int, found)) != (expected.rows, expected.rows, expected.ids_sum):
            return False
        return expected.checksum is None or self._checksum() == expected.checksum

    def _checksum(self) -> int:
        content = "CONCAT_WS('|', id, user, amount, ts)"
        return int(self._ask(f"SELECT COALESCE(SUM(CRC32({content})), 0) FROM {TABLE}")[0][0])

    def ids_from(self, first: int) -> list[int]:
        """Those from `first` on."""
        return [number for (number,) in self._ask(f"SELECT id FROM {TABLE} WHERE id >= {first}")]

    def _ask(self, statement: str) -> tuple[tuple[Any, ...], ...]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            return tuple(cursor.fetchall())

"""What everybody sees in the table, asked every 20 ms on one connection while a system writes."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import pymysql

from benchmarks.bench.comparison.work import TABLE, Work
from benchmarks.bench.topic import PARTITIONS

POLL_S = 0.02


class Table:
    """Use as a context manager; it makes the table."""

    def __init__(self, work: Work, statement: str) -> None:
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
        last = ",".join(str(number) for number in range(work.rows - PARTITIONS, work.rows))
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
        return some > 0, last == PARTITIONS

    def count(self) -> int:
        """All rows; takes a tenth of a second for a million."""
        return int(self._ask(f"SELECT COUNT(*) FROM {TABLE}")[0][0])

    def holds(self, rows: int) -> bool:
        """Whether these are the records numbered from 0, each once."""
        found = self._ask(f"SELECT COUNT(*), COUNT(DISTINCT id), COALESCE(SUM(id), 0) FROM {TABLE}")[0]
        return tuple(map(int, found)) == (rows, rows, rows * (rows - 1) // 2)

    def ids_from(self, first: int) -> list[int]:
        """Those from `first` on."""
        return [number for (number,) in self._ask(f"SELECT id FROM {TABLE} WHERE id >= {first}")]

    def _ask(self, statement: str) -> tuple[tuple[Any, ...], ...]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            return tuple(cursor.fetchall())

"""Compares a sink with what was produced, as multisets, and asks the server what is left prepared.

Looks with its own statements: nothing here is shared with the code under test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy
from sqlalchemy.exc import OperationalError

from integration_tests.databases import LOCK_WAIT_TIMEOUT
from integration_tests.harness.workload import Row

FORMAT_ID = 0x454F53
"""Of the framework's XA ids."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Records by fate. The names are those of Jepsen's total-queue checker."""

    produced: int
    in_sink: int
    lost: int
    duplicated: int  # surplus copies of rows that were produced
    unexpected: int  # rows that nobody produced
    examples: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Every record is there exactly once, and nothing else."""
        return self.clean and self.lost == 0

    @property
    def clean(self) -> bool:
        """Nothing is there that must not be. Of a pipeline that has not caught up, that is all one can say."""
        return self.duplicated == 0 and self.unexpected == 0


def compare(expected: Counter[Row], found: Counter[Row]) -> Verdict:
    """The verdict on a sink without a primary key, where a duplicate shows."""
    lost = expected - found
    surplus = found - expected
    duplicated = Counter({row: count for row, count in surplus.items() if row in expected})
    unexpected = surplus - duplicated
    kinds = (("lost", lost), ("duplicated", duplicated), ("unexpected", unexpected))
    examples = tuple(f"{kind}: {row}" for kind, rows in kinds for row in sorted(rows, key=str)[:3])
    return Verdict(expected.total(), found.total(), lost.total(), duplicated.total(), unexpected.total(), examples)


class SinkTable:
    """The target in MySQL or MariaDB, and what its server says."""

    def __init__(self, url: str, name: str) -> None:
        self.url = url
        self.name = name
        self._engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")

    def create(self, word: str = "VARCHAR(40)") -> None:
        """Create it, on purpose without any key."""
        self.execute(f"CREATE TABLE `{self.name}` (id BIGINT NOT NULL, word {word}, payload VARCHAR(80)) ENGINE=InnoDB")

    def rows(self) -> Counter[Row]:
        """All visible rows."""
        return Counter((row[0], row[1], row[2]) for row in self.execute(f"SELECT id, word, payload FROM `{self.name}`"))

    def count(self) -> int:
        """The number of visible rows."""
        return int(self.execute(f"SELECT COUNT(*) FROM `{self.name}`")[0][0])

    def prepared(self, incarnation: str) -> list[str]:
        """Branches of this life of a pipeline that wait for their end, as XA ROLLBACK takes them."""
        mark = incarnation.encode()
        return [branch for number, gtrid, branch in self._listed() if number == FORMAT_ID and gtrid.startswith(mark)]

    def prepared_ids(self, incarnation: str) -> list[str]:
        """The same as `<gtrid>/<bqual>`, in order."""
        parts = ((_part(branch, 0), _part(branch, 1)) for branch in self.prepared(incarnation))
        return sorted(f"{gtrid.decode()}/{bqual.decode()}" for gtrid, bqual in parts)

    def is_held(self) -> bool:
        """Whether a transaction still locks a row, also one that the server does not list (H24). Waits 5 s."""
        with self._engine.connect() as connection:
            connection.exec_driver_sql("SET SESSION innodb_lock_wait_timeout = 5")
            try:
                connection.exec_driver_sql(f"SELECT COUNT(*) FROM `{self.name}` FOR UPDATE")
            except OperationalError as error:
                if getattr(error.orig, "args", (0,))[0] != LOCK_WAIT_TIMEOUT:
                    raise
                return True
        return False

    def roll_back(self, incarnation: str) -> None:
        """Clean up after a test that failed: what stays prepared keeps its locks, also against DROP."""
        for branch in self.prepared(incarnation):
            self.execute(f"XA ROLLBACK {branch}")

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """One statement on a connection of its own."""
        with self._engine.connect() as connection:
            result = connection.exec_driver_sql(statement)
            return [tuple(row) for row in result] if result.returns_rows else []

    def _listed(self) -> Iterator[tuple[int, bytes, str]]:
        """Format number, gtrid and literal of everything that the server lists."""
        mariadb = "mariadb" in str(self.execute("SELECT VERSION()")[0][0]).lower()
        form = "FORMAT='SQL'" if mariadb else "CONVERT XID"
        for number, length, _, data in self.execute(f"XA RECOVER {form}"):
            text = data.decode("ascii") if isinstance(data, bytes) else str(data)
            if mariadb:
                yield int(number), _part(text, 0), text
            else:
                both = bytes.fromhex(text.removeprefix("0x"))
                gtrid, bqual = both[: int(length)], both[int(length) :]
                yield int(number), gtrid, f"X'{gtrid.hex()}',X'{bqual.hex()}',{number}"


class PostgresTable:
    """The target in PostgreSQL, and what its server says."""

    def __init__(self, url: str, name: str) -> None:
        self.url = url
        self.name = name
        self._engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")

    def create(self, key: str = "") -> None:
        """Create it, without any key unless one is given."""
        self.execute(f'CREATE TABLE "{self.name}" (id BIGINT NOT NULL {key}, word VARCHAR(40), payload VARCHAR(80))')

    def rows(self) -> Counter[Row]:
        """All visible rows."""
        return Counter((row[0], row[1], row[2]) for row in self.execute(f'SELECT id, word, payload FROM "{self.name}"'))

    def count(self) -> int:
        """The number of visible rows."""
        return int(self.execute(f'SELECT COUNT(*) FROM "{self.name}"')[0][0])

    def prepared(self, incarnation: str) -> list[str]:
        """Ids of what this life of a pipeline has prepared."""
        found = self.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")
        return [str(gid) for (gid,) in found if str(gid).startswith(f"eos:{incarnation}")]

    def roll_back(self, incarnation: str) -> None:
        """Clean up after a test that failed: what stays prepared keeps its database from being dropped."""
        for gid in self.prepared(incarnation):
            self.execute(f"ROLLBACK PREPARED '{gid}'")

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """One statement on a connection of its own."""
        with self._engine.connect() as connection:
            result = connection.exec_driver_sql(statement)
            return [tuple(row) for row in result] if result.returns_rows else []


def _part(literal: str, number: int) -> bytes:
    """Of a literal, which is in hex where it is not plain text: `'gtrid','bqual',1` or `X'00',X'01',1`."""
    part = literal.split(",")[number]
    return bytes.fromhex(part[2:-1]) if part[:1] in {"X", "x"} else part[1:-1].encode()

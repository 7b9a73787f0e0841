"""Named contents that never change, in a table of any SQL database that SQLAlchemy knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    LargeBinary,
    MetaData,
    String,
    Table,
    and_,
    delete,
    insert,
    select,
)
from sqlalchemy.dialects import mysql

from connectors.sql.table_format import COMMENT

METADATA: Final = MetaData()
_MYSQL_NAME: Final = mysql.VARCHAR(255, charset="utf8mb4", collation="utf8mb4_bin")  # compared to the letter
NAME: Final = String(255).with_variant(_MYSQL_NAME, "mysql", "mariadb")
BYTES: Final = LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
OPTIONS: Final[dict[str, Any]] = {"mysql_engine": "InnoDB", "mariadb_engine": "InnoDB"}


def _shelf(table: str) -> Table:
    return Table(
        table,
        METADATA,
        Column("pipeline", NAME, primary_key=True),
        Column("name", NAME, primary_key=True),
        Column("content", BYTES, nullable=False),
        comment=COMMENT,
        **OPTIONS,
    )


SHELVES: Final = {"records": _shelf("eos_record"), "requests": _shelf("eos_request")}

Transaction = Callable[[str], AbstractContextManager[Connection]]
"""What it is for, in words -> a transaction that commits at the end of the block."""


class ExistsError(Exception):
    """A row with this primary key is there already."""


class SqlShelf:
    """A twophase.head.Shelf in a table."""

    def __init__(self, table: Table, pipeline: str, transaction: Transaction, look_every_s: float) -> None:
        self._table = table
        self._pipeline = pipeline
        self._transaction = transaction
        self.look_every_s = look_every_s  # see Shelf

    def put(self, name: str, content: bytes) -> bool:
        try:
            with self._transaction(f"write {name}") as connection:
                connection.execute(insert(self._table).values(pipeline=self._pipeline, name=name, content=content))
        except ExistsError:
            return False
        return True

    def get(self, name: str) -> bytes | None:
        with self._transaction(f"read {name}") as connection:
            content = connection.execute(select(self._table.c.content).where(self._named(name))).scalar_one_or_none()
        return bytes(content) if content is not None else None

    def hold(self, connection: Connection, names: Sequence[str]) -> bool:
        """Whether there are contents of all these names, asked in a transaction that is open: so of the same server."""
        if not names:
            return True
        mine = and_(self._table.c.pipeline == self._pipeline, self._table.c.name.in_(names))
        return len(connection.execute(select(self._table.c.name).where(mine)).all()) == len(set(names))

    def delete(self, name: str) -> None:
        with self._transaction(f"delete {name}") as connection:
            connection.execute(delete(self._table).where(self._named(name)))

    def names(self) -> Sequence[str]:
        mine = self._table.c.pipeline == self._pipeline
        with self._transaction("list names") as connection:
            return sorted(str(name) for name in connection.execute(select(self._table.c.name).where(mine)).scalars())

    def _named(self, name: str) -> ColumnElement[bool]:
        return and_(self._table.c.pipeline == self._pipeline, self._table.c.name == name)

"""Head in any SQL database that SQLAlchemy knows: two small tables, one row that is swapped by its version (R1, R6).

For a checkpoint location without compare-and-swap (an object store that has none, a network filesystem). The database
decides: the swap is an UPDATE that names the version it expects, or an INSERT under a primary key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    LargeBinary,
    MetaData,
    NullPool,
    String,
    Table,
    create_engine,
    delete,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError, SQLAlchemyError

from connectors.sql.address import connect_arguments
from twophase.errors import HeadError, HeadFormatError, HeadUnknownError, SpecError
from twophase.head import Versioned

_METADATA: Final = MetaData()
_MYSQL_NAME: Final = mysql.VARCHAR(255, charset="utf8mb4", collation="utf8mb4_bin")  # compared to the letter
_NAME: Final = String(255).with_variant(_MYSQL_NAME, "mysql", "mariadb")
_BYTES: Final = LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
_OPTIONS: Final[dict[str, Any]] = {"mysql_engine": "InnoDB", "mariadb_engine": "InnoDB"}

_HEAD: Final = Table(
    "eos_head",
    _METADATA,
    Column("pipeline", _NAME, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("value", _BYTES, nullable=False),
    **_OPTIONS,
)
_RECORD: Final = Table(
    "eos_record",
    _METADATA,
    Column("pipeline", _NAME, primary_key=True),
    Column("name", _NAME, primary_key=True),
    Column("content", _BYTES, nullable=False),
    **_OPTIONS,
)


class SqlHead:
    """twophase.head.HeadStore for one pipeline. A connection for each call: head is used a few times a checkpoint."""

    def __init__(self, url: str, pipeline: str) -> None:
        """Opens nothing. Raises SpecError for a url that SQLAlchemy does not understand."""
        try:
            parsed = make_url(url)
            arguments: dict[str, object] = {}
            if parsed.get_backend_name() in ("mysql", "mariadb"):
                parsed, arguments = connect_arguments(url)
            self._engine = create_engine(parsed, connect_args=arguments, poolclass=NullPool, hide_parameters=True)
        except (ArgumentError, NoSuchModuleError, ImportError, ValueError):
            message = "checkpoint.head is not a url that SQLAlchemy understands, or its driver is not installed"
            raise SpecError(message, remedy="for example mysql+pymysql://user:password@host/database") from None
        self._pipeline = pipeline
        host = f"{parsed.host}:{parsed.port}" if parsed.port else parsed.host
        self._place = f"{host}/{parsed.database}" if host else str(parsed.database)
        self._created = False

    def read(self) -> Versioned | None:
        """See HeadStore."""
        with self._transaction("read") as connection:
            row = connection.execute(
                select(_HEAD.c.version, _HEAD.c.value).where(_HEAD.c.pipeline == self._pipeline)
            ).one_or_none()
        return Versioned(int(row.version), bytes(row.value)) if row is not None else None

    def swap(self, expected: int, value: bytes) -> bool:
        """See HeadStore. False also if another driver's swap is under way and the database chooses it."""
        sent = False
        try:
            with self._transaction("swap") as connection:
                sent = True
                if expected == 0:
                    connection.execute(insert(_HEAD).values(pipeline=self._pipeline, version=1, value=value))
                    return True
                changed = connection.execute(
                    update(_HEAD)
                    .where(_HEAD.c.pipeline == self._pipeline, _HEAD.c.version == expected)
                    .values(version=expected + 1, value=value)
                )
                return changed.rowcount == 1
        except _ExistsError:
            return False
        except HeadError as error:
            if not sent:
                raise
            raise HeadUnknownError(error.message, remedy=error.remedy) from error

    def put_record(self, name: str, content: bytes) -> None:
        """See HeadStore."""
        try:
            with self._transaction(f"write record {name}") as connection:
                connection.execute(insert(_RECORD).values(pipeline=self._pipeline, name=name, content=content))
        except _ExistsError:
            if self.get_record(name) != content:
                message = f"record {name} in {self.describe()} exists with another content"
                raise HeadFormatError(message, remedy="something else wrote it; do not go on") from None

    def get_record(self, name: str) -> bytes:
        """See HeadStore."""
        with self._transaction(f"read record {name}") as connection:
            content = connection.execute(
                select(_RECORD.c.content).where(_RECORD.c.pipeline == self._pipeline, _RECORD.c.name == name)
            ).scalar_one_or_none()
        if content is None:
            message = f"record {name} is missing in {self.describe()}, and head points at it"
            raise HeadFormatError(message, remedy="restore the database from a backup")
        return bytes(content)

    def delete_record(self, name: str) -> None:
        """See HeadStore."""
        with self._transaction(f"delete record {name}") as connection:
            connection.execute(delete(_RECORD).where(_RECORD.c.pipeline == self._pipeline, _RECORD.c.name == name))

    def list_records(self) -> Sequence[str]:
        """See HeadStore."""
        with self._transaction("list records") as connection:
            names = connection.execute(select(_RECORD.c.name).where(_RECORD.c.pipeline == self._pipeline)).scalars()
            return sorted(str(name) for name in names)

    def describe(self) -> str:
        """See HeadStore."""
        return f"table eos_head of {self._engine.dialect.name} at {self._place}, pipeline {self._pipeline}"

    def __repr__(self) -> str:
        return f"SqlHead({self.describe()})"

    def close(self) -> None:
        """See HeadStore."""
        self._engine.dispose()

    def _create(self) -> None:
        """Create the tables that are missing; other drivers may do the same at this moment."""
        for table in _METADATA.sorted_tables:
            try:
                table.create(self._engine, checkfirst=True)
            except DBAPIError:
                if not inspect(self._engine).has_table(table.name):  # else another driver was quicker
                    raise
        self._created = True

    @contextmanager
    def _transaction(self, doing: str) -> Iterator[Connection]:
        """A connection and a transaction that commits at the end. Raises HeadError; _ExistsError for a taken key."""
        try:
            if not self._created:
                self._create()
            with self._engine.begin() as connection:
                yield connection
        except IntegrityError as error:
            raise _ExistsError(str(error.orig)) from error
        except SQLAlchemyError as error:
            reason = getattr(error, "orig", None) or type(error).__name__
            message = f"head: cannot {doing} in {self.describe()}: {reason}"
            remedy = "see that the database answers, and that the user may create and change tables"
            raise HeadError(message, remedy=remedy) from None


class _ExistsError(Exception):
    """A row with this primary key is there already."""

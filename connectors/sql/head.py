"""Head in a SQL database: two small tables, one row that is compared and swapped (R1, R6).

For a checkpoint location without compare-and-swap (an object store that has none, a network filesystem). The database
decides: the swap is an UPDATE that names the version and the value it expects, or an INSERT under a primary key. The
version alone is not enough: after a fail-over or a restored dump the row reaches it again by other swaps (H29).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
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
    update,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from connectors.api.contracts import Finding
from connectors.sql.kind import kind_of, place_of
from connectors.sql.statements import StatementError
from connectors.sql.table_format import COMMENT, check_formats, creating, reading
from eos.errors import (
    HeadAccessError,
    HeadError,
    HeadFormatError,
    HeadUnknownError,
    SpecError,
    TargetError,
)
from twophase.head import Versioned

METADATA: Final = MetaData()
_MYSQL_NAME: Final = mysql.VARCHAR(255, charset="utf8mb4", collation="utf8mb4_bin")  # compared to the letter
NAME: Final = String(255).with_variant(_MYSQL_NAME, "mysql", "mariadb")
BYTES: Final = LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
OPTIONS: Final[dict[str, Any]] = {"mysql_engine": "InnoDB", "mariadb_engine": "InnoDB"}


def _blob_table(table: str) -> Table:
    return Table(
        table,
        METADATA,
        Column("pipeline", NAME, primary_key=True),
        Column("name", NAME, primary_key=True),
        Column("content", BYTES, nullable=False),
        comment=COMMENT,
        **OPTIONS,
    )


BLOB_TABLES: Final = {"records": _blob_table("eos_record"), "requests": _blob_table("eos_request")}

Transaction = Callable[[str], AbstractContextManager[Connection]]
"""What it is for, in words -> a transaction that commits at the end of the block."""


class ExistsError(Exception):
    """A row with this primary key is there already."""


class SqlBlobStore:
    """A twophase.head.BlobStore in a table."""

    def __init__(self, table: Table, pipeline: str, transaction: Transaction, poll_interval_s: float) -> None:
        self._table = table
        self._pipeline = pipeline
        self._transaction = transaction
        self.poll_interval_s = poll_interval_s  # see BlobStore

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


_HEAD: Final = Table(
    "eos_head",
    METADATA,
    Column("pipeline", NAME, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("value", BYTES, nullable=False),
    comment=COMMENT,
    **OPTIONS,
)
TABLES: Final = tuple(METADATA.sorted_tables)
"""Of head, its records and requests."""

_KEPT: Final = 2
_POLL_INTERVAL_S: Final = 1.0


class SqlHead:
    """twophase.head.HeadStore for one pipeline.

    Two connections are kept: the driver's thread swaps, and another one looks for requests. After any error none is: a
    server that has become a replica answers, and takes no swap, while its name points to the new primary.
    """

    def __init__(self, url: str, pipeline: str) -> None:
        """Opens nothing. Raises SpecError for a url of no kind that is known here."""
        self._kind = kind_of(url)
        self._engine = self._kind.open_engine(url, _KEPT)
        parsed = self._engine.url
        self._pipeline = pipeline
        self._place = place_of(parsed.host, parsed.port, parsed.database)
        self._created = False
        self._records = self.blobs("records")

    def read(self) -> Versioned | None:
        with self._transaction("read") as connection:
            row = connection.execute(
                select(_HEAD.c.version, _HEAD.c.value).where(_HEAD.c.pipeline == self._pipeline)
            ).one_or_none()
        return Versioned(int(row.version), bytes(row.value)) if row is not None else None

    def swap(self, expected: Versioned | None, value: bytes, needs: Sequence[str] = ()) -> bool:
        """See HeadStore. False also if another driver's swap is under way and the database chooses it."""
        sent = False
        try:
            with self._transaction("swap") as connection:
                sent = True
                if not self._records.hold(connection, needs):
                    return False
                if expected is None:
                    connection.execute(insert(_HEAD).values(pipeline=self._pipeline, version=1, value=value))
                    return True
                changed = connection.execute(
                    update(_HEAD)
                    .where(
                        _HEAD.c.pipeline == self._pipeline,
                        _HEAD.c.version == expected.version,
                        _HEAD.c.value == expected.value,
                    )
                    .values(version=expected.version + 1, value=value)
                )
                return changed.rowcount == 1
        except ExistsError:
            return False
        except HeadError as error:
            if not sent:
                raise
            raise HeadUnknownError(error.message, remedy=error.remedy) from error

    def put_record(self, name: str, content: bytes) -> None:
        if not self._records.put(name, content) and self.get_record(name) != content:
            message = f"record {name} in {self.describe()} exists with another content"
            raise HeadFormatError(message, remedy="something else wrote it; do not go on")

    def get_record(self, name: str) -> bytes:
        content = self._records.get(name)
        if content is None:
            message = f"record {name} is missing in {self.describe()}, and head points at it"
            raise HeadFormatError(message, remedy="restore the database from a backup")
        return content

    def delete_record(self, name: str) -> None:
        self._records.delete(name)

    def list_records(self) -> Sequence[str]:
        return self._records.names()

    def blobs(self, name: str) -> SqlBlobStore:
        """See HeadStore. Each has a table of its own."""
        return SqlBlobStore(BLOB_TABLES[name], self._pipeline, self._transaction, _POLL_INTERVAL_S)

    def describe(self) -> str:
        return f"table eos_head of {self._engine.dialect.name} at {self._place}, pipeline {self._pipeline}"

    def __repr__(self) -> str:
        return f"SqlHead({self.describe()})"

    def close(self) -> None:
        self._engine.dispose()

    def _create(self) -> None:
        """Create the tables that are missing, once this version may work on what is there. Once for each SqlHead.

        Other drivers may do the same at this moment, of a newer version among them. Raises HeadFormatError.
        """
        there = self._check_formats()
        missing = [table for table in TABLES if table.name not in there]
        for table in missing:
            try:
                with self._engine.begin() as connection:
                    for statement in creating(table, connection.dialect):
                        connection.exec_driver_sql(statement)
            except DBAPIError:
                if table.name not in self._check_formats():  # else another driver was quicker
                    raise
        if missing:
            self._check_formats()
        self._created = True

    def _check_formats(self) -> set[str]:
        """Return the names of the tables that are there. Raises HeadFormatError."""
        with self._engine.connect() as connection:
            found = connection.exec_driver_sql(reading(self._kind.comment_of, TABLES)).all()
        check_formats(map(tuple, found), self._place)
        return {str(name) for name, _ in found}

    def _refusal(self, error: BaseException | None) -> str:
        """What to do where the server will say this again; empty: a restart may cure it."""
        found = self._kind.error_of(error)
        if found is None:
            return ""
        if found.access_denied:
            return f"grant the rights on {', '.join(each.name for each in TABLES)}: see docs/how-to/security.md"
        meaning = found.connector_error("head")
        return meaning.remedy if isinstance(meaning, TargetError) else ""

    @contextmanager
    def _transaction(self, doing: str) -> Iterator[Connection]:
        """A connection and a transaction that commits at the end. Raises HeadError; ExistsError for a taken key."""
        try:
            if not self._created:
                self._create()
            with self._engine.begin() as connection:
                yield connection
        except IntegrityError as error:
            raise ExistsError(str(error.orig)) from error
        except SQLAlchemyError as error:
            self._engine.dispose()
            reason = getattr(error, "orig", None) or type(error).__name__
            message = f"head: cannot {doing} in {self.describe()}: {reason}"
            if isinstance(error, DBAPIError) and (refusal := self._refusal(error.orig)):
                raise HeadAccessError(message, remedy=refusal) from None
            remedy = "see that the database answers, and that the user may create and change tables"
            raise HeadError(message, remedy=remedy) from None


def check_head(name: str, url: str) -> Sequence[Finding]:
    """The findings, under this name; none of a file. `url`: a secret. Raises SpecError."""
    return kind_of(url).check_head(name, url)


def require_head(url: str) -> None:
    """Refuse a database that may lose a decision which it has acknowledged (R6). `url`: a secret.

    Raises SpecError; HeadError where the database does not answer. A start never claims a head that was not checked.
    """
    try:
        wrong = [each for each in kind_of(url).head_requirements(url) if each.fatal and not each.ok]
    except StatementError as error:
        meaning = error.connector_error("checkpoint.head: cannot check the settings of the database")
        kind = HeadAccessError if isinstance(meaning, TargetError) else HeadError
        raise kind(meaning.message, remedy=meaning.remedy) from None
    if wrong:
        message = "checkpoint.head: the database does not give what exactly-once rests on:\n  - "
        message += "\n  - ".join(f"{each.check}: {each.detail}" for each in wrong)
        raise SpecError(message, remedy="; ".join(each.remedy for each in wrong))

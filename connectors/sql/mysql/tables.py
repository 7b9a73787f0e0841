"""The protocol's own three tables in a MySQL or MariaDB database, beside the targets, and every statement on a witness.

`eos_claim`: which incarnation and epoch own a sink (R2, R3). `eos_permit`: which run of which checkpoint may still be
prepared (R5). `eos_witness`: written with the rows, in their transaction, so that it shows whether they were committed
(R7). The witness's primary key begins with what is searched for, so that no further index is needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import BigInteger, Column, Integer, MetaData, String, Table
from sqlalchemy.dialects import mysql
from sqlalchemy.schema import CreateTable

from connectors.sql.mysql.engine import Session
from connectors.sql.mysql.errors import ACCESS_DENIED_CREATE, ServerError
from twophase.errors import TargetError
from twophase.ids import INCARNATION_LENGTH, Scope, TransactionId

_NO_SUCH_TABLE: Final = 1146
_NO_DATABASE: Final = 1046
_SINK_LENGTH: Final = 12  # what twophase.ids.sink_key returns
_OPTIONS: Final[dict[str, Any]] = {"mysql_engine": "InnoDB", "mysql_charset": "ascii", "mysql_collate": "ascii_bin"}
_METADATA: Final = MetaData()


def _column(name: str, kind: Any, *, key: bool = True) -> Column[Any]:
    return Column(name, kind, primary_key=key, nullable=False, autoincrement=False)


_ID: Final = String(INCARNATION_LENGTH)
_SINK: Final = String(_SINK_LENGTH)
_PIPELINE: Final = mysql.VARCHAR(255, charset="utf8mb4", collation="utf8mb4_bin")  # the only name that users choose

CLAIM: Final = Table(
    "eos_claim",
    _METADATA,
    _column("pipeline", _PIPELINE),
    _column("sink", _SINK),
    _column("incarnation", _ID, key=False),
    _column("epoch", BigInteger, key=False),
    **_OPTIONS,
)
PERMIT: Final = Table(
    "eos_permit",
    _METADATA,
    _column("incarnation", _ID),
    _column("epoch", BigInteger),
    _column("checkpoint_id", BigInteger),
    _column("attempt", Integer),
    _column("sink", _SINK),
    _column("pipeline", _PIPELINE, key=False),  # a claim of another incarnation must find what the old one left
    **_OPTIONS,
)
WITNESS: Final = Table(
    "eos_witness",
    _METADATA,
    _column("incarnation", _ID),
    _column("sink", _SINK),
    _column("checkpoint_id", BigInteger),
    _column("epoch", BigInteger),
    _column("attempt", Integer),
    _column("task", Integer),
    _column("task_attempt", BigInteger),
    _column("row_count", BigInteger, key=False),
    _column("written_at", mysql.DATETIME(fsp=6), key=False),  # UTC
    **_OPTIONS,
)

_WITNESS_KEY: Final = (
    "incarnation = %s AND sink = %s AND checkpoint_id = %s AND epoch = %s"
    " AND attempt = %s AND task = %s AND task_attempt = %s"
)


def ddl() -> str:
    """What an administrator has to run where the pipeline's user may not create tables."""
    return "\n".join(f"{_create(table)};" for table in _METADATA.sorted_tables)


def ensure(session: Session) -> None:
    """Create what is missing. Raises TargetError with the DDL if that is not allowed, else ServerError."""
    for table in _METADATA.sorted_tables:
        try:
            session.execute(f"SELECT 1 FROM {table.name} LIMIT 0")
        except ServerError as error:
            if error.number == _NO_DATABASE:
                message = "the sink's url names no database, so there is no place for the protocol's own tables"
                raise TargetError(message, remedy="end the url with /<database>") from error
            if error.number not in (_NO_SUCH_TABLE, *ACCESS_DENIED_CREATE):
                raise
            _create_table(session, table)


def _create_table(session: Session, table: Table) -> None:
    try:
        session.execute(_create(table))
    except ServerError as error:
        if error.number not in ACCESS_DENIED_CREATE:
            raise
        message = f"the protocol's own tables are missing and may not be created here: {error.text}"
        remedy = f"let an administrator run these statements and grant SELECT, INSERT, UPDATE, DELETE on them:\n{ddl()}"
        raise TargetError(message, remedy=remedy) from error


def _create(table: Table) -> str:
    return str(CreateTable(table, if_not_exists=True).compile(dialect=mysql.dialect())).strip()


def lock_permit(session: Session, scope: Scope, sink: str) -> bool:
    """Take the permit shared, inside the writer's transaction; False if it is gone (R5). Raises ServerError."""
    where = "incarnation = %s AND epoch = %s AND checkpoint_id = %s AND attempt = %s AND sink = %s"
    statement = f"SELECT 1 FROM eos_permit WHERE {where} {session.dialect.for_share}"
    return bool(session.execute(statement, *permit_key(scope, sink)))


def permit_key(scope: Scope, sink: str) -> tuple[str, int, int, int, str]:
    """The primary key of a permit."""
    return scope.incarnation, scope.epoch, scope.checkpoint_id, scope.attempt, sink


def insert_witness(session: Session, transaction: TransactionId, rows: int) -> None:
    """Write the witness of the branch that is open on this session."""
    statement = f"INSERT INTO eos_witness VALUES ({', '.join(['%s'] * 8)}, UTC_TIMESTAMP(6))"
    session.execute(statement, *_witness(transaction), rows)


def witness_stands(session: Session, transaction: TransactionId) -> bool:
    """Locking read: whether the transaction was committed. Waits for a commit under way (R7, H4).

    Raises ServerError 1205 (lock wait timeout) while the transaction is neither committed nor rolled back.
    """
    statement = f"SELECT 1 FROM eos_witness WHERE {_WITNESS_KEY} {session.dialect.for_share}"
    return bool(session.execute(statement, *_witness(transaction)))


def highest_witness(session: Session, incarnation: str, sink: str) -> int:
    """The newest visible checkpoint, -1 for none. A plain read, for a start that compares (R2)."""
    statement = "SELECT COALESCE(MAX(checkpoint_id), -1) FROM eos_witness WHERE incarnation = %s AND sink = %s"
    return int(session.execute(statement, incarnation, sink)[0][0])


def visible_witnesses(session: Session, transactions: Iterable[TransactionId]) -> set[TransactionId]:
    """Those that a plain read shows."""
    statement = f"SELECT 1 FROM eos_witness WHERE {_WITNESS_KEY}"
    return {each for each in transactions if session.execute(statement, *_witness(each))}


def prune_witnesses(session: Session, incarnation: str, sink: str, below: int) -> None:
    """Delete the visible witnesses of checkpoints below `below`.

    One by one, by the whole key: a range would also lock the record behind it, which may belong to a branch that is
    prepared for the next checkpoint, and wait for that (measured on MySQL and MariaDB, READ COMMITTED).
    """
    key = "incarnation, sink, checkpoint_id, epoch, attempt, task, task_attempt"
    found = f"SELECT {key} FROM eos_witness WHERE incarnation = %s AND sink = %s AND checkpoint_id < %s"
    for row in session.execute(found, incarnation, sink, below):
        session.execute(f"DELETE FROM eos_witness WHERE {_WITNESS_KEY}", *row)


def _witness(transaction: TransactionId) -> tuple[str, str, int, int, int, int, int]:
    scope = transaction.scope
    return (
        scope.incarnation,
        transaction.sink,
        scope.checkpoint_id,
        scope.epoch,
        scope.attempt,
        transaction.task,
        transaction.task_attempt,
    )

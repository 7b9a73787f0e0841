"""The protocol's own three tables in the sink's database, beside the targets, and every statement on a witness.

`eos_claim`: which incarnation and epoch own a sink (R2, R3). `eos_permit`: which run of which checkpoint may still be
prepared (R5). `eos_witness`: written with the rows, in their transaction, so that it shows whether they were committed
(R7). The witness's primary key begins with what is searched for, so that no further index is needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import BigInteger, Column, DateTime, Dialect, Integer, MetaData, String, Table
from sqlalchemy.dialects import mysql
from sqlalchemy.schema import CreateTable

from connectors.sql.two_phase.server import Connected, StatementError
from twophase.errors import TargetError
from twophase.ids import INCARNATION_LENGTH, Scope, TransactionId

_SINK_LENGTH: Final = 12  # what twophase.ids.sink_key returns
_OPTIONS: Final[dict[str, Any]] = {"mysql_engine": "InnoDB", "mysql_charset": "ascii", "mysql_collate": "ascii_bin"}
_METADATA: Final = MetaData()


def _column(name: str, kind: Any, *, key: bool = True) -> Column[Any]:
    return Column(name, kind, primary_key=key, nullable=False, autoincrement=False)


_ID: Final = String(INCARNATION_LENGTH)
_SINK: Final = String(_SINK_LENGTH)
_BINARY: Final = mysql.VARCHAR(255, charset="utf8mb4", collation="utf8mb4_bin")
_PIPELINE: Final = String(255).with_variant(_BINARY, "mysql")  # the only name that users choose

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
    _column("written_at", DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql"), key=False),  # UTC
    **_OPTIONS,
)

_WITNESS_KEY: Final = (
    "incarnation = %s AND sink = %s AND checkpoint_id = %s AND epoch = %s"
    " AND attempt = %s AND task = %s AND task_attempt = %s"
)


def ddl(dialect: Dialect) -> str:
    """What an administrator has to run where the pipeline's user may not create tables."""
    return "\n".join(f"{_create(table, dialect)};" for table in _METADATA.sorted_tables)


def ensure(server: Connected) -> None:
    """Create what is missing. Raises TargetError with the DDL if that is not allowed, else StatementError."""
    for table in _METADATA.sorted_tables:
        try:
            server.execute(f"SELECT 1 FROM {table.name} LIMIT 0")
        except StatementError as error:
            if not (error.missing_table or error.access_denied):
                raise
            _create_table(server, table)


def _create_table(server: Connected, table: Table) -> None:
    try:
        server.execute(_create(table, server.ddl))
    except StatementError as error:
        if not error.access_denied:
            raise
        message = f"the protocol's own tables are missing and may not be created here: {error.text}"
        remedy = "let an administrator run these statements and grant SELECT, INSERT, UPDATE, DELETE on them:\n"
        remedy += ddl(server.ddl)
        raise TargetError(message, remedy=remedy) from error


def _create(table: Table, dialect: Dialect) -> str:
    return str(CreateTable(table, if_not_exists=True).compile(dialect=dialect)).strip()


def lock_permit(server: Connected, scope: Scope, sink: str) -> bool:
    """Take the permit shared, inside the writer's transaction; False if it is gone (R5). Raises StatementError."""
    where = "incarnation = %s AND epoch = %s AND checkpoint_id = %s AND attempt = %s AND sink = %s"
    statement = f"SELECT 1 FROM eos_permit WHERE {where} {server.for_share}"
    return bool(server.execute(statement, *permit_key(scope, sink)))


def permit_key(scope: Scope, sink: str) -> tuple[str, int, int, int, str]:
    """The primary key of a permit."""
    return scope.incarnation, scope.epoch, scope.checkpoint_id, scope.attempt, sink


def insert_witness(server: Connected, transaction: TransactionId, rows: int) -> None:
    """Write the witness of the branch that is open on this server."""
    statement = f"INSERT INTO eos_witness VALUES ({', '.join(['%s'] * 8)}, {server.utc_now})"
    server.execute(statement, *_witness(transaction), rows)


def witness_stands(server: Connected, transaction: TransactionId) -> bool:
    """Locking read: whether the transaction was committed. Waits for a commit under way (R7, H4).

    Raises StatementError 1205 (lock wait timeout) while the transaction is neither committed nor rolled back.
    """
    statement = f"SELECT 1 FROM eos_witness WHERE {_WITNESS_KEY} {server.for_share}"
    return bool(server.execute(statement, *_witness(transaction)))


def highest_witness(server: Connected, incarnation: str, sink: str) -> int:
    """The newest visible checkpoint, -1 for none. A plain read, for a start that compares (R2)."""
    statement = "SELECT COALESCE(MAX(checkpoint_id), -1) FROM eos_witness WHERE incarnation = %s AND sink = %s"
    return int(server.execute(statement, incarnation, sink)[0][0])


def visible_witnesses(server: Connected, transactions: Iterable[TransactionId]) -> set[TransactionId]:
    """Those that a plain read shows."""
    statement = f"SELECT 1 FROM eos_witness WHERE {_WITNESS_KEY}"
    return {each for each in transactions if server.execute(statement, *_witness(each))}


def prune_witnesses(server: Connected, incarnation: str, sink: str, below: int) -> None:
    """Delete the visible witnesses of checkpoints below `below`.

    One by one, by the whole key: a range would also lock the record behind it, which may belong to a branch that is
    prepared for the next checkpoint, and wait for that (measured on MySQL and MariaDB, READ COMMITTED).
    """
    key = "incarnation, sink, checkpoint_id, epoch, attempt, task, task_attempt"
    found = f"SELECT {key} FROM eos_witness WHERE incarnation = %s AND sink = %s AND checkpoint_id < %s"
    for row in server.execute(found, incarnation, sink, below):
        server.execute(f"DELETE FROM eos_witness WHERE {_WITNESS_KEY}", *row)


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

"""The protocol's own tables in the sink's database, beside the targets, and every statement on a witness.

Every variant has `eos_claim`: which incarnation and epoch own a sink (R2, R3), and `eos_witness`: written with the
rows, in their transaction, so that it shows whether they were committed (R7). Its primary key begins with what is
searched for, so that no further index is needed. Both variants add `eos_slot` (connectors.sql.slots), and `two_phase`
adds `eos_permit`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import BigInteger, Column, DateTime, Dialect, Integer, MetaData, String, Table
from sqlalchemy.dialects import mysql

from connectors.sql import table_format
from connectors.sql.statements import Connected, StatementError, in_transaction
from eos.errors import TargetError
from twophase.ids import INCARNATION_LENGTH, Scope, TransactionId
from twophase.values import Committable, origin

EMPTY: Final = "empty"
"""Key in `Committable.data` of a writer that had no rows, prepared nothing and left no witness."""

_SINK_LENGTH: Final = 12  # what twophase.ids.sink_key returns
_OPTIONS: Final[dict[str, Any]] = {"mysql_engine": "InnoDB", "mysql_charset": "ascii", "mysql_collate": "ascii_bin"}
_METADATA: Final = MetaData()


def column(name: str, kind: Any, *, key: bool = True) -> Column[Any]:
    """A column of a table of the protocol's own: NOT NULL, without a default."""
    return Column(name, kind, primary_key=key, nullable=False, autoincrement=False)


def table(name: str, *columns: Column[Any]) -> Table:
    """A table of the protocol's own, in ASCII but for the pipelines' names."""
    return Table(name, _METADATA, *columns, comment=table_format.COMMENT, **_OPTIONS)


INCARNATION: Final = String(INCARNATION_LENGTH)
SINK: Final = String(_SINK_LENGTH)
_BINARY: Final = mysql.VARCHAR(255, charset="utf8mb4", collation="utf8mb4_bin")
PIPELINE: Final = String(255).with_variant(_BINARY, "mysql")  # the only name that users choose

CLAIM: Final = table(
    "eos_claim",
    column("pipeline", PIPELINE),
    column("sink", SINK),
    column("incarnation", INCARNATION, key=False),
    column("epoch", BigInteger, key=False),
)
WITNESS: Final = table(
    "eos_witness",
    column("incarnation", INCARNATION),
    column("sink", SINK),
    column("checkpoint_id", BigInteger),
    column("epoch", BigInteger),
    column("attempt", Integer),
    column("task", Integer),
    column("task_attempt", BigInteger),
    column("row_count", BigInteger, key=False),
    column("written_at", DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql"), key=False),  # UTC
)

_WITNESS_KEY: Final = (
    "incarnation = %s AND sink = %s AND checkpoint_id = %s AND epoch = %s"
    " AND attempt = %s AND task = %s AND task_attempt = %s"
)


def ddl(tables: Sequence[Table], dialect: Dialect) -> str:
    """What an administrator has to run where the pipeline's user may not create tables."""
    statements = (table_format.creating(each, dialect, if_missing=True) for each in tables)
    return "\n".join(f"{each};" for of_table in statements for each in of_table)


def ensure(server: Connected, tables: Sequence[Table], where: str) -> None:
    """Create what is missing, once this version may work on what is there. `where`: the database, for people.

    Raises HeadFormatError for tables that a newer version has changed, TargetError with the DDL if they may not be
    created, else StatementError.
    """
    there = _check_formats(server, tables, where)
    missing = [each for each in tables if not exists(server, each)]
    for each in missing:
        _create_missing(server, each, missing, where)
    if any(each.name not in there for each in tables):
        _check_formats(server, tables, where)  # a newer version may have been quicker


def exists(server: Connected, asked: Table) -> bool:
    """Whether the table is there, and may be read. Raises StatementError."""
    try:
        server.execute(f"SELECT 1 FROM {asked.name} LIMIT 0")
    except StatementError as error:
        if not (error.missing_table or error.access_denied):
            raise
        return False
    return True


def has_rows(server: Connected, name: str, where: str, *values: object) -> bool:
    """Whether a table of another variant, which need not exist, has such rows. Outside of a transaction."""
    try:
        return bool(server.execute(f"SELECT 1 FROM {name} WHERE {where} LIMIT 1", *values))
    except StatementError as error:
        if not (error.missing_table or error.access_denied):
            raise
        return False


def _check_formats(server: Connected, tables: Sequence[Table], where: str) -> set[str]:
    """Return the names of the tables that are there, also of those that may not be read."""
    found = server.execute(table_format.reading(server.comment_of, tables))
    table_format.check_formats(found, where)
    return {str(name) for name, _ in found}


def _create_missing(server: Connected, missing: Table, tables: Sequence[Table], where: str) -> None:
    try:
        _create(server, missing)
    except StatementError as error:
        if not error.disconnected and missing.name in _check_formats(server, [missing], where):
            return  # created at the same moment by another sink, which PostgreSQL tells by one of several errors
        if not error.access_denied:
            raise
        message = f"the protocol's own tables are missing and may not be created here: {error.text}"
        remedy = "let an administrator run these statements and grant SELECT, INSERT, UPDATE, DELETE on them:\n"
        remedy += ddl(tables, server.ddl)
        raise TargetError(message, remedy=remedy) from error


def _create(server: Connected, missing: Table) -> None:
    first, *more = table_format.creating(missing, server.ddl)
    if not more:
        server.execute(first)
        return
    with in_transaction(server):
        for statement in (first, *more):
            server.execute(statement)


def inserting(into: Table, *expressions: str) -> str:
    """Return the INSERT of one row, which names its columns: a newer version may add one that has a default.

    `expressions`: of the last columns; the others take values.
    """
    columns = [each.name for each in into.columns]
    values = ["%s"] * (len(columns) - len(expressions)) + [*expressions]
    return f"INSERT INTO {into.name} ({', '.join(columns)}) VALUES ({', '.join(values)})"


def insert_witness(server: Connected, transaction: TransactionId, rows: int) -> None:
    """Write the witness of the branch that is open on this server."""
    server.execute(inserting(WITNESS, server.utc_now), *_witness(transaction), rows)


def is_witness_visible(server: Connected, transaction: TransactionId) -> bool | None:
    """Locking read: whether the transaction was committed. Waits for a commit under way (R7, H4).

    None: neither committed nor rolled back, for as long as the connection waits for a lock. Raises StatementError.
    """
    statement = f"SELECT 1 FROM eos_witness WHERE {_WITNESS_KEY} {server.for_share}"
    try:
        return bool(server.execute(statement, *_witness(transaction)))
    except StatementError as error:
        if not error.lock_wait:
            raise
        return None


def highest_witness(server: Connected, incarnation: str, sink: str) -> int:
    """The newest visible checkpoint, -1 for none. A plain read, for a start that compares (R2)."""
    statement = "SELECT COALESCE(MAX(checkpoint_id), -1) FROM eos_witness WHERE incarnation = %s AND sink = %s"
    return int(server.execute(statement, incarnation, sink)[0][0])


def has_witness(server: Connected, incarnation: str, sink: str, checkpoint_id: int) -> bool:
    """Whether anything of the checkpoint is visible. A plain read."""
    statement = "SELECT 1 FROM eos_witness WHERE incarnation = %s AND sink = %s AND checkpoint_id = %s LIMIT 1"
    return bool(server.execute(statement, incarnation, sink, checkpoint_id))


def witnesses(server: Connected, incarnation: str, sink: str, checkpoint_id: int | None = None) -> set[TransactionId]:
    """Those of a sink, or of one checkpoint of it, that a plain read shows: sink_key(name)."""
    statement = "SELECT checkpoint_id, epoch, attempt, task, task_attempt FROM eos_witness"
    statement += " WHERE incarnation = %s AND sink = %s"
    if checkpoint_id is None:
        rows = server.execute(statement, incarnation, sink)
    else:
        rows = server.execute(f"{statement} AND checkpoint_id = %s", incarnation, sink, checkpoint_id)
    return {
        TransactionId(Scope(incarnation, int(epoch), int(number), int(attempt)), sink, int(task), int(task_attempt))
        for number, epoch, attempt, task, task_attempt in rows
    }


def visible_witnesses(server: Connected, transactions: Iterable[TransactionId]) -> set[TransactionId]:
    """Those that a plain read shows. A statement for each checkpoint, however many tasks it has."""
    asked, seen = set(transactions), set[TransactionId]()
    for of_checkpoint in {(each.scope.incarnation, each.sink, each.scope.checkpoint_id) for each in asked}:
        seen |= witnesses(server, *of_checkpoint)
    return asked & seen


def shown(server: Connected, committables: Sequence[Committable]) -> set[TransactionId]:
    """The transactions whose rows a plain read shows: by their own witness, or by that of what they stand for.

    Where a repair took for lost what was then applied after all, only the latter is there.
    """
    seen = visible_witnesses(server, {t for each in committables for t in (each.transaction, origin(each))})
    return {each.transaction for each in committables if seen & {each.transaction, origin(each)}}


def prune_witnesses(server: Connected, incarnation: str, sink: str, below: int) -> None:
    """Delete the visible witnesses of checkpoints below `below`. What somebody else holds is left to the next time.

    A DELETE of a range also locks the record behind it, which may belong to a branch that is prepared, and would wait
    for that (measured on MySQL and MariaDB, READ COMMITTED). Where a newer checkpoint of the sink is visible, that
    record is its own, and one statement does. Otherwise, and where the server reads more than the range, each is
    deleted by its whole key: of a hundred that takes 8 ms instead of 1.
    """
    chosen = "FROM eos_witness WHERE incarnation = %s AND sink = %s AND checkpoint_id < %s"
    if highest_witness(server, incarnation, sink) >= below:
        with _unless_locked():
            server.execute(f"DELETE {chosen}", incarnation, sink, below)
            return
    key = "incarnation, sink, checkpoint_id, epoch, attempt, task, task_attempt"
    with _unless_locked(), in_transaction(server):
        for row in server.execute(f"SELECT {key} {chosen} ORDER BY {key}", incarnation, sink, below):
            server.execute(f"DELETE FROM eos_witness WHERE {_WITNESS_KEY}", *row)


@contextmanager
def _unless_locked() -> Iterator[None]:
    try:
        yield
    except StatementError as error:
        if not error.lock_wait:
            raise


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

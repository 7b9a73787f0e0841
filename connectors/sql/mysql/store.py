"""A connection that applies the log to MySQL or MariaDB (connectors.sql.log.store.Store), and how it merges rows."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

import pyarrow as pa

from connectors.log.merge import Merge
from connectors.sql.bulk_writer import Sender
from connectors.sql.log.merging import check_key, split, tombstone_problems
from connectors.sql.mysql import zombie_connections
from connectors.sql.mysql.bulk import Bulk, refusals
from connectors.sql.mysql.encode import plans_of
from connectors.sql.mysql.engine import Session, quote
from connectors.sql.mysql.partitioning import EXACT_TYPES, is_exact
from connectors.sql.mysql.target import Target, read_target
from connectors.sql.statements import in_transaction
from eos.errors import BadRowError, TargetError

_MERGED_AT_ONCE: Final = 50_000  # rows: a statement must end before we take the server for silent


class MySqlStore(Session):
    """The driver's connection to MySQL or MariaDB, which applies a log."""

    def __init__(self, url: str) -> None:
        """Connect. Raises ServerError. `url`: a secret."""
        super().__init__(url, lock_wait_s=1)  # the driver waits between its calls, and longer each time
        # As no table of the user is called: a temporary one hides it, and MariaDB would merge the rows into that.
        self._stage = f"eos_stage_{secrets.token_hex(8)}"

    def load(self, table: str, batches: Iterable[pa.RecordBatch]) -> None:
        self._load(read_target(self, table).quoted, batches)

    def merge(self, table: str, merge: Merge, batches: Iterable[pa.RecordBatch]) -> None:
        """See Store. LOAD DATA itself can only skip or replace: where replacing is not the same as merging, rows come
        into a table of this session alone first."""
        target = self._held(table, merge)
        put: Callable[[str, pa.RecordBatch], None] | None = None
        for batch in batches:
            gone, kept = split(batch, merge)
            put = put or self._way(target, merge, kept.schema.names)
            if gone.num_rows:
                self._delete(target.quoted, merge, gone)
            if kept.num_rows:
                put(target.quoted, kept)

    def rehearse(self, table: str, merge: Merge, schema: pa.Schema, *, deletes: bool) -> None:
        """Merge no row at all, in a transaction of its own: the server says what it would refuse. Raises ServerError,
        TargetError. `schema`: of the segments."""
        gone, kept = split(pa.RecordBatch.from_pylist([], schema), merge)
        with in_transaction(self):
            target = self._held(table, merge).quoted
            if deletes:
                self._delete(target, merge, gone)
            self._put(merge, target, kept)

    def mark(self, name: str, member: int | None = None) -> None:
        zombie_connections.mark(self, name, member)

    def end(self, name: str, member: int | None = None) -> int:
        return zombie_connections.kill(self, name, member)

    def _way(self, target: Target, merge: Merge, columns: Sequence[str]) -> Callable[[str, pa.RecordBatch], None]:
        """How rows are put there."""
        replaces = merge == Merge(merge.key) and can_replace(self, target, columns)
        return self._replace if replaces else partial(self._put, merge)

    def _load(self, target: str, batches: Iterable[pa.RecordBatch], *, replace: bool = False) -> None:
        sender, bulk, row = Sender(), None, 1
        try:
            for batch in batches:
                bulk = bulk or self._bulk(target, batch.schema, replace=replace)
                for payload in bulk.encode_stored(batch, row):
                    sender.submit(partial(bulk.send, self, payload))
                row += batch.num_rows
            sender.wait()
        finally:
            sender.settle()
            sender.close()

    def _bulk(self, target: str, schema: pa.Schema, *, replace: bool) -> Bulk:
        local, max_packet = self.execute("SELECT @@local_infile, @@max_allowed_packet")[0]
        plans = plans_of(schema)
        return Bulk(target, plans, local=bool(local), max_packet_bytes=int(max_packet), replace=replace)

    @contextmanager
    def _staged(self, target: str, batch: pa.RecordBatch) -> Iterator[str]:
        """The rows in a temporary table, whose columns are the target's. Making and dropping one commits nothing."""
        names = ", ".join(quote(name) for name in batch.schema.names)
        self.execute(f"DROP TEMPORARY TABLE IF EXISTS {self._stage}")
        self.execute(f"CREATE TEMPORARY TABLE {self._stage} SELECT {names} FROM {target} LIMIT 0")
        self._load(self._stage, [batch])
        yield self._stage
        self.execute(f"DROP TEMPORARY TABLE {self._stage}")

    def _delete(self, target: str, merge: Merge, keys: pa.RecordBatch) -> None:
        if merge.stores_deletions:
            self._put(merge, target, keys)
            return
        same = " AND ".join(f"t.{quote(name)} = s.{quote(name)}" for name in merge.key)
        for some in _slices(keys):
            with self._staged(target, some) as stage:
                if merge.deleted_at is None:
                    self._checked(f"DELETE t FROM {target} t JOIN {stage} s ON {same}")
                else:
                    at = quote(merge.deleted_at)
                    self._checked(f"UPDATE {target} t JOIN {stage} s ON {same} SET t.{at} = s.{at}")

    def _replace(self, target: str, rows: pa.RecordBatch) -> None:
        with unchecked_foreign_keys(self):
            self._load(target, [rows], replace=True)

    def _put(self, merge: Merge, target: str, rows: pa.RecordBatch) -> None:
        names = ", ".join(quote(name) for name in rows.schema.names)
        sets = _sets(merge, target, rows.schema.names)
        for some in _slices(rows):
            with self._staged(target, some) as stage:
                found = f"SELECT {names} FROM {stage}"
                self._checked(f"INSERT INTO {target} ({names}) {found} ON DUPLICATE KEY UPDATE {sets}")

    def _held(self, table: str, merge: Merge) -> Target:
        """The table as it is for the rest of the transaction: an index that is new since the start could make
        another key's row of one of ours. Raises TargetError."""
        self.execute(f"SELECT NULL FROM {read_target(self, table).quoted} LIMIT 0")  # no DDL from here on
        target = read_target(self, table)
        if problems := merge_problems(target, merge):
            message = f"table {target} cannot be merged into: " + "; ".join(problems)
            raise TargetError(message, remedy="the rows wait in the log: change the table back, and start again")
        return target

    def _checked(self, statement: str) -> None:
        self.execute(statement)
        if faults := refusals(self.warnings()):
            number, text = faults[0]
            message = f"the server has altered a row: {text} (error {number})"
            raise BadRowError(message, remedy="correct the row in a transform, or change the column")


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """One without rows is one slice: what is rehearsed."""
    return (batch.slice(start, _MERGED_AT_ONCE) for start in range(0, max(batch.num_rows, 1), _MERGED_AT_ONCE))


def _sets(merge: Merge, target: str, names: Sequence[str]) -> str:
    """Return the end of an INSERT … ON DUPLICATE KEY UPDATE."""
    if merge.keep:
        name = quote(merge.key[0])
        return f"{name} = {target}.{name}"
    if merge.order_by is None:
        return ", ".join(f"{quote(name)} = VALUES({quote(name)})" for name in names)
    order = quote(merge.order_by)
    staged, stored = f"VALUES({order})", f"{target}.{order}"
    if merge.text_order:
        staged, stored = (f"CAST(CONVERT({each} USING utf8mb4) AS BINARY)" for each in (staged, stored))
    newer = f"{target}.{order} IS NULL OR {staged} >= {stored}"
    # The servers set one column after another, and each later one sees it: the order itself is the last.
    ordered = [*(name for name in names if name != merge.order_by), merge.order_by]
    return ", ".join(f"{quote(name)} = IF({newer}, VALUES({quote(name)}), {target}.{quote(name)})" for name in ordered)


_TEXTS: Final = frozenset({"char", "varchar"})


def merge_problems(target: Target, merge: Merge, kinds: Mapping[str, pa.DataType] | None = None) -> list[str]:
    """Return why rows cannot be merged into the table. ON DUPLICATE KEY names no index, and takes any for the key.

    With an order the server compares, so that it may take two texts for one key.

    Args:
        target: the table.
        merge: by columns of it.
        kinds: types of what is written, by column of the table; None: they fit exactly, or have been looked at before.
    """
    unique = {
        index.name: [part.column.lower() if part.column and part.whole else None for part in index.parts]
        for index in target.unique
    }
    exact = {
        column.name.lower()
        for column in target.columns
        if is_exact(column, None if kinds is None else kinds.get(column.name, pa.null()))
        or (merge.order_by is not None and column.type in _TEXTS)
    }
    required = {column.name for column in target.columns if column.required}
    of_key = check_key([name.lower() for name in merge.key], unique, exact, EXACT_TYPES)
    return of_key + tombstone_problems(merge, required)


_NEEDED: Final = frozenset({"DELETE", "INSERT", "TRIGGER"})  # REPLACE takes the first two; the third shows triggers


def can_replace(session: Session, target: Target, columns: Sequence[str]) -> bool:
    """Return whether REPLACE leaves the table as ON DUPLICATE KEY UPDATE does, in one step instead of two.

    REPLACE deletes a row and inserts another one, or updates the row in place where the two look the same. They differ
    for a column that is not written, for triggers, and for tables whose foreign keys refer to this one. Such tables may
    be hidden from this user, so only `foreign_key_checks = 0` keeps their rows; then the table's own foreign keys are
    not checked.

    Called inside the transaction that has locked the table's definition. False where the user's rights do not show
    whether it is so. Raises ServerError.
    """
    written = {name.lower() for name in columns}
    return (
        all(column.generated or column.name.lower() in written for column in target.columns)
        and _privileges(session, target) >= _NEEDED
        and not _has(session, target, "TRIGGERS", "EVENT_OBJECT_SCHEMA = %s AND EVENT_OBJECT_TABLE = %s")
        and not _has(
            session,
            target,
            "TABLE_CONSTRAINTS",
            "TABLE_SCHEMA = %s AND TABLE_NAME = %s AND CONSTRAINT_TYPE = 'FOREIGN KEY'",
        )
    )


@contextmanager
def unchecked_foreign_keys(session: Session) -> Iterator[None]:
    """No foreign key is checked, and none acts, while rows take the places of others. Raises ServerError."""
    session.execute("SET SESSION foreign_key_checks = 0")
    try:
        yield
    finally:
        session.execute("SET SESSION foreign_key_checks = 1")


def _privileges(session: Session, target: Target) -> frozenset[str]:
    """Those that are granted to the user itself: of roles nothing is told, and of what is revoked in parts."""
    if session.execute("SHOW VARIABLES WHERE Variable_name = 'partial_revokes' AND Value = 'ON'"):
        return frozenset()
    user, _, host = str(session.execute("SELECT CURRENT_USER()")[0][0]).rpartition("@")
    grantee = f"'{user}'@'{host}'"
    rows = session.execute(
        "SELECT PRIVILEGE_TYPE FROM information_schema.USER_PRIVILEGES WHERE GRANTEE = %s"
        " UNION SELECT PRIVILEGE_TYPE FROM information_schema.SCHEMA_PRIVILEGES"
        " WHERE GRANTEE = %s AND %s LIKE TABLE_SCHEMA"
        " UNION SELECT PRIVILEGE_TYPE FROM information_schema.TABLE_PRIVILEGES"
        " WHERE GRANTEE = %s AND TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        *(grantee, grantee, target.schema, grantee, target.schema, target.table),
    )
    return frozenset(str(name).upper() for (name,) in rows)


def _has(session: Session, target: Target, catalog: str, where: str) -> bool:
    statement = f"SELECT 1 FROM information_schema.{catalog} WHERE {where} LIMIT 1"
    return bool(session.execute(statement, target.schema, target.table))

"""A connection that applies the log to MySQL or MariaDB. See connectors.sql.log.store.Store."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

import pyarrow as pa

from connectors.sql.log.merging import split
from connectors.sql.mysql import merging, replacing, stragglers
from connectors.sql.mysql.bulk import Bulk, refusals
from connectors.sql.mysql.engine import Session, quote
from connectors.sql.mysql.stored import plans_of
from connectors.sql.mysql.target import Target, read_target
from connectors.sql.sender import Sender
from connectors.sql.statements import in_transaction
from twophase.errors import BadRowError, TargetError

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

    def merge(self, table: str, key: Sequence[str], batches: Iterable[pa.RecordBatch]) -> None:
        """See Store. LOAD DATA itself can only skip or replace: where replacing is not the same as merging, rows come
        into a table of this session alone first."""
        target = self._held(table, key)
        put: Callable[[str, pa.RecordBatch], None] | None = None
        for batch in batches:
            gone, kept = split(batch, key)
            put = put or self._way(target, kept.schema.names)
            if gone.num_rows:
                self._delete(target.quoted, gone)
            if kept.num_rows:
                put(target.quoted, kept)

    def rehearse(self, table: str, key: Sequence[str], schema: pa.Schema, *, deletes: bool) -> None:
        """Merge no row at all, in a transaction of its own: the server says what it would refuse. Raises ServerError,
        TargetError. `schema`: of the segments."""
        gone, kept = split(pa.RecordBatch.from_pylist([], schema), key)
        with in_transaction(self):
            target = self._held(table, key).quoted
            if deletes:
                self._delete(target, gone)
            self._put(target, kept)

    def mark(self, name: str, member: int | None = None) -> None:
        stragglers.mark(self, name, member)

    def end(self, name: str, member: int | None = None) -> int:
        return stragglers.end(self, name, member)

    def _way(self, target: Target, columns: Sequence[str]) -> Callable[[str, pa.RecordBatch], None]:
        """How rows are put there."""
        return self._replace if replacing.is_same(self, target, columns) else self._put

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

    def _delete(self, target: str, keys: pa.RecordBatch) -> None:
        same = " AND ".join(f"t.{quote(name)} = s.{quote(name)}" for name in keys.schema.names)
        for some in _slices(keys):
            with self._staged(target, some) as stage:
                self._checked(f"DELETE t FROM {target} t JOIN {stage} s ON {same}")

    def _replace(self, target: str, rows: pa.RecordBatch) -> None:
        with replacing.unchecked(self):
            self._load(target, [rows], replace=True)

    def _put(self, target: str, rows: pa.RecordBatch) -> None:
        names = ", ".join(quote(name) for name in rows.schema.names)
        sets = ", ".join(f"{quote(name)} = VALUES({quote(name)})" for name in rows.schema.names)
        for some in _slices(rows):
            with self._staged(target, some) as stage:
                found = f"SELECT {names} FROM {stage}"
                self._checked(f"INSERT INTO {target} ({names}) {found} ON DUPLICATE KEY UPDATE {sets}")

    def _held(self, table: str, key: Sequence[str]) -> Target:
        """The table as it is for the rest of the transaction: an index that is new since the start could make
        another key's row of one of ours. Raises TargetError."""
        self.execute(f"SELECT NULL FROM {read_target(self, table).quoted} LIMIT 0")  # no DDL from here on
        target = read_target(self, table)
        if problems := merging.problems(target, key):
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

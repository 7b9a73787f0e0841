"""A connection that applies the log to PostgreSQL. See connectors.sql.log.store.Store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

import pyarrow as pa

from connectors.log.merge import Merge
from connectors.sql.bulk_writer import Sender
from connectors.sql.column_text import slices
from connectors.sql.log.merging import on_conflict, split
from connectors.sql.postgres import zombie_connections
from connectors.sql.postgres.copying import copy, copy_statement, lines
from connectors.sql.postgres.encode import plans_of
from connectors.sql.postgres.engine import Session, quote
from connectors.sql.postgres.target import read_target
from connectors.sql.statements import in_transaction
from eos.errors import BadRowError

_STAGE: Final = "pg_temp.eos_stage"
_BYTEWISE: Final = '"C"'
"""A collation. The database is in UTF-8."""


class PostgresStore(Session):
    """The driver's connection to PostgreSQL, which applies a log."""

    def __init__(self, url: str) -> None:
        """Connect. Raises ServerError. `url`: a secret."""
        super().__init__(url, lock_wait_s=1)  # the driver waits between its calls, and longer each time

    def load(self, table: str, batches: Iterable[pa.RecordBatch]) -> None:
        self._load(read_target(self, table).quoted, batches)

    def merge(self, table: str, merge: Merge, batches: Iterable[pa.RecordBatch]) -> None:
        """See Store. COPY can only add, so that rows come into a table of this session alone first."""
        target = read_target(self, table).quoted
        for batch in batches:
            gone, kept = split(batch, merge)
            if gone.num_rows:
                self._delete(target, merge, gone)
            if kept.num_rows:
                self._put(target, merge, kept)

    def rehearse(self, table: str, merge: Merge, schema: pa.Schema, *, deletes: bool) -> None:
        """Merge no row at all, in a transaction of its own: the server says what it would refuse. Raises ServerError,
        TargetError. `schema`: of the segments."""
        gone, kept = split(pa.RecordBatch.from_pylist([], schema), merge)
        with in_transaction(self):
            target = read_target(self, table).quoted
            if deletes:
                self._delete(target, merge, gone)
            self._put(target, merge, kept)

    def mark(self, name: str, member: int | None = None) -> None:
        zombie_connections.mark(self, name, member)

    def end(self, name: str, member: int | None = None) -> int:
        return zombie_connections.kill(self, name, member)

    def _load(self, target: str, batches: Iterable[pa.RecordBatch]) -> None:
        sender, row = Sender(), 1
        try:
            for batch in batches:
                plans = plans_of(batch.schema)
                statement = copy_statement(target, plans)
                for part in slices(batch):
                    data = [lines(plans, part.columns)]
                    sender.submit(partial(copy, self, statement, data, part.num_rows, row))
                    row += part.num_rows
            sender.wait()
        finally:
            sender.settle()
            sender.close()

    def _delete(self, target: str, merge: Merge, keys: pa.RecordBatch) -> None:
        if merge.stores_deletions:
            self._put(target, merge, keys)
            return
        same = _same(merge)
        with self._staged(target, keys) as stage:
            if merge.deleted_at is None:
                self.execute(f"DELETE FROM {target} t USING {stage} s WHERE {same}")
            else:
                at = quote(merge.deleted_at)
                self.execute(f"UPDATE {target} t SET {at} = s.{at} FROM {stage} s WHERE {same}")
                same += f" AND t.{at} IS DISTINCT FROM s.{at}"
            (left,) = self.execute(f"SELECT count(*) FROM {target} t JOIN {stage} s ON {same}")[0]
        _check_count(keys.num_rows - left, keys.num_rows)

    def _put(self, target: str, merge: Merge, rows: pa.RecordBatch) -> None:
        names = ", ".join(quote(name) for name in rows.schema.names)
        conflict = on_conflict(quote, merge, rows.schema.names, _BYTEWISE)
        with self._staged(target, rows) as stage:
            merging = f"INSERT INTO {target} AS t ({names}) SELECT {names} FROM {stage} {conflict} RETURNING 1"
            (merged,) = self.execute(f"WITH merged AS ({merging}) SELECT count(*) FROM merged")[0]
            if merged != rows.num_rows and merge.may_leave_out:
                (merged,) = self.execute(f"SELECT count(*) FROM {target} t JOIN {stage} s ON {_settled(merge)}")[0]
        _check_count(merged, rows.num_rows)

    @contextmanager
    def _staged(self, target: str, batch: pa.RecordBatch) -> Iterator[str]:
        """The rows in a temporary table, whose columns are the target's."""
        names = ", ".join(quote(name) for name in batch.schema.names)
        self.execute(f"CREATE TEMP TABLE {_STAGE} ON COMMIT DROP AS SELECT {names} FROM {target} WITH NO DATA")
        self._load(_STAGE, [batch])
        yield _STAGE
        self.execute(f"DROP TABLE {_STAGE}")


def _same(merge: Merge) -> str:
    return " AND ".join(f"t.{quote(name)} = s.{quote(name)}" for name in merge.key)


def _settled(merge: Merge) -> str:
    """Return the condition for a row t of the table to be there in spite of a row s, or because of it."""
    if merge.order_by is None:
        return _same(merge)
    collation = f" COLLATE {_BYTEWISE}" if merge.text_order else ""
    order = quote(merge.order_by)
    return f"{_same(merge)} AND t.{order}{collation} >= s.{order}{collation}"


def _check_count(merged: int, rows: int) -> None:
    if merged != rows:
        message = f"the server merged {merged} of {rows} rows and gave no reason"
        raise BadRowError(message, remedy="look for triggers, rules and policies of the table")

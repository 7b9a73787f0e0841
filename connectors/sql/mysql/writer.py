"""The task's half of a MySQL or MariaDB sink: LOAD DATA into one XA branch, or into a transaction of its own.

See connectors.sql.bulk_writer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa

from connectors.sql.bulk_writer import BulkWriter, DirectBulkWriter, Payload
from connectors.sql.mysql import xa, zombie_connections
from connectors.sql.mysql.address import login_files, masked
from connectors.sql.mysql.bulk import Bulk
from connectors.sql.mysql.engine import Session
from connectors.sql.mysql.fit import ColumnPlan
from connectors.sql.pool import Login
from connectors.sql.two_phase.writer import TwoPhaseWriter
from twophase.ids import TransactionId


class _Rows(BulkWriter[Session]):
    """How rows come there."""

    def __init__(
        self,
        name: str,
        url: str,
        target: str,
        plans: Sequence[ColumnPlan],
        transaction: TransactionId,
        let_go_s: int,
    ) -> None:
        super().__init__(f"sink {name} at {masked(url)}", transaction)
        self._url = url
        self._let_go_s = let_go_s
        self._target = target
        self._plans = plans
        self._bulk: Bulk | None = None

    def _find_login(self) -> Login:
        return Login.of(self._url, login_files(self._url), self._let_go_s)

    def _connect(self) -> Session:
        return Session(self._url, let_go_s=self._let_go_s)

    def _encode(self, session: Session, batch: pa.RecordBatch, first_row: int) -> Iterator[Payload]:
        bulk = self._bulk = self._bulk or self._bulk_of(session)
        for each in bulk.encode(batch, first_row):
            yield Payload(partial(bulk.send, session, each), each.rows, each.bytes)

    def _bulk_of(self, session: Session) -> Bulk:
        """Asked with the first batch, when nothing else is on the connection."""
        local, max_packet = session.execute("SELECT @@local_infile, @@max_allowed_packet")[0]
        return Bulk(self._target, self._plans, local=bool(local), max_packet_bytes=int(max_packet))


class MySqlWriter(_Rows, TwoPhaseWriter[Session]):
    """Two-phase writer of MySQL and MariaDB, by LOAD DATA."""

    def _start(self, session: Session, holders: str) -> None:
        zombie_connections.mark(session, holders, self._transaction.task)
        xa.start(session, self._transaction)

    def _prepare(self, session: Session) -> bool:
        xa.prepare(session, self._transaction)
        return xa.releases_xid(session)

    def _roll_back(self, session: Session) -> None:
        xa.end_and_rollback(session, self._transaction)


class MySqlDirectWriter(_Rows, DirectBulkWriter[Session]):
    """At-least-once writer of MySQL and MariaDB, by LOAD DATA."""

"""The task's half of a PostgreSQL sink: COPY into one transaction. See connectors.sql.bulk_writer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa

from connectors.sql.bulk_writer import BulkWriter, DirectBulkWriter, Payload
from connectors.sql.pool import Login
from connectors.sql.postgres import server, zombie_connections
from connectors.sql.postgres.address import login_files, masked
from connectors.sql.postgres.copying import copy, copy_data, copy_statement
from connectors.sql.postgres.engine import Session
from connectors.sql.postgres.fit import ColumnPlan
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
        self._statement = copy_statement(target, plans)
        self._plans = plans

    def _find_login(self) -> Login:
        return Login.of(self._url, login_files(self._url), self._let_go_s)

    def _connect(self) -> Session:
        return Session(self._url, let_go_s=self._let_go_s)

    def _encode(self, session: Session, batch: pa.RecordBatch, first_row: int) -> Iterator[Payload]:
        parts = list(copy_data(self._plans, batch, first_row))
        send = partial(copy, session, self._statement, parts, batch.num_rows, first_row)
        yield Payload(send, batch.num_rows, sum(len(part) for part in parts))


class PostgresWriter(_Rows, TwoPhaseWriter[Session]):
    """Two-phase writer of PostgreSQL, by COPY."""

    def _start(self, session: Session, holders: str) -> None:
        zombie_connections.mark(session, holders)
        session.execute(session.begin)

    def _prepare(self, session: Session) -> bool:
        server.prepare(session, self._transaction)
        return True


class PostgresDirectWriter(_Rows, DirectBulkWriter[Session]):
    """At-least-once writer of PostgreSQL, by COPY."""

"""The task's half of a MySQL or MariaDB sink: one XA branch. See connectors.sql.two_phase.writer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa

from connectors.sql.address import masked
from connectors.sql.mysql import stragglers, xa
from connectors.sql.mysql.bulk import Bulk
from connectors.sql.mysql.engine import Session
from connectors.sql.mysql.fit import ColumnPlan
from connectors.sql.two_phase.writer import Payload, TwoPhaseWriter
from twophase.ids import TransactionId


class MySqlWriter(TwoPhaseWriter[Session]):
    """See Writer."""

    def __init__(
        self, name: str, url: str, target: str, plans: Sequence[ColumnPlan], transaction: TransactionId
    ) -> None:
        super().__init__(f"sink {name} at {masked(url)}", transaction)
        self._url = url
        self._target = target
        self._plans = plans
        self._bulk: Bulk | None = None

    def _connect(self, holders: str) -> Session:
        session = Session(self._url)
        stragglers.mark(session, holders, self._transaction.task)
        return session

    def _start(self, session: Session) -> None:
        local, max_packet = session.execute("SELECT @@local_infile, @@max_allowed_packet")[0]
        self._bulk = Bulk(self._target, self._plans, local=bool(local), max_packet_bytes=int(max_packet))
        xa.start(session, self._transaction)

    def _encode(self, session: Session, batch: pa.RecordBatch, first_row: int) -> Iterator[Payload]:
        assert self._bulk is not None
        for each in self._bulk.encode(batch, first_row):
            yield Payload(partial(self._bulk.send, session, each), each.rows, each.bytes)

    def _prepare(self, session: Session) -> None:
        xa.prepare(session, self._transaction)

    def _roll_back(self, session: Session) -> None:
        xa.end_and_rollback(session, self._transaction)

"""The task's half of a PostgreSQL sink: COPY into one transaction. See connectors.sql.two_phase.writer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa

from connectors.sql.postgres import stragglers, transactions
from connectors.sql.postgres.address import masked
from connectors.sql.postgres.copying import copy, copy_data, copy_statement
from connectors.sql.postgres.engine import Session
from connectors.sql.postgres.fit import ColumnPlan
from connectors.sql.two_phase.writer import Payload, TwoPhaseWriter
from twophase.ids import TransactionId


class PostgresWriter(TwoPhaseWriter[Session]):
    """See Writer."""

    def __init__(
        self, name: str, url: str, target: str, plans: Sequence[ColumnPlan], transaction: TransactionId
    ) -> None:
        super().__init__(f"sink {name} at {masked(url)}", transaction)
        self._url = url
        self._statement = copy_statement(target, plans)
        self._plans = plans

    def _connect(self, holders: str) -> Session:
        session = Session(self._url)
        stragglers.mark(session, holders)
        return session

    def _start(self, session: Session) -> None:
        session.execute(session.begin)

    def _encode(self, session: Session, batch: pa.RecordBatch, first_row: int) -> Iterator[Payload]:
        parts = list(copy_data(self._plans, batch, first_row))
        send = partial(copy, session, self._statement, parts, batch.num_rows, first_row)
        yield Payload(send, batch.num_rows, sum(len(part) for part in parts))

    def _prepare(self, session: Session) -> None:
        transactions.prepare(session, self._transaction)

    def _roll_back(self, session: Session) -> None:
        session.execute("ROLLBACK")

"""PostgreSQL as two-phase commit sees it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

from connectors.sql.postgres import transactions, zombie_connections
from connectors.sql.postgres.address import masked
from connectors.sql.postgres.engine import Session
from connectors.sql.two_phase.committer import TwoPhaseCommitter
from connectors.sql.two_phase.server import Listed
from twophase.ids import TransactionId

_LOCK_WAIT_S: Final = 1  # the driver waits between its calls, and longer each time


class PostgresServer(Session):
    """See Server. The driver's connection.

    A locking read does not wait for a row that another transaction has inserted and not yet committed. It need not: a
    prepared transaction is listed until its rows are visible to everybody, so that one which is neither listed nor has
    a witness was not committed (src/backend/access/transam/twophase.c, FinishPreparedTransaction).
    """

    def __init__(self, url: str) -> None:
        """Connect. Raises ServerError. `url`: a secret."""
        super().__init__(url, lock_wait_s=_LOCK_WAIT_S)

    def prepared(self) -> Sequence[Listed]:
        return transactions.listed(self)

    def commit_prepared(self, transaction: TransactionId) -> None:
        transactions.commit(self, transaction)

    def roll_back_prepared(self, transaction: TransactionId) -> None:
        transactions.rollback(self, transaction)

    def missing_commits(self, committed: Collection[TransactionId]) -> Collection[TransactionId]:
        return ()

    def unlisted(self, incarnation: str, sink: str, checkpoint_id: int | None) -> Collection[TransactionId]:
        return ()

    def relist(self, transaction: TransactionId) -> None:
        """Do nothing: PostgreSQL forgets no prepared transaction."""

    def end(self, name: str) -> int:
        return zombie_connections.kill(self, name)


def postgres_committer(name: str, url: str, pipeline: str) -> TwoPhaseCommitter:
    """The driver's half of a sink. Connects when it is first asked. `url`: a secret."""
    return TwoPhaseCommitter(name, pipeline, masked(url), partial(PostgresServer, url))

"""PostgreSQL as two-phase commit sees it: the statements, and the driver's connection.

The id of a prepared transaction is `eos:` and the transaction's own id.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

from connectors.sql.postgres import zombie_connections
from connectors.sql.postgres.address import masked
from connectors.sql.postgres.engine import Session
from connectors.sql.postgres.errors import ServerError
from connectors.sql.two_phase.committer import TwoPhaseCommitter
from connectors.sql.two_phase.committing import CONNECTIONS
from connectors.sql.two_phase.server import Listed
from twophase.ids import TransactionId

_MARK: Final = "eos:"
_LOCK_WAIT_S: Final = 1  # the driver waits between its calls, and longer each time


def prepare(session: Session, transaction: TransactionId) -> None:
    """Prepare what is open on this session. When it returns, that survives the connection and the server."""
    session.execute(f"PREPARE TRANSACTION {_literal(transaction)}")


def commit(session: Session, transactions: Sequence[TransactionId]) -> list[ServerError | None]:
    """Commit what was prepared on any connection to this database. Return the answers, 42704 for an unknown
    transaction. They end with the loss of the connection."""
    return session.execute_each([f"COMMIT PREPARED {_literal(each)}" for each in transactions])


def rollback(session: Session, transaction: TransactionId) -> None:
    """Roll it back. Raises ServerError, 42704 if it is unknown."""
    session.execute(f"ROLLBACK PREPARED {_literal(transaction)}")


def listed(session: Session) -> Sequence[Listed]:
    """What is prepared in this database; of another one nothing could be ended from here."""
    rows = session.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")
    return [_listed(str(gid)) for (gid,) in rows]


def _listed(gid: str) -> Listed:
    transaction = TransactionId.parse(gid.removeprefix(_MARK)) if gid.startswith(_MARK) else None
    return Listed(transaction, str(transaction) if transaction else f"prepared transaction {gid!r}")


def _literal(transaction: TransactionId) -> str:
    """Letters, digits, `-`, `/` and `:` alone, so that nothing needs escaping; 88 of at most 199 bytes."""
    return f"'{_MARK}{transaction}'"


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
        return listed(self)

    def commit_prepared(self, transactions: Sequence[TransactionId]) -> Sequence[ServerError | None]:
        return commit(self, transactions)

    def roll_back_prepared(self, transaction: TransactionId) -> None:
        rollback(self, transaction)

    def missing_commits(self, committed: Collection[TransactionId]) -> Collection[TransactionId]:
        return ()

    def unlisted(self, incarnation: str, sink: str, checkpoint_id: int | None) -> Collection[TransactionId]:
        return ()

    def relist(self, transaction: TransactionId) -> None:
        """Do nothing: PostgreSQL forgets no prepared transaction."""

    def end(self, name: str) -> int:
        return zombie_connections.kill(self, name)


def postgres_committer(name: str, url: str, pipeline: str, connections: int = CONNECTIONS) -> TwoPhaseCommitter:
    """The driver's half of a sink. Connects when it is first asked. `url`: a secret. `connections`: for commits."""
    return TwoPhaseCommitter(name, pipeline, masked(url), partial(PostgresServer, url), connections)

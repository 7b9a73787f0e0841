"""MySQL and MariaDB as two-phase commit sees them.

MariaDB can hold a prepared branch, with its locks, and list it nowhere (H24). When the connection that prepared a
branch is closed, the server gives the branch to the next caller a moment before InnoDB does (`trans_xa_detach` in
sql/xa.cc, then `trx_disconnect_prepared` in trx0trx.cc). An XA COMMIT or XA ROLLBACK in between answers OK, strikes the
name from the list, and does nothing: seen once in some ten thousand commits on a machine under load. MySQL waits there.
After a restart the server lists the branch again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

from connectors.sql import tables
from connectors.sql.mysql import xa, zombie_connections
from connectors.sql.mysql.address import masked
from connectors.sql.mysql.engine import Session
from connectors.sql.mysql.errors import DUPLICATE_KEY, DUPLICATE_XID, ServerError
from connectors.sql.two_phase.committer import TwoPhaseCommitter
from connectors.sql.two_phase.committing import CONNECTIONS
from connectors.sql.two_phase.server import Listed
from twophase.ids import TransactionId

_LOCK_WAIT_S: Final = 1  # the driver waits between its calls, and longer each time


class MySqlServer(Session):
    """See Server. The driver's connection."""

    def __init__(self, url: str) -> None:
        """Connect. Raises ServerError. `url`: a secret."""
        super().__init__(url, lock_wait_s=_LOCK_WAIT_S)
        self._url = url

    def prepared(self) -> Sequence[Listed]:
        return [_listed(branch) for branch in xa.recover(self)]

    def commit_prepared(self, transactions: Sequence[TransactionId]) -> Sequence[ServerError | None]:
        return xa.commit(self, transactions)

    def roll_back_prepared(self, transaction: TransactionId) -> None:
        xa.rollback(self, transaction)

    def missing_commits(self, committed: Collection[TransactionId]) -> Collection[TransactionId]:
        if not self.dialect.is_mariadb:
            return ()
        return set(committed) - tables.visible_witnesses(self, committed)

    def unlisted(self, incarnation: str, sink: str, checkpoint_id: int | None) -> Collection[TransactionId]:
        return _find_forgotten(self, incarnation, sink, checkpoint_id) if self.dialect.is_mariadb else ()

    def relist(self, transaction: TransactionId) -> None:
        if self.dialect.is_mariadb:
            _remind(self, self._url, transaction)

    def end(self, name: str) -> int:
        return zombie_connections.kill(self, name)


def mysql_committer(name: str, url: str, pipeline: str, connections: int = CONNECTIONS) -> TwoPhaseCommitter:
    """The driver's half of a sink. Connects when it is first asked. `url`: a secret. `connections`: for commits."""
    return TwoPhaseCommitter(name, pipeline, masked(url), partial(MySqlServer, url), connections)


def _listed(branch: xa.Branch) -> Listed:
    transaction = branch.transaction
    return Listed(transaction, str(transaction) if transaction else f"XA {branch.literal}")


def _find_forgotten(session: Session, incarnation: str, sink: str, checkpoint_id: int | None) -> set[TransactionId]:
    """See Server.unlisted. Their witnesses are read uncommitted, first of all: what is committed since then is shown
    by the last read, what is prepared since then is listed. Raises ServerError."""
    session.execute("SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")  # of the next statement
    written = tables.witnesses(session, incarnation, sink, checkpoint_id)
    listed = {each.transaction for each in xa.recover(session)}
    return written - listed - tables.witnesses(session, incarnation, sink, checkpoint_id)


def _remind(session: Session, url: str, transaction: TransactionId) -> None:
    """Have the server list the branch again, without a restart. Nothing is changed if it holds none, or cannot be asked
    now. Raises ServerError.

    A second branch of the same name is prepared. It is one that writes, or else the server would take the name for one
    to be rolled back; and nothing of what it writes reaches InnoDB, so that the name leads to the first one alone.
    `session`: another connection, on which locks are waited for no longer than here.
    """
    with Session(url, lock_wait_s=_LOCK_WAIT_S) as second:
        second.execute("SET SESSION max_error_count = 64")  # the server may be set to keep no warning
        try:
            xa.start(second, transaction)
            stands = tables.is_witness_visible(session, transaction)  # now that nobody else can end it by its name
            second.execute("INSERT IGNORE INTO eos_claim SELECT * FROM eos_claim LIMIT 1")
        except ServerError as error:
            if error.number == DUPLICATE_XID or error.lock_wait:
                return  # it is listed, or somebody has the claim: whoever needs it asks again
            raise
        if stands is None and any(number == DUPLICATE_KEY for number, _ in second.warnings()):
            xa.prepare(second, transaction)
        else:
            xa.end_and_rollback(second, transaction)

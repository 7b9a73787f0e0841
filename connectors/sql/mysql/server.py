"""MySQL and MariaDB as two-phase commit sees them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

from connectors.sql import tables
from connectors.sql.mysql import forgotten, stragglers, xa
from connectors.sql.mysql.address import masked
from connectors.sql.mysql.engine import Session
from connectors.sql.two_phase.committer import TwoPhaseCommitter
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
        """See Server."""
        return [_listed(branch) for branch in xa.recover(self)]

    def commit_prepared(self, transaction: TransactionId) -> None:
        """See Server."""
        xa.commit(self, transaction)

    def roll_back_prepared(self, transaction: TransactionId) -> None:
        """See Server."""
        xa.rollback(self, transaction)

    def unseen(self, committed: Collection[TransactionId]) -> Collection[TransactionId]:
        """See Server."""
        if not self.dialect.is_mariadb:
            return ()
        return set(committed) - tables.visible_witnesses(self, committed)

    def forgotten(self, incarnation: str, sink: str, checkpoint_id: int | None) -> Collection[TransactionId]:
        """See Server."""
        return forgotten.found(self, incarnation, sink, checkpoint_id) if self.dialect.is_mariadb else ()

    def remind(self, transaction: TransactionId) -> None:
        """See Server."""
        if self.dialect.is_mariadb:
            forgotten.remind(self, self._url, transaction)

    def end(self, name: str) -> int:
        """See Server."""
        return stragglers.end(self, name)


def mysql_committer(name: str, url: str, pipeline: str) -> TwoPhaseCommitter:
    """The driver's half of a sink. Connects when it is first asked. `url`: a secret."""
    return TwoPhaseCommitter(name, pipeline, masked(url), partial(MySqlServer, url))


def _listed(branch: xa.Branch) -> Listed:
    transaction = branch.transaction
    return Listed(transaction, str(transaction) if transaction else f"XA {branch.literal}")

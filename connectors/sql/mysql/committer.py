"""The driver's half of a MySQL or MariaDB sink: twophase.participants.Committer, method by method."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from connectors.sql.address import masked
from connectors.sql.mysql import permits, tables, xa
from connectors.sql.mysql.engine import Session
from connectors.sql.mysql.errors import LOCK_WAIT_TIMEOUT, UNKNOWN_XID, WRONG_XA_STATE, ServerError, translated
from twophase import faults
from twophase.errors import IdentityError, SinkUnavailableError
from twophase.ids import Scope, TransactionId, sink_key
from twophase.participants import Prepared
from twophase.values import CommitOutcome, Committable, SinkState

EMPTY: Final = "empty"
"""Key in `Committable.data` of a writer that had no rows and prepared nothing."""

_ABORT_S: Final = 30.0
_LOCK_WAIT_S: Final = 1  # the driver waits between its calls, and longer each time
_IDLE_S: Final = 30.0  # a connection that was not used for longer may be gone without a sign


class MySqlCommitter:
    """One kept connection, in autocommit: an open transaction would make XA COMMIT fail (H4)."""

    def __init__(self, name: str, url: str, pipeline: str) -> None:
        self.name = name
        self._url = url
        self._pipeline = pipeline
        self._sink = sink_key(name)
        self._session: Session | None = None
        self._used_at = 0.0

    def __repr__(self) -> str:
        return f"MySqlCommitter({self.name!r}, {masked(self._url)})"

    def inspect(self, incarnation: str, expected: Sequence[Committable]) -> SinkState:
        """See Committer."""
        with self._connected("comparing with head") as session:
            tables.ensure(session)
            claim = permits.read_claim(session, self._pipeline, self.name)
            asked = [each.transaction for each in expected if EMPTY not in each.data]
            seen = tables.visible_witnesses(session, asked)
            return SinkState(
                claim_incarnation=claim[0] if claim else None,
                claim_epoch=claim[1] if claim else 0,
                highest_witness=tables.highest_witness(session, incarnation, self._sink),
                missing=tuple(each for each in asked if each not in seen),
            )

    def claim(self, incarnation: str, epoch: int, *, take_over: bool = False) -> None:
        """See Committer. Rolls back what is prepared under older permits, since that keeps them locked (permits)."""
        with self._connected(f"claiming it for epoch {epoch}") as session:
            if take_over:
                permits.check_nothing_undecided(session, self._pipeline, self.name, incarnation, epoch)
            permits.raise_claim(session, self._pipeline, self.name, incarnation, epoch, take_over=take_over)
            older = permits.older_permits(session, self._pipeline, self.name, incarnation, epoch)
            permits.evict(session, self.name, incarnation, older)

    def permit(self, scope: Scope) -> None:
        """See Committer."""
        with self._connected(f"permitting checkpoint {scope.checkpoint_id}") as session:
            permits.insert_permit(session, self._pipeline, self.name, scope)

    def commit(self, checkpoint_id: int, committables: Sequence[Committable]) -> Sequence[CommitOutcome]:
        """See Committer."""
        outcomes: list[CommitOutcome] = []
        with self._connected(f"committing checkpoint {checkpoint_id}"):
            for committable in committables:
                outcomes.append(self._commit(committable))
                if len(outcomes) == 1 and len(committables) > 1:
                    faults.point("between-commits", checkpoint_id)
        return outcomes

    def prepared(self, incarnation: str) -> Sequence[Prepared]:
        """See Committer. Foreign: whatever is not of this framework."""
        with self._connected("listing prepared transactions") as session:
            return [each for each in map(_prepared, xa.recover(session)) if self._concerns(each, incarnation)]

    def abort(self, prepared: Iterable[Prepared]) -> None:
        """See Committer."""
        transactions = [each.transaction for each in prepared if each.transaction is not None]
        with self._connected(f"rolling back {len(transactions)} transactions") as session:
            deadline = time.monotonic() + _ABORT_S
            for transaction in transactions:
                self._abort(session, transaction, deadline)

    def revoke(self, scope: Scope) -> None:
        """See Committer. Call it after the commits: what is still prepared under the permits is rolled back."""
        with self._connected(f"closing checkpoint {scope.checkpoint_id}") as session:
            tries = permits.earlier_tries(session, self.name, scope)
            permits.evict(session, self.name, scope.incarnation, tries)

    def prune(self, incarnation: str, below: int) -> None:
        """See Committer."""
        with self._connected(f"pruning witnesses below checkpoint {below}") as session:
            tables.prune_witnesses(session, incarnation, self._sink, below)

    def close(self) -> None:
        """See Committer. The next call connects again."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _commit(self, committable: Committable) -> CommitOutcome:
        if EMPTY in committable.data:
            return CommitOutcome.COMMITTED
        transaction = committable.transaction
        try:
            xa.commit(self._open(), transaction)
        except ServerError as error:
            if error.disconnected:
                self.close()  # it may or may not have landed: the same look-up on a new connection decides
            elif error.number not in (UNKNOWN_XID, WRONG_XA_STATE, LOCK_WAIT_TIMEOUT) and not error.rolled_back:
                raise
            return self._look_up(transaction)
        return CommitOutcome.COMMITTED

    def _look_up(self, transaction: TransactionId) -> CommitOutcome:
        """R7: unknown is neither success nor failure. Listed: not yet. Else the witness decides, by a locking read."""
        session = self._open()
        if _listed(session, transaction):
            return CommitOutcome.RETRY_LATER  # still attached to its closing connection, or never reached by COMMIT
        try:
            if tables.witness_stands(session, transaction):
                return CommitOutcome.ALREADY_COMMITTED
        except ServerError as error:
            if error.number == LOCK_WAIT_TIMEOUT:
                return CommitOutcome.RETRY_LATER  # another commit of it is under way
            raise
        return CommitOutcome.RETRY_LATER if _listed(session, transaction) else CommitOutcome.LOST

    def _abort(self, session: Session, transaction: TransactionId, deadline: float) -> None:
        """H19: a rollback that answers "unknown" may have done nothing; the listing and the witness say when it is."""
        while True:
            permits.roll_back(session, transaction)
            if not _listed(session, transaction) and not self._witnessed(session, transaction):
                return
            if time.monotonic() > deadline:
                message = f"sink {self.name}: {transaction} is still prepared {_ABORT_S:g} s after the first rollback"
                raise SinkUnavailableError(message, remedy="its connection may still be open: SHOW PROCESSLIST")
            time.sleep(0.05)

    def _witnessed(self, session: Session, transaction: TransactionId) -> bool:
        try:
            stands = tables.witness_stands(session, transaction)
        except ServerError as error:
            if error.number == LOCK_WAIT_TIMEOUT:
                return True  # still under way
            raise
        if stands:
            message = f"sink {self.name}: {transaction} is committed, so that it cannot be rolled back"
            raise IdentityError(
                message, remedy="somebody committed it by hand, or head was set back; restore head from a backup"
            )
        return False

    def _concerns(self, prepared: Prepared, incarnation: str) -> bool:
        found = prepared.transaction
        return found is None or (found.scope.incarnation == incarnation and found.sink == self._sink)

    @contextmanager
    def _connected(self, doing: str) -> Iterator[Session]:
        """The kept connection; after any error it is replaced, whatever state it was in."""
        done = False
        try:
            with translated(f"sink {self.name} at {masked(self._url)}, {doing}"):
                yield self._open()
                done = True
        finally:
            if not done:
                self.close()

    def _open(self) -> Session:
        if self._session is not None and time.monotonic() - self._used_at > _IDLE_S and not self._session.answers():
            self.close()
        if self._session is None:
            self._session = Session(self._url, lock_wait_s=_LOCK_WAIT_S)
        self._used_at = time.monotonic()
        return self._session


def _prepared(branch: xa.Branch) -> Prepared:
    transaction = branch.transaction
    return Prepared(transaction, str(transaction) if transaction else f"XA {branch.literal}")


def _listed(session: Session, transaction: TransactionId) -> bool:
    return any(branch.transaction == transaction for branch in xa.recover(session))

"""The driver's half of a two-phase sink: twophase.participants.Committer, method by method."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from connectors.sql.two_phase import permits, tables
from connectors.sql.two_phase.server import Listed, Server, StatementError, translated
from twophase import faults
from twophase.errors import IdentityError, SinkUnavailableError
from twophase.ids import Scope, TransactionId, sink_key
from twophase.participants import Prepared
from twophase.values import CommitOutcome, Committable, SinkState

EMPTY: Final = "empty"
"""Key in `Committable.data` of a writer that had no rows and prepared nothing."""

_ABORT_S: Final = 30.0
_IDLE_S: Final = 30.0  # a connection that was not used for longer may be gone without a sign


class TwoPhaseCommitter:
    """One kept connection, in autocommit: an open transaction would make the commit fail (H4)."""

    def __init__(self, name: str, pipeline: str, where: str, connect: Callable[[], Server]) -> None:
        """`where`: the server, for messages, without secrets; `connect`: a new connection each time."""
        self.name = name
        self._where = where
        self._connect = connect
        self._pipeline = pipeline
        self._sink = sink_key(name)
        self._server: Server | None = None
        self._used_at = 0.0

    def __repr__(self) -> str:
        return f"TwoPhaseCommitter({self.name!r}, {self._where})"

    def inspect(self, incarnation: str, expected: Sequence[Committable]) -> SinkState:
        """See Committer."""
        with self._connected("comparing with head") as server:
            tables.ensure(server)
            claim = permits.read_claim(server, self._pipeline, self.name)
            asked = [each.transaction for each in expected if EMPTY not in each.data]
            seen = tables.visible_witnesses(server, asked)
            return SinkState(
                claim_incarnation=claim[0] if claim else None,
                claim_epoch=claim[1] if claim else 0,
                highest_witness=tables.highest_witness(server, incarnation, self._sink),
                missing=tuple(each for each in asked if each not in seen),
            )

    def claim(self, incarnation: str, epoch: int, *, take_over: bool = False) -> None:
        """See Committer. Rolls back what is prepared under older permits, since that keeps them locked (permits)."""
        with self._connected(f"claiming it for epoch {epoch}") as server:
            if take_over:
                permits.check_nothing_undecided(server, self._pipeline, self.name, incarnation, epoch)
            permits.raise_claim(server, self._pipeline, self.name, incarnation, epoch, take_over=take_over)
            older = permits.older_permits(server, self._pipeline, self.name, incarnation, epoch)
            permits.evict(server, self.name, incarnation, older)

    def permit(self, scope: Scope) -> None:
        """See Committer."""
        with self._connected(f"permitting checkpoint {scope.checkpoint_id}") as server:
            permits.insert_permit(server, self._pipeline, self.name, scope)

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
        with self._connected("listing prepared transactions") as server:
            return [each for each in map(_prepared, server.prepared()) if self._concerns(each, incarnation)]

    def abort(self, prepared: Iterable[Prepared]) -> None:
        """See Committer."""
        transactions = [each.transaction for each in prepared if each.transaction is not None]
        with self._connected(f"rolling back {len(transactions)} transactions") as server:
            deadline = time.monotonic() + _ABORT_S
            for transaction in transactions:
                self._abort(server, transaction, deadline)

    def revoke(self, scope: Scope) -> None:
        """See Committer. Call it after the commits: what is still prepared under the permits is rolled back."""
        with self._connected(f"closing checkpoint {scope.checkpoint_id}") as server:
            tries = permits.earlier_tries(server, self.name, scope)
            permits.evict(server, self.name, scope.incarnation, tries)

    def prune(self, incarnation: str, below: int) -> None:
        """See Committer."""
        with self._connected(f"pruning witnesses below checkpoint {below}") as server:
            tables.prune_witnesses(server, incarnation, self._sink, below)

    def close(self) -> None:
        """See Committer. The next call connects again."""
        server, self._server = self._server, None
        if server is not None:
            server.close()

    def _commit(self, committable: Committable) -> CommitOutcome:
        if EMPTY in committable.data:
            return CommitOutcome.COMMITTED
        transaction = committable.transaction
        try:
            self._open().commit_prepared(transaction)
        except StatementError as error:
            if error.disconnected:
                self.close()  # it may or may not have landed: the same look-up on a new connection decides
            elif not (error.in_doubt or error.lock_wait or error.rolled_back):
                raise
            return self._look_up(transaction)
        return CommitOutcome.COMMITTED

    def _look_up(self, transaction: TransactionId) -> CommitOutcome:
        """R7: unknown is neither success nor failure. Listed: not yet. Else the witness decides, by a locking read."""
        server = self._open()
        if _listed(server, transaction):
            return CommitOutcome.RETRY_LATER  # still attached to its closing connection, or never reached by COMMIT
        try:
            if tables.witness_stands(server, transaction):
                return CommitOutcome.ALREADY_COMMITTED
        except StatementError as error:
            if error.lock_wait:
                return CommitOutcome.RETRY_LATER  # another commit of it is under way
            raise
        return CommitOutcome.RETRY_LATER if _listed(server, transaction) else CommitOutcome.LOST

    def _abort(self, server: Server, transaction: TransactionId, deadline: float) -> None:
        """H19: a rollback that answers "unknown" may have done nothing; the listing and the witness say when it is."""
        while True:
            permits.roll_back(server, transaction)
            if not _listed(server, transaction) and not self._witnessed(server, transaction):
                return
            if time.monotonic() > deadline:
                message = f"sink {self.name}: {transaction} is still prepared {_ABORT_S:g} s after the first rollback"
                raise SinkUnavailableError(message, remedy="its connection may still be open: SHOW PROCESSLIST")
            time.sleep(0.05)

    def _witnessed(self, server: Server, transaction: TransactionId) -> bool:
        try:
            stands = tables.witness_stands(server, transaction)
        except StatementError as error:
            if error.lock_wait:
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
    def _connected(self, doing: str) -> Iterator[Server]:
        """The kept connection; after any error it is replaced, whatever state it was in."""
        done = False
        try:
            with translated(f"sink {self.name} at {self._where}, {doing}"):
                yield self._open()
                done = True
        finally:
            if not done:
                self.close()

    def _open(self) -> Server:
        if self._server is not None and time.monotonic() - self._used_at > _IDLE_S and not self._server.answers():
            self.close()
        if self._server is None:
            self._server = self._connect()
        self._used_at = time.monotonic()
        return self._server


def _prepared(listed: Listed) -> Prepared:
    return Prepared(listed.transaction, listed.description)


def _listed(server: Server, transaction: TransactionId) -> bool:
    return any(each.transaction == transaction for each in server.prepared())

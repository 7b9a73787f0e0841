"""The driver's half of a two-phase sink: twophase.participants.Committer, method by method."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from connectors.log.segments import is_of_log
from connectors.owner import Owner
from connectors.sql import claims, tables
from connectors.sql.reconnecting import ReconnectingConnection
from connectors.sql.slots import begin_slots, check_count, hold_slot, move_slot, raise_slots, read_count
from connectors.sql.statements import Connected, in_transaction
from connectors.sql.two_phase import permits, undoing
from connectors.sql.two_phase.committing import CONNECTIONS, Answers, ParallelCommits, check_known, stops
from connectors.sql.two_phase.server import Listed, Server, listed
from eos.errors import IdentityError, SetBackError, SinkUnavailableError
from twophase import faults
from twophase.ids import Scope, TransactionId, sink_key
from twophase.participants import Prepared
from twophase.values import CommitOutcome, Committable, SinkState

_SLOT: Final = 0  # the only one


def _begin_count(server: Connected, pipeline: str, sink: str, owner: Owner, begins: int, known: int) -> None:
    """Have the sink count in slot 0 alone, from `begins` on where it has no count; then compare as `check_count` does.

    A server that is replaced by an older copy of itself (a replica that lagged, a backup) counts less. No other answer
    tells the two apart. The comparison runs on the connection that is used afterwards, because a server does not go
    back under an open connection (H26).

    A sink that had a log before has a slot for each of its connections. Raises FencedError, SetBackError,
    StatementError.
    """
    key = sink_key(sink)
    with in_transaction(server):
        claims.hold_claim(server, pipeline, sink, owner)
        found = begin_slots(server, owner.incarnation, key, 1, begins)
        if found.keys() != {_SLOT}:
            server.execute("DELETE FROM eos_slot WHERE incarnation = %s AND sink = %s", owner.incarnation, key)
            begin_slots(server, owner.incarnation, key, 1, min(found.values()))
    check_count(server, owner.incarnation, sink, known)


def _count(
    server: Connected, incarnation: str, sink: str, checkpoint_id: int, committed: Sequence[Committable], known: int
) -> None:
    """Move the count to this checkpoint, all of whose `committed` transactions the sink shows. Idempotent.

    `known`: what the sink has counted for certain. Raises SetBackError where one is not shown, or the sink counts less
    than that; StatementError.
    """
    key = sink_key(sink)
    with in_transaction(server):
        found = hold_slot(server, incarnation, key, _SLOT)
        if found is None:  # an earlier version claimed the sink last: the next claim begins to count
            return
        shown = tables.shown(server, committed)
        if found < known or any(each.transaction not in shown for each in committed):
            raise SetBackError.of(sink, min(found, checkpoint_id - 1), checkpoint_id)
        if found < checkpoint_id:
            move_slot(server, incarnation, key, _SLOT, checkpoint_id)


class TwoPhaseCommitter:
    """One kept connection, in autocommit: an open transaction would make the commit fail (H4). Commits use more."""

    permits_once: Final = False
    slots: Final[frozenset[int]] = frozenset()

    def __init__(
        self, name: str, pipeline: str, where: str, connect: Callable[[], Server], connections: int = CONNECTIONS
    ) -> None:
        """`where`: the server, for messages, without secrets; `connect`: a new connection each time.

        `connections`: for commits at once.
        """
        self.name = name
        self._where = where
        self._kept = ReconnectingConnection(f"sink {name} at {where}", connect)
        self._commits = ParallelCommits(f"sink {name} at {where}", connect, connections)
        self._pipeline = pipeline
        self._sink = sink_key(name)

    def __repr__(self) -> str:
        return f"TwoPhaseCommitter({self.name!r}, {self._where})"

    def inspect(self, incarnation: str, expected: Sequence[Committable]) -> SinkState:
        with self._kept.use("comparing with head") as server:
            tables.ensure(server, permits.TABLES, self._where)
            claim = claims.read_claim(server, self._pipeline, self.name)
            asked = [each.transaction for each in _with_rows(expected)]
            seen = tables.visible_witnesses(server, asked)
            return SinkState(
                claim_incarnation=claim.incarnation if claim else None,
                claim_epoch=claim.epoch if claim else 0,
                highest_witness=tables.highest_witness(server, incarnation, self._sink),
                missing=tuple(each for each in asked if each not in seen),
                counted=read_count(server, incarnation, self.name),
            )

    def claim(
        self, incarnation: str, epoch: int, *, take_over: bool = False, begins: int = -1, counted: int = -1
    ) -> None:
        """See Committer. Rolls back what is prepared under older permits, since that keeps them locked (permits)."""
        with self._kept.use(f"claiming it for epoch {epoch}") as server:
            if take_over:
                permits.check_nothing_undecided(server, self._pipeline, self.name, incarnation, epoch)
            owner = Owner(incarnation, epoch)
            claims.raise_claim(server, self._pipeline, self.name, owner, take_over=take_over, counted=counted)
            _begin_count(server, self._pipeline, self.name, owner, begins, counted)
            older = permits.older_permits(server, self._pipeline, self.name, incarnation, epoch)
            permits.revoke_permits(server, self.name, incarnation, older)

    def permit(self, scope: Scope, *, counted: int = -1) -> None:
        with self._kept.use(f"permitting checkpoint {scope.checkpoint_id}") as server:
            permits.insert_permit(server, self._pipeline, self.name, scope, counted)

    def permit_log(self, scope: Scope) -> None:
        """See Committer. A permit is a row of the database: nothing can be prepared without it."""
        message = f"sink {self.name} cannot prepare {scope} while the database is away"
        raise SinkUnavailableError(message, remedy="only a sink with a log can wait")

    def commit(
        self, checkpoint_id: int, committables: Sequence[Committable], *, own: bool = False, known: int | None = None
    ) -> Sequence[CommitOutcome]:
        with self._kept.use(f"committing checkpoint {checkpoint_id}"):
            asked = self._transactions(committables)
            answers = self._commit(checkpoint_id, asked)
            for each in asked:
                check_known(answers.get(each))
            said = {each for each, answer in answers.items() if answer is None}
            unknown = [each for each in asked if each not in said]
            found = self._look_up([*unknown, *self._kept.open().missing_commits(said)])
        return [found.get(each.transaction, CommitOutcome.COMMITTED) for each in committables]

    def count(
        self, incarnation: str, checkpoint_id: int, committables: Sequence[Committable], *, known: int | None = None
    ) -> None:
        with self._kept.use(f"counting checkpoint {checkpoint_id}") as server:
            before = checkpoint_id - 1 if known is None else known
            _count(server, incarnation, self.name, checkpoint_id, _with_rows(committables), before)

    def missing_committables(self, checkpoint_id: int, committables: Sequence[Committable]) -> Sequence[Committable]:
        with self._kept.use(f"asking what is lost of checkpoint {checkpoint_id}"):
            found = self._look_up(self._transactions(committables))
            return [each for each in committables if found.get(each.transaction) is CommitOutcome.LOST]

    def permit_rewrite(self, scope: Scope) -> None:
        """See Committer. A permit as any other: who writes again holds it."""
        with self._kept.use(f"permitting checkpoint {scope.checkpoint_id} once more") as server:
            permits.insert_permit(server, self._pipeline, self.name, scope, -1, again=True)

    def prepared(self, incarnation: str, checkpoint_id: int | None = None) -> Sequence[Prepared]:
        """See Committer. Foreign: whatever is not of this framework."""
        with self._kept.use("listing prepared transactions") as server:
            forgotten = server.unlisted(incarnation, self._sink, checkpoint_id)
            ours = [each for each in map(_prepared, server.prepared()) if self._concerns(each, incarnation)]
            known = {each.transaction for each in ours}
            return [*ours, *(Prepared(each, f"{each} (not listed)") for each in forgotten if each not in known)]

    def abort(self, prepared: Iterable[Prepared]) -> None:
        transactions = [each.transaction for each in prepared if each.transaction is not None]
        with self._kept.use(f"rolling back {len(transactions)} transactions") as server:
            undoing.roll_back(server, self.name, transactions)

    def revoke(self, scope: Scope, *, counted: bool = False) -> None:
        """See Committer. Call it after the commits: what is still prepared under the permits is rolled back."""
        with self._kept.use(f"closing checkpoint {scope.checkpoint_id}") as server:
            if counted:
                check_count(server, scope.incarnation, self.name, scope.checkpoint_id)
            tries = permits.earlier_attempts(server, self.name, scope)
            permits.revoke_permits(server, self.name, scope.incarnation, tries)

    def fast_forward(self, incarnation: str, epoch: int, checkpoint_id: int, *, counted: int = -1) -> None:
        with self._kept.use(f"going on from checkpoint {checkpoint_id}") as server, in_transaction(server):
            claims.hold_claim(server, self._pipeline, self.name, Owner(incarnation, epoch))
            check_count(server, incarnation, self.name, counted)
            raise_slots(server, incarnation, self._sink, checkpoint_id)

    def prune(self, incarnation: str, below: int) -> None:
        with self._kept.use(f"pruning witnesses below checkpoint {below}") as server:
            tables.prune_witnesses(server, incarnation, self._sink, below)

    def close(self) -> None:
        """See Committer. The next call connects again."""
        self._kept.close()
        self._commits.close()

    def _commit(self, checkpoint_id: int, asked: Sequence[TransactionId]) -> Answers:
        """Commit the first one before the others: if the server does not answer it, no other commit waits."""
        answers = self._commits.commit(self._kept, asked[:1])
        if len(asked) < 2 or stops(answers[asked[0]]):
            return answers
        faults.point("between-commits", checkpoint_id, self._sink)
        return {**answers, **self._commits.commit(self._kept, asked[1:])}

    def _transactions(self, committables: Sequence[Committable]) -> list[TransactionId]:
        """Return the transactions that have rows. Raises IdentityError for rows in a log."""
        asked = _with_rows(committables)
        for each in asked:
            self._check_variant(each)
        return [each.transaction for each in asked]

    def _check_variant(self, committable: Committable) -> None:
        if is_of_log(committable):
            message = f"sink {self.name}: {committable.transaction} waits in the write-ahead log, and is decided"
            raise IdentityError(
                message, remedy="set the sink's `commit` back to write-ahead-log, and run until caught up"
            )

    def _look_up(self, transactions: Sequence[TransactionId]) -> dict[TransactionId, CommitOutcome]:
        """R7: unknown is neither success nor failure. Listed: not yet. Else the witness decides, by a locking read.

        A server lists all that it has prepared, however little is asked about: so all are looked up together.
        """
        if not transactions:
            return {}
        server = self._kept.open()
        still = listed(server)
        found = {
            each: CommitOutcome.RETRY_LATER  # still attached to its closing connection, or never reached by COMMIT
            if each in still
            else self._by_witness(server, each)
            for each in transactions
        }
        if CommitOutcome.LOST in found.values():
            still = listed(server)
            found |= {each: CommitOutcome.RETRY_LATER for each in found if each in still}
        return found

    def _by_witness(self, server: Server, transaction: TransactionId) -> CommitOutcome:
        stands = tables.is_witness_visible(server, transaction)
        if stands is None:
            if _is_written_again(server, transaction):
                return CommitOutcome.LOST
            server.relist(transaction)
            return CommitOutcome.RETRY_LATER  # another commit of it is under way
        return CommitOutcome.ALREADY_COMMITTED if stands else CommitOutcome.LOST

    def _concerns(self, prepared: Prepared, incarnation: str) -> bool:
        found = prepared.transaction
        return found is None or (found.scope.incarnation == incarnation and found.sink == self._sink)


def _with_rows(committables: Sequence[Committable]) -> list[Committable]:
    """Those that stand for a transaction."""
    return [each for each in committables if tables.EMPTY not in each.data]


def _is_written_again(server: Server, lost: TransactionId) -> bool:
    """Whether a repair, which died before it decided that, has prepared the rows anew.

    It then holds the witness of the lost one, and could have that only because it is lost.
    """
    scope = lost.scope
    held = {*listed(server), *server.unlisted(scope.incarnation, lost.sink, scope.checkpoint_id)}
    return any(_is_instead_of(each, lost) for each in held)


def _is_instead_of(found: TransactionId, lost: TransactionId) -> bool:
    mine, then = found.scope, lost.scope
    same = (mine.incarnation, mine.checkpoint_id, found.sink, found.task)
    return same == (then.incarnation, then.checkpoint_id, lost.sink, lost.task) and mine.epoch > then.epoch


def _prepared(listed: Listed) -> Prepared:
    return Prepared(listed.transaction, listed.description)

"""The driver-side contract of a sink. `connectors` and `tests/simulation` implement it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from twophase.ids import Scope, TransactionId
from twophase.values import CommitOutcome, Committable, SinkState


@dataclass(frozen=True, slots=True)
class Prepared:
    """One transaction that a sink lists as prepared.

    Created by: `Committer.prepared`. Read by: recovery, the close of a checkpoint and `eos transactions`, which pass it
    to `Committer.abort` if its checkpoint is not decided (R3, R8). `transaction` is None for a foreign transaction: it
    is reported and never touched.
    """

    transaction: TransactionId | None
    description: str  # as an administrator sees the transaction; for messages
    committable: Committable | None = None  # if the sink knows more than the id, for example a segment's name


class Committer(Protocol):
    """The driver-side half of a sink: it makes prepared rows visible, or rolls them back.

    Implemented by: a connector. Called by: the driver, one committer for each sink and epoch, from one thread at a
    time.

    Call order: at a start `inspect`, `commit` and `count` of what is decided, then `claim`, `prepared` and `abort` of
    the rest. For each checkpoint `permit`, then (tasks write) `commit` and `count` once it is decided, or `prepared`
    and `abort` if it failed; then `revoke`, and `prune` from time to time. `close` is last.

    Blocking: every call may block on the service, except the properties and `permit_log`.

    Raises: SinkUnavailableError for a transient error (connection lost, lock wait timeout, deadlock). The driver
    retries the whole call by that class, so each call is idempotent. FencedError if the claim row has a higher epoch;
    SetBackError if the sink has counted fewer checkpoints than it had.

    Rule: `commit` is called only for a decided checkpoint, and until each committable has an outcome (R7). `abort` is
    called only for a checkpoint that can never be decided (R8).
    """

    name: str

    @property
    def permits_once(self) -> bool:
        """Whether only the first permit of an epoch has an effect. All earlier checkpoints are committed before it.

        True for a sink that may have a backlog: `permit` is not called while it commits an earlier checkpoint.
        """

    @property
    def slots(self) -> frozenset[int]:
        """The numbers of slots that a checkpoint may have from now on (H32). Empty: rows do not wait in a log.

        After `claim`: the number of slots in the sink, and the number that the first permit sets. Before: the latter.
        """

    def inspect(self, incarnation: str, expected: Sequence[Committable]) -> SinkState:
        """Return the claim row, highest witness and count of `incarnation`, and which of `expected` have no witness.

        Called at each start, before any change. Creates the protocol's own tables if they are missing and changes
        nothing else. Raises TargetError with their DDL if they may not be created.
        """

    def claim(
        self, incarnation: str, epoch: int, *, take_over: bool = False, begins: int = -1, counted: int = -1
    ) -> None:
        """Raise the claim row to (incarnation, epoch), then delete permits of everything older (R3).

        `begins`: the first count of a sink that has none. `counted`: the number of the last checkpoint that the sink
        is known to have counted. It is compared before any rollback, because a sink that was restored to an earlier
        state may hold decided transactions as prepared (H27).

        Returns only when no older epoch can prepare: it waits for zombie writers.

        Raises FencedError if the row holds a higher epoch; IdentityError if it holds another incarnation and
        `take_over` is not set (`eos reset` sets it); SetBackError if the sink has counted less than `counted`.
        """

    def permit(self, scope: Scope, *, counted: int = -1) -> None:
        """Insert the permit of `scope` (R5).

        Raises FencedError if the claim row is not this (incarnation, epoch). Raises SetBackError if the sink has
        counted less than `counted` (H26), or already has rows of this checkpoint (H33).
        """

    def permit_log(self, scope: Scope) -> None:
        """Prepare the log for writers of `scope`, without a query to the sink. Called only if it has `slots` (H32).

        The only method that another thread may call while a call to the sink is in progress.
        """

    def commit(
        self, checkpoint_id: int, committables: Sequence[Committable], *, own: bool = False, known: int | None = None
    ) -> Sequence[CommitOutcome]:
        """Make the committables of a completed checkpoint visible, in checkpoint order (R7). Return one outcome each.

        Called once more after a failure, also from another process. Called without committables too: a sink that
        counts checkpoints (a slot of a write-ahead log) applies every checkpoint.

        `own`: this driver has decided the checkpoint since its start, and no later one. Raises SetBackError if the sink
        has applied a later checkpoint: the driver was restored to an earlier state with its memory (H33).

        `known`: see `count`. A slot of a log moves from there, or from a later checkpoint, to this one (H34).
        """

    def count(
        self, incarnation: str, checkpoint_id: int, committables: Sequence[Committable], *, known: int | None = None
    ) -> None:
        """Count a checkpoint as committed: move the sink's count from the checkpoint before to this one (H26).

        `known`: the last checkpoint that the sink has counted, if at-least-once checkpoints lie between, which no sink
        counts. The count then moves from there, or from one of them. None: the checkpoint before.

        Called in checkpoint order when all `committables` of the checkpoint are committed, and once more after a
        failure. A log counts in the transaction of the rows, so here it does nothing.

        Raises SetBackError if the count has another value, or if the rows of a committable are not visible.
        """

    def missing_committables(self, checkpoint_id: int, committables: Sequence[Committable]) -> Sequence[Committable]:
        """Return the committables of a completed checkpoint that can never become visible (R7). Changes nothing.

        `committables`: all of this sink for the checkpoint. Called by `eos repair`, before the checkpoint is
        committed, and once more with the rewritten committables.

        Raises IdentityError for a lost committable that cannot be rewritten.
        """

    def permit_rewrite(self, scope: Scope) -> None:
        """Insert a permit to rewrite the lost rows of a decided checkpoint. `revoke` deletes it.

        Raises FencedError if the claim row is not the (incarnation, epoch) of `scope`.
        """

    def prepared(self, incarnation: str, checkpoint_id: int | None = None) -> Sequence[Prepared]:
        """List the prepared transactions of this incarnation, and foreign ones. Other pipelines' are left out.

        `checkpoint_id`: only the transactions of this checkpoint are needed. Each close sets it, when hundreds of later
        transactions may be prepared.
        """

    def abort(self, prepared: Iterable[Prepared]) -> None:
        """Roll back. Returns only when no transaction is listed any more and none has a witness (H19). Idempotent."""

    def revoke(self, scope: Scope, *, counted: bool = False) -> None:
        """Delete the permits of `scope` and of its earlier attempts. Waits for zombie writers that hold one (R9).

        `counted`: the sink has counted the checkpoint. Raises SetBackError, before any rollback, if it has not (H27).
        """

    def fast_forward(self, incarnation: str, epoch: int, checkpoint_id: int, *, counted: int = -1) -> None:
        """Count every checkpoint up to this one as committed, if the sink counts checkpoints. Idempotent.

        Called at a start, after `claim`, if earlier checkpoints were at-least-once or were written without this sink.
        `counted`: the last checkpoint that the sink is known to have counted.

        Raises FencedError if the claim row is not this (incarnation, epoch). Raises SetBackError if the sink has
        counted less than `counted`: a higher count would hide from later starts that the sink was restored to an
        earlier state (H34).
        """

    def prune(self, incarnation: str, below: int) -> None:
        """Delete the witnesses and segments of checkpoints below `below`, which head has as committed (R9)."""

    def close(self) -> None:
        """Close the connections. Prepared transactions stay prepared."""

"""What the coordinator asks of a sink on the driver's side. `connectors` implements it, `tests/simulation` too."""

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
    description: str  # as an administrator would see it, for messages
    committable: Committable | None = None  # where the sink knows more than the id (a segment's name)


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
        """True: only the first permit of an epoch matters, before which everything is committed.

        A sink that may be behind says so: it is then not asked for a permit while it commits an earlier checkpoint.
        """

    @property
    def slots(self) -> frozenset[int]:
        """Into how many slots the sink may divide a checkpoint from here on (H32). Empty: rows do not wait in a log.

        Once it is claimed: the number that the sink has, and the number that the first permit sets. Before: the latter.
        """

    def inspect(self, incarnation: str, expected: Sequence[Committable]) -> SinkState:
        """Read claim row, highest witness and count of `incarnation`, and which of `expected` lack a visible witness.

        Called at every start, before anything is changed. Creates the protocol's own tables if they are missing and
        may be created; raises TargetError with their DDL if not. Changes nothing else.
        """

    def claim(
        self, incarnation: str, epoch: int, *, take_over: bool = False, begins: int = -1, counted: int = -1
    ) -> None:
        """Raise the claim row to (incarnation, epoch), then delete permits of everything older (R3).

        `begins`: the count of a sink that has none yet. `counted`: what the sink is known to have counted. The sink is
        compared with it before anything is rolled back, since a sink that went back in time may hold prepared what is
        decided (H27): SetBackError.

        Returns only when nobody older can prepare any more (it waits for zombie writers). Raises FencedError if the row
        holds a
        higher epoch, IdentityError if it holds another incarnation, unless `take_over` says that this is meant (eos
        reset).
        """

    def permit(self, scope: Scope, *, counted: int = -1) -> None:
        """Insert the permit of `scope`, while the claim row is this (incarnation, epoch); else FencedError (R5).

        `counted`: what the sink is known to have counted. Raises SetBackError where it counts less (H26), and where it
        already has anything of this checkpoint (H33).
        """

    def permit_log(self, scope: Scope) -> None:
        """Prepare the log for writers of `scope`, and ask the sink nothing. Called only where it has `slots` (H32).

        The one call that another thread may make while a call of the sink is under way.
        """

    def commit(
        self, checkpoint_id: int, committables: Sequence[Committable], *, own: bool = False, known: int | None = None
    ) -> Sequence[CommitOutcome]:
        """Make the committables of a completed checkpoint visible, in checkpoint order (R7). One outcome each.

        Called again after a failure, from another process too. Called with no committables as well: a sink that
        counts checkpoints (a write-ahead log's slot) applies every one.

        `own`: this driver has decided the checkpoint after its start, and nothing after it. Raises SetBackError where a
        sink that finds it applied is past it: the driver was set back with its memory (H33).

        `known`: see `count`. A slot of a log moves from there, or from any checkpoint behind it, to this one (H34).
        """

    def count(
        self, incarnation: str, checkpoint_id: int, committables: Sequence[Committable], *, known: int | None = None
    ) -> None:
        """Count a checkpoint as committed: the sink's count moves from the checkpoint before to this one (H26).

        `known`: what the sink has counted for certain, where at-least-once checkpoints, which no sink counts, came
        between; the count then moves from there, or from any of them, to this one. None: the checkpoint before.

        Called once all of `committables`, which are all of the sink's, are committed, in checkpoint order; again after
        a failure. A log has counted in the transaction of the rows, and does nothing. Raises SetBackError where the
        count is elsewhere, or the sink does not show one of them.
        """

    def missing_committables(self, checkpoint_id: int, committables: Sequence[Committable]) -> Sequence[Committable]:
        """Of what a completed checkpoint was decided with, all of it given: what can never become visible (R7).

        Called by `eos repair`, with the checkpoint's later half not committed, and once more with what was written
        again. Changes nothing. Raises IdentityError for what is lost and cannot be written again.
        """

    def permit_rewrite(self, scope: Scope) -> None:
        """Let tasks write what a decided checkpoint has lost, in this scope, while the claim row is of its incarnation
        and epoch; else FencedError. `revoke` ends it."""

    def prepared(self, incarnation: str, checkpoint_id: int | None = None) -> Sequence[Prepared]:
        """List what is prepared: all of this incarnation, and foreign ones as such. Other pipelines' are left out.

        `checkpoint_id`: only this one's need be in it. Asked so at each close, when others may be waiting by the
        hundred.
        """

    def abort(self, prepared: Iterable[Prepared]) -> None:
        """Roll back. Returns only when none of them is listed any more and none has a witness (H19). Idempotent."""

    def revoke(self, scope: Scope, *, counted: bool = False) -> None:
        """Delete the permits of `scope` and of earlier tries of it; waits for zombie writers that hold one (R9).

        `counted`: the sink has counted the checkpoint. It is asked before anything is rolled back: SetBackError (H27).
        """

    def fast_forward(self, incarnation: str, epoch: int, checkpoint_id: int, *, counted: int = -1) -> None:
        """Count every checkpoint up to this one as committed, where the sink counts them; else there is nothing to do.

        Called at a start that follows checkpoints whose tasks committed by themselves, or that were written without
        this sink, once it is claimed. `counted`: what the sink is known to have counted.

        Raises FencedError if it is not this (incarnation, epoch)'s any more. Raises SetBackError where it counts less
        than is known: a higher count would hide from every later start that the sink went back in time (H34).
        Idempotent.
        """

    def prune(self, incarnation: str, below: int) -> None:
        """Drop witnesses (and segments) of checkpoints below `below`; never above what head calls committed (R9)."""

    def close(self) -> None:
        """Let go of connections. Rolls nothing back that is prepared."""

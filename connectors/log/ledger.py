"""The ledger of a log's target: the owner of the sink, and the newest applied checkpoint of each slot."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from connectors.log.segments import is_sealed, segment_of
from connectors.owner import Owner
from eos.errors import IdentityError, SetBackError
from twophase.ids import Scope, TransactionId
from twophase.values import CommitOutcome, Committable
from wal.storage import Storage


@dataclass(frozen=True, slots=True)
class Share:
    """The share of one slot in one checkpoint, and the driver that applies it."""

    incarnation: str
    epoch: int | None  # None: a start applies it, before it claims (R3)
    checkpoint_id: int
    slot: int
    committables: Sequence[Committable]
    own: bool = False  # see Committer.commit
    known: int | None = None  # see Committer.commit

    def is_next(self, applied: int | None) -> bool:
        """Return whether a slot whose newest checkpoint is `applied` applies this checkpoint next."""
        least = self.checkpoint_id - 1 if self.known is None else self.known
        return applied is not None and least <= applied < self.checkpoint_id

    def check_not_past(self, sink: str, applied: int) -> None:
        """Raise SetBackError if the slot is past a checkpoint that this driver has decided since its start (H33)."""
        if self.own and applied > self.checkpoint_id:
            raise SetBackError.of_driver(sink, applied)


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries of one incarnation."""

    owner: Owner | None  # of any incarnation
    slots: Mapping[int, int]  # the newest applied checkpoint by slot
    seen: Collection[TransactionId]  # the applied transactions among the requested ones
    begun: Mapping[int, int] = field(
        default_factory=dict
    )  # rows of the next checkpoint that a slot has applied already

    @property
    def applied(self) -> int:
        """The newest checkpoint that every slot has applied; -1: none."""
        return min(self.slots.values(), default=-1)


class Ledger(Protocol):
    """The ledger of one sink of one pipeline. Called from one thread at a time, except `apply`: one thread per slot.

    Every call may block. Raises SinkUnavailableError for an error that a retry may cure, TargetError for others.
    """

    slots: int
    """The number of slots of a new checkpoint."""

    def prepare(self) -> None:
        """Create the ledger's tables if they are missing. Raises TargetError with the remedy for an administrator."""

    def entries(self, incarnation: str, asked: Iterable[Committable]) -> Entries:
        """Return the entries of an incarnation. `asked`: committables to look up. Changes nothing."""

    def claim(self, owner: Owner, *, take_over: bool, begins: int, counted: int) -> None:
        """Claim the sink for this driver. When it returns, no older driver can apply rows.

        `begins`: the first checkpoint of slots that the incarnation does not have yet. `counted`: the last checkpoint
        that is known to be applied. `take_over`: claim the sink also from another incarnation.

        Raises FencedError, IdentityError; SetBackError if the sink was restored to a state before its claim (H26).
        """

    def share_out(self, scope: Scope) -> None:
        """Set the number of slots to `slots`, from the checkpoint of this scope on. All earlier ones are applied.

        Raises FencedError if this driver does not own the sink, IdentityError for a slot at another checkpoint.
        """

    def apply(self, share: Share, storage: Storage) -> Sequence[CommitOutcome]:
        """Apply one checkpoint to a slot, with its rows, unless it is applied. Return one outcome for each committable.

        Raises FencedError, IdentityError if the slot is not at the checkpoint before, SetBackError (see
        `Share.check_not_past`), BadRowError for a row that the target refuses, WalError for a damaged segment. An error
        leaves no rows behind.
        """

    def give_up(
        self, incarnation: str, transactions: Sequence[TransactionId], delete: Callable[[Sequence[TransactionId]], None]
    ) -> TransactionId | None:
        """Delete transactions, while no driver can apply them. If one is applied, return it and delete none."""

    def fast_forward(self, owner: Owner, checkpoint_id: int, counted: int) -> None:
        """Move every slot to this checkpoint at least.

        The skipped checkpoints were written without the log (at-least-once), or without the sink. Raises FencedError if
        this driver does not own the sink, SetBackError if a slot is before `counted`, which is known to be applied.
        """

    def prune(self, incarnation: str, below: int) -> None:
        """Delete the entries of single checkpoints below `below`. The newest checkpoint of each slot stays."""

    def close(self) -> None:
        """Close the connections. The next call reconnects."""


def missing_segments(storage: Storage, share: Share) -> list[str]:
    """Return the missing segments of a share, for messages. Raises WalError for a damaged segment.

    Called while no other driver can apply the slot. Only then "not applied" and "missing" together mean that the rows
    are lost (R7).
    """
    refs = [segment_of(each) for each in share.committables]
    return [f"{storage.describe()}/{ref.name}" for ref in refs if ref is not None and not is_sealed(storage, ref)]


def gap(sink: str, share: Share, applied: int | None) -> IdentityError:
    """Return the error for a slot that is not at the checkpoint before (see `Share.is_next`)."""
    stands = "knows of no checkpoint" if applied is None else f"stands at checkpoint {applied}"
    message = f"sink {sink}, slot {share.slot}, {stands} and is asked to apply checkpoint {share.checkpoint_id}"
    return IdentityError(message, remedy="restore the sink and the checkpoint location to the same moment")

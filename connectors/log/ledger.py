"""What the target of a log keeps beside the rows: who owns the sink, and how far each slot of it is."""

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
    """What one slot applies of one checkpoint, and by whom."""

    incarnation: str
    epoch: int | None  # None: of a start, which commits before it claims (R3)
    checkpoint_id: int
    slot: int
    committables: Sequence[Committable]
    own: bool = False  # see Committer.commit
    known: int | None = None  # see Committer.commit

    def is_next(self, applied: int | None) -> bool:
        """Whether a slot that stands there applies this checkpoint next."""
        least = self.checkpoint_id - 1 if self.known is None else self.known
        return applied is not None and least <= applied < self.checkpoint_id

    def check_not_past(self, sink: str, applied: int) -> None:
        """Raise SetBackError where the slot is past a checkpoint that this driver has only just decided (H33)."""
        if self.own and applied > self.checkpoint_id:
            raise SetBackError.of_driver(sink, applied)


@dataclass(frozen=True, slots=True)
class Entries:
    """What stands there of one incarnation."""

    owner: Owner | None  # of whichever incarnation
    slots: Mapping[int, int]  # the newest applied checkpoint by slot
    seen: Collection[TransactionId]  # of those asked about, the applied ones
    begun: Mapping[int, int] = field(
        default_factory=dict
    )  # rows of the next checkpoint that a slot has applied already

    @property
    def applied(self) -> int:
        """Every slot is at this checkpoint at least; -1: at none."""
        return min(self.slots.values(), default=-1)


class Ledger(Protocol):
    """For one sink of one pipeline. Called from one thread at a time, but for `apply`: one for each slot.

    Every call may block, and raises SinkUnavailableError for what a further call may cure, TargetError for what it
    will not.
    """

    slots: int
    """Into how many a new checkpoint is to be divided."""

    def prepare(self) -> None:
        """Make what the ledger is kept in, if it is missing. Raises TargetError with what an administrator may do."""

    def entries(self, incarnation: str, asked: Iterable[Committable]) -> Entries:
        """What stands there. Changes nothing."""

    def claim(self, owner: Owner, *, take_over: bool, begins: int, counted: int) -> None:
        """Make the sink this driver's. When it returns, nobody older can apply anything any more.

        `begins`: the checkpoint at which slots stand from now on where the incarnation has none. `counted`: what is
        known to be applied, so that the sink went back in time if nobody has claimed it (H26): SetBackError.

        Raises FencedError, IdentityError; `take_over`: whoever has it now.
        """

    def share_out(self, scope: Scope) -> None:
        """Have `slots` slots for the checkpoint of this scope; every one before it is applied.

        Raises FencedError if the sink is not this driver's, IdentityError for a slot that is elsewhere.
        """

    def apply(self, share: Share, storage: Storage) -> Sequence[CommitOutcome]:
        """Move a slot by one checkpoint, with its rows, or find that it was. One outcome for each committable.

        Raises FencedError, IdentityError if the slot is not at the checkpoint before, SetBackError (see
        `Share.check_not_past`), BadRowError for a row that the target refuses, WalError for a damaged segment. Leaves
        nothing behind then.
        """

    def give_up(
        self, incarnation: str, transactions: Sequence[TransactionId], delete: Callable[[Sequence[TransactionId]], None]
    ) -> TransactionId | None:
        """Delete all, while nobody can apply them. Returns one that is applied, if there is one, and deletes none."""

    def fast_forward(self, owner: Owner, checkpoint_id: int, counted: int) -> None:
        """Have no slot stand before this checkpoint: what it has not counted was written without the log
        (at-least-once), or without the sink.

        Raises FencedError if the sink is not this driver's, SetBackError where a slot stands before `counted`, which
        is known to be applied.
        """

    def prune(self, incarnation: str, below: int) -> None:
        """Forget what tells of checkpoints below `below` one by one, but never how far the slots are."""

    def close(self) -> None:
        """Let go of connections; the next call connects again."""


def missing_segments(storage: Storage, share: Share) -> list[str]:
    """Those that are not there, for messages. Raises WalError for a damaged one.

    Asked while nobody else can apply the slot, so that "not applied" and "missing" are of one moment: only then the
    rows are lost (R7).
    """
    refs = [segment_of(each) for each in share.committables]
    return [f"{storage.describe()}/{ref.name}" for ref in refs if ref is not None and not is_sealed(storage, ref)]


def gap(sink: str, share: Share, applied: int | None) -> IdentityError:
    """The error for a slot that is not at the checkpoint before, see `Share.is_next`."""
    stands = "knows of no checkpoint" if applied is None else f"stands at checkpoint {applied}"
    message = f"sink {sink}, slot {share.slot}, {stands} and is asked to apply checkpoint {share.checkpoint_id}"
    return IdentityError(message, remedy="restore the sink and the checkpoint location to the same moment")

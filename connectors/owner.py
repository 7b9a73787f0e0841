"""Who owns a sink and how far the sink counts, as each sink compares it with what its driver knows (R2, R3). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from eos.errors import FencedError, IdentityError, SetBackError
from twophase.ids import TransactionId, sink_key
from twophase.values import Committable


class Owner(NamedTuple):
    """Who owns a sink."""

    incarnation: str
    epoch: int

    def __str__(self) -> str:
        return f"epoch {self.epoch} of incarnation {self.incarnation}"


def fenced_error(sink: str, found: Owner | None, owner: Owner) -> FencedError:
    """The error of a driver whose sink is somebody else's."""
    message = f"fenced: sink {sink} is claimed by {found or 'nobody'}, this driver is {owner}"
    return FencedError(message, remedy="another driver of this pipeline has started since; stop one of them")


def check_succession(sink: str, found: Owner, owner: Owner) -> None:
    """Raise IdentityError if `owner` is of another life than who has the sink, FencedError if it is older."""
    if found.incarnation != owner.incarnation:
        message = f"sink {sink} is claimed by incarnation {found.incarnation} of this pipeline, not by {owner}"
        raise IdentityError(message, remedy="run it from its own checkpoint location, or take it over: `eos reset`")
    if found.epoch > owner.epoch:
        raise fenced_error(sink, found, owner)


def check_applier(sink: str, found: Owner | None, incarnation: str, epoch: int | None) -> None:
    """Raise FencedError unless a driver may apply what is decided: any epoch of this life that does not know a newer
    one. `epoch`: None of a start, which commits before it claims (R3)."""
    if found is None or found.incarnation != incarnation or epoch not in (None, found.epoch):
        raise fenced_error(sink, found, Owner(incarnation, epoch or 0))


def check_counted(sink: str, found: int | None, known: int) -> None:
    """Raise SetBackError where the sink counts less than it is known to have counted (H26).

    `found`: the newest checkpoint that the sink counts; None where it has no count. `known`: -1 if nothing is known.
    """
    if known >= 0 and (found is None or found < known):
        raise SetBackError.of(sink, found, known)


def incarnation_of(sink: str, known: str | None, checkpoint_id: int, committables: Sequence[Committable]) -> str:
    """Return the incarnation whose checkpoint is to be committed. Raises IdentityError if they do not belong together.

    `known`: the incarnation that this driver has inspected or claimed; None: not yet.
    """
    incarnation = known or next((each.transaction.scope.incarnation for each in committables), None)
    if incarnation is None:
        message = f"checkpoint {checkpoint_id} of sink {sink}: it is not known of which incarnation it is"
        raise IdentityError(message, remedy="inspect or claim the sink before a checkpoint is committed")
    for each in committables:
        scope, wanted = each.transaction.scope, (incarnation, checkpoint_id, sink_key(sink))
        if (scope.incarnation, scope.checkpoint_id, each.transaction.sink) != wanted:
            message = f"{each.transaction} is not of checkpoint {checkpoint_id} of sink {sink}, {incarnation}"
            raise IdentityError(message, remedy="this checkpoint's record is damaged: restore it from a backup")
    return incarnation


def check_older(sink: str, epoch: int | None, transactions: Iterable[TransactionId]) -> None:
    """Raise FencedError for a transaction of a newer epoch than this driver's, which only that epoch may abort."""
    for each in transactions:
        if epoch is not None and each.scope.epoch > epoch:
            message = f"fenced: {each} at sink {sink} is of a newer epoch than this driver's, {epoch}"
            raise FencedError(message, remedy="another driver of this pipeline has started since; stop one of them")

"""Whether what a driver is asked to commit or to abort is its own. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eos.errors import FencedError, IdentityError
from twophase.ids import TransactionId, sink_key
from twophase.values import Committable


def incarnation_of(sink: str, known: str | None, checkpoint_id: int, committables: Sequence[Committable]) -> str:
    """The life whose checkpoint is to be committed. Raises IdentityError if they do not belong together.

    `known`: by this driver, once it has looked.
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
    """Raise FencedError for a transaction of a newer epoch than this driver's: that one is not ours to abort."""
    for each in transactions:
        if epoch is not None and each.scope.epoch > epoch:
            message = f"fenced: {each} at sink {sink} is of a newer epoch than this driver's, {epoch}"
            raise FencedError(message, remedy="another driver of this pipeline has started since; stop one of them")

"""Head or sinks that went back to before a savepoint. A start from it would never write the rows in between. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from eos.errors import IdentityError
from twophase.head_value import HeadValue
from twophase.set_back import counted_by, find_set_back
from twophase.values import CheckpointRecord, SinkState

_REMEDY = (
    "restore a copy that is newer than the savepoint, or begin from a savepoint that is older than the copy; without "
    "either begin a new incarnation at older offsets (`eos reset --to`)"
)


def check_not_set_back(
    at: HeadValue, record: CheckpointRecord | None, head: HeadValue | None, sinks: Mapping[str, SinkState]
) -> None:
    """Raise IdentityError if the savepoint has a checkpoint that head, or without a head a sink, no longer has.

    Neither may be of the incarnation that ended where the savepoint's began. A head that is there is compared with the
    sinks later, when its incarnation ends.

    Args:
        at: head of the savepoint.
        record: of its checkpoint; None: the savepoint does not have it, and nothing is known of the sinks.
        head: head as it is; None: the location is empty.
        sinks: as they stand to the incarnation of that head, or without a head to the savepoint's.
    """
    ended = at.origin.ended if at.origin is not None else None
    if head is not None:
        if head.incarnation == at.incarnation and head.completed < at.completed:
            raise _error(at, f"head of pipeline {head.pipeline} was set back to checkpoint {head.completed}")
        if head.incarnation == ended:
            raise _error(at, f"head of pipeline {head.pipeline} was set back to an earlier incarnation")
        return
    for name in at.sinks:
        if ended is not None and name in sinks and sinks[name].claim_incarnation == ended:
            raise _error(at, f"sink {name} was set back to an earlier incarnation")
    claimed = {name: each for name, each in sinks.items() if each.claim_incarnation == at.incarnation}
    counted = counted_by([record], list(claimed), at.completed) if record is not None else {}
    for name, number in find_set_back(counted, claimed).items():
        raise _error(at, f"sink {name} was set back to checkpoint {number}")


def _error(at: HeadValue, what: str) -> IdentityError:
    message = f"{what}, and the savepoint continues after checkpoint {at.completed}: rows in between would be lost"
    return IdentityError(message, remedy=_REMEDY)

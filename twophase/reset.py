"""The deliberate reset of R2: ends one incarnation cleanly and begins another. Pure, like the rest of the protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from twophase import messages
from twophase.commits import commit_everywhere
from twophase.errors import FencedError, LostCommittableError
from twophase.head_value import HeadValue
from twophase.messages import Seen, Steps
from twophase.ownership import Ownership, load
from twophase.participants import Prepared
from twophase.transitions import Claim


@dataclass(frozen=True, slots=True)
class Reset:
    """A new life under the same name: no positions, no checkpoints, a later epoch.

    Nothing of the old life can match.
    """

    incarnation: str

    def apply(self, head: HeadValue) -> HeadValue:
        """See transitions.Transition."""
        return HeadValue(head.pipeline, self.incarnation, head.epoch, head.nonces)


def reset(pipeline: str, session: str, incarnation: str, *, abandon_lost: bool = False) -> Steps[Ownership]:
    """Commit what the old incarnation had decided, abort what it had prepared, then begin `incarnation`.

    The three stores are not compared: a reset is how one goes on when they do not fit. Killed half way, it is run
    again. Sinks that another incarnation holds are taken over on purpose; what that one left prepared stays as it is,
    because only its own head knows what is decided. Raises LostCommittableError for a completed checkpoint that a sink
    can never show, unless `abandon_lost` says that its rows are given up.
    """
    seen: Seen | None = yield messages.ReadHead()
    born = HeadValue(pipeline=pipeline, incarnation=incarnation, epoch=0, nonces=())
    owned = Ownership(session, seen.version if seen else 0, seen.head if seen else born)
    yield from owned.swap(Claim(), "claim") if seen else _be_born(owned)
    old = owned.head
    yield messages.Inspect(old.incarnation, {})  # makes the sinks' own tables where they are missing
    for ref in old.records:
        if ref.checkpoint_id > old.committed:
            record = yield from load(owned, ref)
            try:
                yield from commit_everywhere(owned, record)
            except LostCommittableError:
                if not abandon_lost:
                    raise
    yield messages.Claim(old.incarnation, old.epoch, take_over=True)
    listed: Mapping[str, Sequence[Prepared]] = yield messages.ListPrepared(old.incarnation)
    leftovers = {
        sink: tuple(p for p in group if p.transaction is not None and p.transaction.scope.epoch < old.epoch)
        for sink, group in listed.items()
    }
    if any(leftovers.values()):
        yield messages.AbortPrepared(leftovers)
    if seen is not None:
        yield from owned.swap(Reset(incarnation), "reset")
        yield messages.Claim(incarnation, owned.head.epoch, take_over=True)
    return owned


def _be_born(owned: Ownership) -> Steps[None]:
    value = owned.stamped(replace(owned.head, epoch=1))
    landed = yield messages.Swap(owned.version, value, "claim")
    if not landed:
        seen: Seen | None = yield messages.ReadHead()
        if seen is None or value.nonces[-1] not in seen.head.nonces:
            message = "another driver of this pipeline has started at the same moment"
            raise FencedError(message, remedy="stop it, then reset")
    owned.version, owned.head = owned.version + 1, value

"""The deliberate reset of R2: ends one incarnation cleanly and begins another. Pure, like the rest of the protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from twophase import messages
from twophase.abandoned import Abandoned, enclosing_ranges
from twophase.commits import commit_what_can_be
from twophase.errors import ConnectorError, FencedError, HeadFormatError, LostCommittableError
from twophase.head_value import HeadValue, RecordRef
from twophase.messages import Inspected, Seen, Steps
from twophase.ownership import Ownership, load
from twophase.participants import Prepared
from twophase.transitions import Claim, SetPositions
from twophase.values import CheckpointRecord, SparkState, StartingPoint
from twophase.verify import may_be_under_way


@dataclass(frozen=True, slots=True)
class Reset:
    """A new life under the same name: no checkpoints, a later epoch, and no positions but those it is to begin at.

    Nothing of the old life can match. The positions are born with the life (R6): whoever starts it next begins there.
    """

    incarnation: str
    sinks: tuple[str, ...]
    begins: Mapping[str, StartingPoint] = field(default_factory=dict)  # by source; empty: by `starting_offsets`

    def apply(self, head: HeadValue) -> HeadValue:
        """See transitions.Transition."""
        born = HeadValue(head.pipeline, self.incarnation, head.epoch, head.nonces, sinks=self.sinks)
        for source, starting_point in self.begins.items():
            born = SetPositions(source, starting_point).apply(born)
        return born


@dataclass(frozen=True, slots=True)
class Begun:
    """What a reset has done."""

    head: HeadValue  # of the new life
    ended: str | None  # the incarnation before it; None if the pipeline never ran here
    abandoned: tuple[Abandoned, ...]
    before: HeadValue | None = None  # the old life's last head


def reset(
    pipeline: str,
    sinks: Sequence[str],
    session: str,
    incarnation: str,
    *,
    abandon_lost: bool = False,
    begins: Mapping[str, StartingPoint] | None = None,
) -> Steps[Begun]:
    """Commit what the old incarnation had decided, abort what it had prepared, then begin `incarnation`.

    The three stores are not compared: a reset is how one goes on when they do not fit. Killed half way, it is run
    again. Sinks that another incarnation holds are taken over on purpose; what that one left prepared stays as it is,
    because only its own head knows what is decided.

    Raises LostCommittableError, before anything is rolled back, when decided rows cannot become visible: a sink has
    lost them, their record cannot be read, or the spec no longer names their sink; also for a sink that it no longer
    names and that may hold something prepared. With `abandon_lost` they are given up, and each is said first.

    `begins`: where each source of the new life begins, whatever `starting_offsets` says; None: as that says.
    """
    life = Reset(incarnation, tuple(sinks), begins or {})
    seen: Seen | None = yield messages.ReadHead()
    born = life.apply(HeadValue(pipeline, incarnation, epoch=0, nonces=()))
    owned = Ownership(session, seen.version, seen.head, content=seen.content) if seen else Ownership(session, 0, born)
    yield from owned.swap(Claim(), "claim") if seen else be_born(owned)
    old = owned.head
    inspected: Inspected = yield messages.Inspect(old.incarnation, {})  # makes the sinks' own tables, too
    abandoned = yield from end_life(owned, sinks, inspected.spark, abandon_lost=abandon_lost)
    if seen is None:
        return Begun(owned.head, None, abandoned)
    yield from owned.swap(life, "reset")
    yield from take_sinks(owned, old)
    return Begun(owned.head, old.incarnation, abandoned, old)


def end_life(
    owned: Ownership, sinks: Sequence[str], spark: SparkState, *, abandon_lost: bool
) -> Steps[tuple[Abandoned, ...]]:
    """Commit what the life in head has decided, and roll back all else that it has prepared; returns what is given up.

    Raises LostCommittableError before anything is rolled back, see `reset`.
    """
    old = owned.head
    abandoned = yield from _commit_decided(owned, sinks)
    abandoned += _out_of_reach(old, sinks, spark)
    if abandoned:
        if not abandon_lost:
            raise _refused(old.pipeline, abandoned)
        yield messages.Abandon(abandoned)
    yield messages.Claim(old.incarnation, old.epoch, take_over=True)
    yield from _abort_prepared(old)
    return abandoned


def take_sinks(owned: Ownership, old: HeadValue) -> Steps[None]:
    """Make the sinks those of the life that head has now, and sweep away what is left of the one before it."""
    yield messages.Claim(owned.head.incarnation, owned.head.epoch, take_over=True)
    # From here on nobody asks for a record or a witness of the old life: its drivers are fenced, its head is gone.
    yield messages.Prune(old.incarnation, old.records, below=old.completed + 1)
    yield messages.Sweep(owned.head)


def _commit_decided(owned: Ownership, sinks: Sequence[str]) -> Steps[tuple[Abandoned, ...]]:
    """Everything that is decided and can become visible does; the rest is told."""
    abandoned: list[Abandoned] = []
    for ref in owned.head.records:
        if ref.checkpoint_id > owned.head.committed:
            record = yield from _load(owned, ref)
            if isinstance(record, HeadFormatError):
                abandoned.append((yield from _unreadable(owned, sinks, ref, record)))
            else:
                abandoned += yield from _commit(owned, sinks, record)
    return tuple(abandoned)


def _load(owned: Ownership, ref: RecordRef) -> Steps[CheckpointRecord | HeadFormatError]:
    try:
        return (yield from load(owned, ref))
    except HeadFormatError as error:
        return error


def _commit(owned: Ownership, sinks: Sequence[str], record: CheckpointRecord) -> Steps[list[Abandoned]]:
    number = record.checkpoint_id
    here = {name: group for name, group in record.committables.items() if name in sinks}
    refusals: dict[str, ConnectorError] = {}
    lost = yield from commit_what_can_be(owned, number, here, refusals)
    neither = "the sink neither holds nor shows them"
    gone = {name: group for name, group in record.committables.items() if name not in sinks and group}
    removed = "the spec no longer names the sink, so that what is still prepared there stays so, with its locks"
    told = [(name, refusals[name].message if name in refusals else neither, group) for name, group in lost.items()]
    told += [(name, removed, group) for name, group in gone.items()]
    return [
        Abandoned(number, (name,), why, tuple(c.transaction for c in group), record.ranges) for name, why, group in told
    ]


def _unreadable(owned: Ownership, sinks: Sequence[str], ref: RecordRef, error: HeadFormatError) -> Steps[Abandoned]:
    """Which transactions were decided is not known without the record, so that none of them can be committed."""
    readable = []
    for other in owned.head.records:
        record = yield from _load(owned, other)
        if isinstance(record, CheckpointRecord):
            readable.append(record)
    listed: Mapping[str, Sequence[Prepared]] = yield messages.ListPrepared(owned.head.incarnation)
    mine = [p.transaction for group in listed.values() for p in group if p.transaction is not None]
    return Abandoned(
        ref.checkpoint_id,
        tuple(sinks),
        f"{error.message}; what is prepared for it is rolled back, what is already committed stays",
        tuple(t for t in mine if t.scope.checkpoint_id == ref.checkpoint_id),
        enclosing_ranges(owned.head, ref.checkpoint_id, readable),
        is_exact=False,
    )


def _out_of_reach(old: HeadValue, sinks: Sequence[str], spark: SparkState) -> tuple[Abandoned, ...]:
    """What is undecided in sinks that the spec no longer names: only they could list it and roll it back."""
    gone = tuple(sorted(set(old.sinks) - set(sinks)))
    if not gone or not may_be_under_way(old, spark):
        return ()
    why = (
        "the spec no longer names the sink, so that what it may hold prepared stays so, with its locks; its "
        f"transaction ids begin with {old.incarnation}"
    )
    return (Abandoned(old.completed + 1, gone, why, (), {}),)


def _refused(pipeline: str, abandoned: Sequence[Abandoned]) -> LostCommittableError:
    lines = "\n".join(f"  {each}" for each in abandoned)
    message = f"this life of pipeline {pipeline} cannot be brought to its end:\n{lines}"
    return LostCommittableError(
        message,
        remedy="restore what is missing (the checkpoint location from a backup, a sink in the spec) and reset again; "
        "what a sink or its log has lost `eos repair` writes again; or give it up with `eos reset --abandon-lost`: "
        "then write the rows again from those offsets, and roll back by hand what stays prepared",
    )


def _abort_prepared(old: HeadValue) -> Steps[None]:
    listed: Mapping[str, Sequence[Prepared]] = yield messages.ListPrepared(old.incarnation)
    leftovers = {
        sink: tuple(p for p in group if p.transaction is not None and p.transaction.scope.epoch < old.epoch)
        for sink, group in listed.items()
    }
    if any(leftovers.values()):
        yield messages.AbortPrepared(leftovers)


def be_born(owned: Ownership, point: str = "claim") -> Steps[None]:
    """Write the first head there ever was here. Raises FencedError if somebody else has."""
    value = owned.stamped(replace(owned.head, epoch=1))
    landed = yield messages.Swap(owned.expected(), value, point)
    if not landed:
        seen: Seen | None = yield messages.ReadHead()
        if seen is None or value.nonces[-1] not in seen.head.nonces:
            message = "another driver of this pipeline has started at the same moment"
            raise FencedError(message, remedy="stop it, and give the command again")
    owned.take(Seen(owned.version + 1, value))

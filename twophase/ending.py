"""R2: the end of an incarnation, before another one takes its place. Pure, like the rest of the protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twophase import messages
from twophase.abandoned import Abandoned, enclosing_ranges
from twophase.commits import commit_what_can_be
from twophase.errors import ConnectorError, HeadFormatError, LostCommittableError
from twophase.head_value import HeadValue, RecordRef
from twophase.messages import Steps
from twophase.ownership import Ownership, load
from twophase.participants import Prepared
from twophase.values import CheckpointRecord, SparkState
from twophase.verify import may_be_under_way


def end_incarnation(
    owned: Ownership, sinks: Sequence[str], spark: SparkState, *, abandon_lost: bool
) -> Steps[tuple[Abandoned, ...]]:
    """Commit the decisions in head, then roll back everything else that its incarnation has prepared.

    Returns what was given up. Raises LostCommittableError before anything is rolled back, see `reset.reset`.
    """
    old = owned.head
    abandoned = yield from _commit_decided(owned, sinks)
    abandoned += _out_of_reach(old, sinks, spark)
    if abandoned:
        if not abandon_lost:
            raise _refused(old.pipeline, abandoned)
        yield messages.Abandon(abandoned)
    yield messages.Claim(old.incarnation, old.epoch, take_over=True, begins=old.committed)
    yield from _abort_prepared(old)
    return abandoned


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

"""R2: the end of an incarnation, before another one takes its place. Pure, like the rest of the protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from twophase import messages
from twophase.abandoned import Abandoned, enclosing_ranges
from twophase.commits import commit_and_count_what_can_be
from twophase.errors import ConnectorError, HeadFormatError, LostCommittableError
from twophase.head_value import HeadValue, RecordRef
from twophase.ids import TransactionId
from twophase.messages import Inspected, Steps
from twophase.ownership import Ownership, load
from twophase.participants import Prepared
from twophase.set_back import check_undecided
from twophase.values import CheckpointRecord, SinkState, SparkState
from twophase.verify import may_be_under_way


def end_incarnation(
    owned: Ownership, sinks: Sequence[str], inspected: Inspected, *, abandon_lost: bool
) -> Steps[tuple[Abandoned, ...]]:
    """Commit the decisions in head, then roll back everything else that its incarnation has prepared.

    Returns what was given up, with what sinks have lost that went back in time. Raises LostCommittableError before
    anything is rolled back, see `reset.reset`; SetBackError where a sink goes back in time meanwhile.
    """
    old = owned.head
    first = old.origin.checkpoint_id if old.origin is not None else -1
    counts = {name: sink.counted for name, sink in inspected.sinks.items() if sink.counted is not None}
    unclaimed = [n for n, sink in inspected.sinks.items() if n in old.sinks and not _is_claimed(old, sink)]
    gone = yield from _commit_once_more(owned, counts, dict.fromkeys(unclaimed, first))
    abandoned = yield from _commit_decided(owned, sinks, counts)
    abandoned += _out_of_reach(old, sinks, inspected.spark)
    abandoned += yield from _find_unjudged(owned)
    if abandoned and not abandon_lost:
        raise _refused(old.pipeline, abandoned)
    if gone or abandoned:
        yield messages.Abandon((*gone, *abandoned))
    begins = first if unclaimed else old.committed
    yield messages.Claim(old.incarnation, old.epoch, take_over=True, begins=begins, counted=counts)
    yield from _abort_prepared(old, (*gone, *abandoned))
    return (*gone, *abandoned)


def _is_claimed(head: HeadValue, sink: SinkState) -> bool:
    return sink.claim_incarnation == head.incarnation


def _commit_once_more(
    owned: Ownership, counts: dict[str, int], unclaimed: Mapping[str, int]
) -> Steps[tuple[Abandoned, ...]]:
    """H27: commit what head calls committed, and a sink only holds prepared since it went back in time.

    Returns what is gone there: whoever resets may have no other copy, so that it is said and not refused.

    Args:
        owned: head, claimed.
        counts: by sink, what it counts; moved along.
        unclaimed: sinks that went back to before their claim, with the checkpoint before their first one.
    """
    head = owned.head
    gone: list[Abandoned] = []
    counted = {**counts, **unclaimed}
    kept = min((ref.checkpoint_id for ref in head.records), default=head.committed + 1)
    for name, number in counted.items():
        if max(number, -1) + 1 < min(kept, head.committed + 1):
            why = f"the sink went back in time; no record tells what it lacks of checkpoints before {kept}"
            gone.append(Abandoned(number + 1, (name,), why, (), {}))
    for ref in head.records:
        behind = [name for name, number in counted.items() if number < ref.checkpoint_id <= head.committed]
        if not behind:
            continue
        record = yield from _load(owned, ref)
        if isinstance(record, HeadFormatError):
            gone.append((yield from _unreadable(owned, behind, ref, record)))
        elif not record.direct:
            part = {name: group for name, group in record.committables.items() if name in behind}
            gone += yield from _commit(owned, behind, replace(record, committables=part), counts)
    return tuple(gone)


def _commit_decided(owned: Ownership, sinks: Sequence[str], counts: dict[str, int]) -> Steps[tuple[Abandoned, ...]]:
    """Everything that is decided and can become visible does; the rest is told."""
    abandoned: list[Abandoned] = []
    for ref in owned.head.records:
        if ref.checkpoint_id > owned.head.committed:
            record = yield from _load(owned, ref)
            if isinstance(record, HeadFormatError):
                abandoned.append((yield from _unreadable(owned, sinks, ref, record)))
            else:
                abandoned += yield from _commit(owned, sinks, record, counts)
    return tuple(abandoned)


def _load(owned: Ownership, ref: RecordRef) -> Steps[CheckpointRecord | HeadFormatError]:
    try:
        return (yield from load(owned, ref))
    except HeadFormatError as error:
        return error


def _commit(
    owned: Ownership, sinks: Sequence[str], record: CheckpointRecord, counts: dict[str, int]
) -> Steps[list[Abandoned]]:
    number = record.checkpoint_id
    here = {name: group for name, group in record.committables.items() if name in sinks}
    refusals: dict[str, ConnectorError] = {}
    lost = yield from commit_and_count_what_can_be(owned, number, here, counts, refusals)
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


def _find_unjudged(owned: Ownership) -> Steps[tuple[Abandoned, ...]]:
    """What is prepared for a committed checkpoint of which head keeps no record: nothing tells if it was decided."""
    head = owned.head
    listed: Mapping[str, Sequence[Prepared]] = yield messages.ListPrepared(head.incarnation)
    found: dict[tuple[int, str], list[TransactionId]] = {}
    for name, group in listed.items():
        for each in group:
            if each.transaction is None or each.transaction.scope.checkpoint_id > head.committed:
                continue
            if head.record_of(each.transaction.scope.checkpoint_id) is None:
                found.setdefault((each.transaction.scope.checkpoint_id, name), []).append(each.transaction)
    why = "the sink went back in time; head keeps no record of the checkpoint, so nothing tells what was decided"
    return tuple(Abandoned(number, (name,), why, tuple(group), {}) for (number, name), group in sorted(found.items()))


def _abort_prepared(old: HeadValue, given_up: Sequence[Abandoned]) -> Steps[None]:
    """Roll back what is prepared, once the records have been asked about it (H27)."""
    listed: Mapping[str, Sequence[Prepared]] = yield messages.ListPrepared(old.incarnation)
    leftovers = {
        sink: tuple(p for p in group if p.transaction is not None and p.transaction.scope.epoch < old.epoch)
        for sink, group in listed.items()
    }
    named = {transaction for each in given_up for transaction in each.transactions}
    asked = {sink: [p for p in group if p.transaction not in named] for sink, group in leftovers.items()}
    yield from check_undecided(old, asked)
    if any(leftovers.values()):
        yield messages.AbortPrepared(leftovers)

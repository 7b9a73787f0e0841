"""R2: the end of an incarnation, before another one takes its place. Pure, like the rest of the protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from eos.errors import ConnectorError, HeadFormatError, LostCommittableError
from twophase import messages
from twophase.abandoned import Abandoned, enclosing_ranges
from twophase.commits import commit_and_count_what_can_be
from twophase.head_value import HeadValue
from twophase.ids import TransactionId
from twophase.messages import Inspected, Steps
from twophase.ownership import Ownership, load
from twophase.participants import Prepared
from twophase.set_back import check_undecided, counted_by, find_set_back, known_by, newest_counted
from twophase.values import CheckpointRecord, SinkState, SparkState
from twophase.verify import may_be_under_way

_WRITTEN_DIRECTLY: Final = (
    "it was written at-least-once, and the sink went back in time: nothing tells which rows are there"
)

Records = Mapping[int, CheckpointRecord | HeadFormatError]
"""All that head points at, by checkpoint, ascending; an error for one that cannot be read."""


def end_incarnation(
    owned: Ownership, sinks: Sequence[str], inspected: Inspected, *, abandon_lost: bool
) -> Steps[tuple[Abandoned, ...]]:
    """Commit the decisions in head, then roll back everything else that its incarnation has prepared.

    Returns what was given up, with what sinks have lost that went back in time. Raises LostCommittableError before
    anything is rolled back, see `reset.reset`; SetBackError where a sink goes back in time meanwhile.
    """
    old = owned.head
    records = yield from _read_records(owned)
    states = inspected.sinks
    owned.note_counted(known_by(_readable(records), list(states), old.committed))
    counts = {n: each.counted for n, each in states.items() if _is_claimed(old, each) and each.counted is not None}
    behind = _find_behind(old, records, states)
    lacking = yield from _commit_once_more(owned, records, behind, counts)
    lacking += _find_direct_losses(old, records, states)
    abandoned = yield from _commit_decided(owned, sinks, records, counts)
    abandoned += _out_of_reach(old, sinks, inspected.spark)
    listed = yield from messages.ListPrepared(old.incarnation)
    held = {each.transaction for group in listed.values() for each in group}
    gone = _find_gaps(records, behind, states, old) + tuple(
        each for each in lacking if held.isdisjoint(each.transactions)
    )
    abandoned += tuple(each for each in lacking if not held.isdisjoint(each.transactions))
    abandoned += _find_unjudged(old, records, listed, abandoned)
    if abandoned and not abandon_lost:
        raise _refused(old.pipeline, abandoned)
    if gone or abandoned:
        yield from messages.Abandon((*gone, *abandoned))
    is_new_to_one = any(states[name].counted is None and not _is_claimed(old, states[name]) for name in behind)
    begins = _first(old) if is_new_to_one else old.committed
    yield from messages.Claim(old.incarnation, old.epoch, take_over=True, begins=begins, counted=counts)
    yield from _abort_prepared(old, (*gone, *abandoned))
    return (*gone, *abandoned)


def _read_records(owned: Ownership) -> Steps[Records]:
    records: dict[int, CheckpointRecord | HeadFormatError] = {}
    for ref in owned.head.records:
        try:
            records[ref.checkpoint_id] = yield from load(owned, ref)
        except HeadFormatError as error:
            records[ref.checkpoint_id] = error
    return records


def _readable(records: Records) -> list[CheckpointRecord]:
    return [each for each in records.values() if isinstance(each, CheckpointRecord)]


def _first(head: HeadValue) -> int:
    """The checkpoint before the first one of this incarnation."""
    return head.origin.checkpoint_id if head.origin is not None else -1


def _is_claimed(head: HeadValue, sink: SinkState) -> bool:
    """False for a sink that went back to before its claim, and for one that another incarnation has taken over."""
    return sink.claim_incarnation == head.incarnation


def _find_behind(head: HeadValue, records: Records, sinks: Mapping[str, SinkState]) -> dict[str, int]:
    """Return the sinks that may lack what head calls committed, with the newest checkpoint that each counts.

    A sink without a count went back to before its claim, or was claimed by a version that did not count: all that it
    may lack is committed once more, which changes nothing where it is there.
    """
    expected = counted_by(_readable(records), list(sinks), head.committed)
    first = _first(head)
    without = {name: first for name in expected if sinks[name].counted is None and first < expected[name]}
    return {**find_set_back(expected, sinks), **without}


def _find_gaps(
    records: Records, behind: Mapping[str, int], sinks: Mapping[str, SinkState], head: HeadValue
) -> tuple[Abandoned, ...]:
    """Return of which sinks no record tells what they lack; not of one that an earlier version claimed."""
    kept = min(records, default=0)
    why = f"the sink was restored to an earlier state; no record names its missing rows of checkpoints before {kept}"
    return tuple(
        Abandoned(max(number, -1) + 1, (name,), why, (), {})
        for name, number in behind.items()
        if max(number, -1) + 1 < kept and not (sinks[name].counted is None and _is_claimed(head, sinks[name]))
    )


def _commit_once_more(
    owned: Ownership, records: Records, behind: Mapping[str, int], counts: dict[str, int]
) -> Steps[tuple[Abandoned, ...]]:
    """H27: commit what head calls committed, and a sink only holds prepared since it went back in time.

    Returns what cannot be committed: mostly what is gone there. `counts`: by sink, what it counts; moved along.
    """
    lacking: list[Abandoned] = []
    for number, record in records.items():
        names = tuple(name for name, counted in behind.items() if counted < number <= owned.head.committed)
        if not names:
            continue
        if isinstance(record, HeadFormatError):
            lacking.append((yield from _unreadable(owned, names, number, records, record)))
        elif record.direct:
            lacking.append(Abandoned(number, names, _WRITTEN_DIRECTLY, (), record.ranges))
        else:
            part = {name: group for name, group in record.committables.items() if name in names}
            lacking += yield from _commit(owned, names, replace(record, committables=part), counts)
    return tuple(lacking)


def _find_direct_losses(head: HeadValue, records: Records, sinks: Mapping[str, SinkState]) -> tuple[Abandoned, ...]:
    """Return which at-least-once checkpoints a sink may lack that went back in time, where a repair has died over that.

    It has taken back that they are committed, with those that the sink counts (H34).
    """
    readable = _readable(records)
    found = [
        (each, tuple(find_set_back(counted_by(readable, list(sinks), each.checkpoint_id), sinks)))
        for each in readable
        if each.direct and each.checkpoint_id > head.committed
    ]
    return tuple(
        Abandoned(each.checkpoint_id, names, _WRITTEN_DIRECTLY, (), each.ranges) for each, names in found if names
    )


def _commit_decided(
    owned: Ownership, sinks: Sequence[str], records: Records, counts: dict[str, int]
) -> Steps[tuple[Abandoned, ...]]:
    """Everything that is decided and can become visible does; the rest is told.

    At-least-once the tasks have committed, and no sink can tell what (see `_find_direct_losses`).
    """
    abandoned: list[Abandoned] = []
    for number, record in records.items():
        if number <= owned.head.committed or (isinstance(record, CheckpointRecord) and record.direct):
            continue
        if isinstance(record, HeadFormatError):
            abandoned.append((yield from _unreadable(owned, sinks, number, records, record)))
        else:
            abandoned += yield from _commit(owned, sinks, record, counts)
    return tuple(abandoned)


def _commit(
    owned: Ownership, sinks: Sequence[str], record: CheckpointRecord, counts: dict[str, int]
) -> Steps[list[Abandoned]]:
    number = record.checkpoint_id
    here = {name: group for name, group in record.committables.items() if name in sinks}
    refusals: dict[str, ConnectorError] = {}
    lost = yield from commit_and_count_what_can_be(owned, number, here, counts, refusals)
    neither = "the sink neither holds nor shows them"
    gone = {name: group for name, group in record.committables.items() if name not in sinks and group}
    removed = "the sink is no longer in the spec: its prepared transactions remain, with their locks"
    told = [(name, refusals[name].message if name in refusals else neither, group) for name, group in lost.items()]
    told += [(name, removed, group) for name, group in gone.items()]
    return [
        Abandoned(number, (name,), why, tuple(c.transaction for c in group), record.ranges) for name, why, group in told
    ]


def _unreadable(
    owned: Ownership, sinks: Sequence[str], number: int, records: Records, error: HeadFormatError
) -> Steps[Abandoned]:
    """Which transactions were decided is not known without the record, so that none of them can be committed."""
    listed = yield from messages.ListPrepared(owned.head.incarnation)
    mine = [p.transaction for group in listed.values() for p in group if p.transaction is not None]
    return Abandoned(
        number,
        tuple(sinks),
        f"{error.message}; its prepared transactions are rolled back, committed rows stay",
        tuple(t for t in mine if t.scope.checkpoint_id == number),
        enclosing_ranges(owned.head, number, _readable(records)),
        is_exact=False,
    )


def _out_of_reach(old: HeadValue, sinks: Sequence[str], spark: SparkState) -> tuple[Abandoned, ...]:
    """What is undecided in sinks that the spec no longer names: only they could list it and roll it back."""
    gone = tuple(sorted(set(old.sinks) - set(sinks)))
    if not gone or not may_be_under_way(old, spark):
        return ()
    why = (
        "the sink is no longer in the spec: transactions that it may hold prepared remain, with their locks; their "
        f"ids begin with {old.incarnation}"
    )
    return (Abandoned(old.completed + 1, gone, why, (), {}),)


def _refused(pipeline: str, abandoned: Sequence[Abandoned]) -> LostCommittableError:
    lines = "\n".join(f"  {each}" for each in abandoned)
    message = f"this incarnation of pipeline {pipeline} cannot be completed:\n{lines}"
    return LostCommittableError(
        message,
        remedy="restore what is missing (the checkpoint location from a backup, a sink in the spec) and reset again; "
        "what a sink or its log has lost `eos repair` writes again; or give it up with `eos reset --abandon-lost`: "
        "then write the rows again from those offsets, and roll back by hand what stays prepared",
    )


def _find_unjudged(
    head: HeadValue, records: Records, listed: Mapping[str, Sequence[Prepared]], told: Sequence[Abandoned]
) -> tuple[Abandoned, ...]:
    """What is prepared for a committed checkpoint whose record head does not keep, or cannot read."""
    named = {transaction for each in told for transaction in each.transactions}
    found: dict[tuple[int, str], list[TransactionId]] = {}
    for name, group in listed.items():
        for each in group:
            number = each.transaction.scope.checkpoint_id if each.transaction is not None else head.completed + 1
            is_judged = number > head.committed or isinstance(records.get(number), CheckpointRecord)
            is_judged = is_judged or (number not in records and number > newest_counted(head))
            if each.transaction is not None and not is_judged and each.transaction not in named:
                found.setdefault((number, name), []).append(each.transaction)
    why = "the sink was restored to an earlier state; head has no record of the checkpoint and of its decision"
    return tuple(Abandoned(number, (name,), why, tuple(group), {}) for (number, name), group in sorted(found.items()))


def _abort_prepared(old: HeadValue, given_up: Sequence[Abandoned]) -> Steps[None]:
    """Roll back what is prepared, once the records have been asked about it (H27)."""
    listed = yield from messages.ListPrepared(old.incarnation)
    leftovers = {
        sink: tuple(p for p in group if p.transaction is not None and p.transaction.scope.epoch < old.epoch)
        for sink, group in listed.items()
    }
    named = {transaction for each in given_up for transaction in each.transactions}
    asked = {sink: [p for p in group if p.transaction not in named] for sink, group in leftovers.items()}
    yield from check_undecided(old, asked)
    if any(leftovers.values()):
        yield from messages.AbortPrepared(leftovers)

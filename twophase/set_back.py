"""H26, H27: sinks that went back in time, and what a start may commit in them once more. Pure.

A backup of the sink was restored, or a replica that lagged took over. Each sink counts the checkpoints that it shows
(`SinkState.counted`), so a start that knows what a sink had counted sees that the sink went back. What the sink lacks
since then is named by head's records. A transaction that is still prepared there is committed once more; where rows
are gone, the start is refused before anything is changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from eos.errors import HeadFormatError, IdentityError, SetBackError
from twophase import messages
from twophase.head_value import HeadValue
from twophase.messages import Steps
from twophase.participants import Prepared
from twophase.values import CheckpointRecord, Committable, SinkState

_MOST_NAMED: Final = 3
_REPAIR: Final = "write again what is gone by `eos repair`, which reads its records once more; or "
_REMEDY: Final = (
    "restore a newer copy of the sink, or the sink and the checkpoint location of one moment (docs/how-to/backup.md); "
    "without either `eos reset --to` writes the records again from offsets of your choice"
)


def read_record(head: HeadValue, checkpoint_id: int) -> Steps[CheckpointRecord | None]:
    """Return the record of a checkpoint, None where head keeps none. Raises HeadFormatError for a damaged one."""
    ref = head.record_of(checkpoint_id)
    if ref is None:
        return None
    record = yield from messages.LoadRecord(ref)
    if isinstance(record, HeadFormatError):
        raise record
    return record


def read_counting_records(head: HeadValue, sinks: Sequence[str]) -> Steps[tuple[CheckpointRecord, ...]]:
    """Return the records, newest first, down to one at which every sink has counted, and one that had rows.

    One record in nearly all cases. A checkpoint that was written at-least-once is counted by no sink, and a sink that
    has joined counts only what came after.
    """
    has_rows = False
    records: list[CheckpointRecord] = []
    for ref in reversed(head.records):
        record = yield from read_record(head, ref.checkpoint_id)
        assert record is not None
        records.append(record)
        is_committed = ref.checkpoint_id <= head.committed
        has_rows = has_rows or (is_committed and (record.direct or record.rows > 0))
        if has_rows and counted_by(records, sinks, head.committed).keys() >= {*sinks}:
            break
    return tuple(records)


def counted_by(records: Sequence[CheckpointRecord], sinks: Sequence[str], upto: int) -> dict[str, int]:
    """Return by sink the newest of these checkpoints, up to `upto`, that it counts once that is committed."""
    return {
        sink: max(numbers)
        for sink in sinks
        if (numbers := [r.checkpoint_id for r in records if r.checkpoint_id <= upto and _counts(r, sink)])
    }


def known_by(records: Sequence[CheckpointRecord], sinks: Sequence[str], upto: int) -> dict[str, int]:
    """Return by sink what it has counted up to here for certain; -1 where all of these checkpoints count nothing there.

    Empty where no record is of such a checkpoint: a repair that died has taken back more than head has records of.
    """
    is_told = any(each.checkpoint_id <= upto for each in records)
    return {**dict.fromkeys(sinks if is_told else (), -1), **counted_by(records, sinks, upto)}


def _counts(record: CheckpointRecord, sink: str) -> bool:
    return not record.direct and sink in record.committables


def newest_counted(head: HeadValue, upto: int | None = None) -> int:
    """Return the newest checkpoint that sinks count, up to `upto`; -1: none. Each one after it, up to there, was
    written at-least-once.
    """
    numbers = (ref.checkpoint_id for ref in head.records if not ref.direct)
    return max((each for each in numbers if upto is None or each <= upto), default=-1)


def find_set_back(counted: Mapping[str, int], sinks: Mapping[str, SinkState]) -> dict[str, int]:
    """Return the sinks that count less than they had counted, with their count."""
    return {
        name: sink.counted
        for name, sink in sinks.items()
        if name in counted and sink.counted is not None and sink.counted < counted[name]
    }


def find_missing(
    head: HeadValue, counted: Mapping[str, int], behind: Mapping[str, int], *, repairs: bool
) -> Steps[tuple[CheckpointRecord, ...]]:
    """Return what is to be committed once more in the sinks that went back: records with these sinks' parts alone.

    Raises IdentityError where a sink neither shows nor holds prepared what head calls committed, unless that is to be
    repaired, and where no record tells what that was. Changes nothing.
    """
    missing: list[CheckpointRecord] = []
    for number in range(min(behind.values()) + 1, head.committed + 1):
        record = yield from read_record(head, number)
        lacking = [name for name, count in behind.items() if count < number <= counted[name]]
        if not lacking:
            continue
        if record is None:
            kept = min((ref.checkpoint_id for ref in head.records), default=head.completed + 1)
            why = f"records are kept from checkpoint {kept} on"
            raise _gone(head, lacking[0], behind, f"checkpoint {number} cannot be looked up: {why}")
        if record.direct:
            why = f"checkpoint {number} was written at-least-once: no witness tells whether its rows are there"
            raise _gone(head, lacking[0], behind, why)
        missing.append(replace(record, committables={name: record.committables.get(name, ()) for name in lacking}))
    if not repairs:
        yield from _check_held(head, behind, missing)
    return tuple(missing)


def check_undecided(head: HeadValue, leftovers: Mapping[str, Sequence[Prepared]]) -> Steps[None]:
    """H27: ask the records about what is to be rolled back, by sink. Nothing is asked in nearly all cases.

    What a completed checkpoint was decided with was committed before: a sink that lists it as prepared went back in
    time since (SetBackError). Raises IdentityError where head keeps no record of the checkpoint, unless it was written
    at-least-once: every checkpoint is that after the newest record that says otherwise (transitions.Committed).
    """
    newest = newest_counted(head)
    records: dict[int, CheckpointRecord | None] = {}
    for sink, group in leftovers.items():
        for each in group:
            if each.transaction is None or each.transaction.scope.checkpoint_id > head.completed:
                continue
            number = each.transaction.scope.checkpoint_id
            if number not in records:  # of hundreds of tasks
                records[number] = yield from read_record(head, number)
            record = records[number]
            if record is None and number > newest:
                continue
            if record is None:
                message = (
                    f"sink {sink} holds {each.description} prepared, and head keeps no record of checkpoint {number}"
                )
                raise IdentityError(message, remedy=f"whether it was decided cannot be told: {_REMEDY}")
            if any(one.transaction == each.transaction for one in record.committables.get(sink, ())):
                raise SetBackError.of(sink, number - 1, number)


def _check_held(head: HeadValue, behind: Mapping[str, int], missing: Sequence[CheckpointRecord]) -> Steps[None]:
    asked: dict[str, tuple[Committable, ...]] = dict.fromkeys(behind, ())
    for record in missing:
        for name, group in record.committables.items():
            asked[name] += tuple(each for each in group if each.rows)
    inspected = yield from messages.Inspect(head.incarnation, asked)
    listed = yield from messages.ListPrepared(head.incarnation)
    for name in behind:
        held = {each.transaction for each in listed[name]}
        gone = [each for each in inspected.sinks[name].missing if each not in held]
        if gone:
            rows = sum(each.rows for each in asked[name] if each.transaction in gone)
            named = ", ".join(map(str, gone[:_MOST_NAMED])) + (" …" if len(gone) > _MOST_NAMED else "")
            why = f"it lacks {len(gone)} transactions with {rows} rows: {named}"
            raise _gone(head, name, behind, why, remedy=_REPAIR + _REMEDY)


def _gone(head: HeadValue, sink: str, behind: Mapping[str, int], why: str, remedy: str = _REMEDY) -> IdentityError:
    message = (
        f"sink {sink} went back in time: it counts checkpoints up to {behind[sink]}, head calls {head.committed} "
        f"committed; {why}"
    )
    return IdentityError(message, remedy=remedy)

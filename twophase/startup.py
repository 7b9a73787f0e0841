"""R1-R3: compare the three stores, claim head, commit what is decided, then abort what is not.

Pure; read top to bottom.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from eos.errors import (
    ConnectorError,
    FencedError,
    HeadFormatError,
    HeadUnknownError,
    IdentityError,
)
from twophase import messages
from twophase.commits import commit_and_count
from twophase.head_value import HeadValue
from twophase.messages import HeadSnapshot, Steps
from twophase.news import CommittedUpTo, SinkAway
from twophase.ownership import RESTORE_NEWEST, Ownership, check_owned, continues, fenced_error, head_set_back, load
from twophase.set_back import check_undecided, counted_by, find_missing, find_set_back, known_by, read_counting_records
from twophase.transitions import Claim, Committed
from twophase.values import CheckpointRecord, Committable
from twophase.verify import check_not_beyond, verify

_ROUNDS: Final = 100
"""A driver that lives and swaps head between our read and our claim makes us begin again, some rounds in a row."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The result of the comparison at a start, which found no contradiction (R2)."""

    newest: CheckpointRecord | None = None  # of the newest completed checkpoint
    found: Mapping[str, int] = field(default_factory=dict)  # by sink, its count now
    known: Mapping[str, int] = field(default_factory=dict)
    """By sink, its count when head was read (see set_back.known_by). At-least-once checkpoints are not counted."""
    counted: Mapping[str, int] = field(default_factory=dict)
    """By sink, the newest checkpoint that it counts once the decided checkpoints are committed."""
    missing: tuple[CheckpointRecord, ...] = ()
    """Checkpoints that head has as committed and that a sink lacks after a restore, with the part of that sink only.

    The sink holds them as prepared (H27), unless this is a repair, which rewrites lost rows (H31)."""
    away: Mapping[str, ConnectorError] = field(default_factory=dict)  # optional sinks that do not answer (H32)
    away_counted: Mapping[str, int] = field(default_factory=dict)  # the certain count of each of these sinks
    direct: frozenset[int] = frozenset()  # see transitions.Claim


def start(
    pipeline: str,
    sinks: Sequence[str],
    session: str,
    incarnation: str,
    retained: int,
    follows: HeadSnapshot | None = None,
    late: Collection[str] = (),
    known: Mapping[str, Collection[str]] | None = None,
) -> Steps[Ownership]:
    """Take over the pipeline. Afterwards no older epoch can decide or prepare, or has prepared transactions.

    Args:
        pipeline: name in the spec.
        sinks: names of the sinks of the spec.
        session: random, unique to this driver; `<run>.<number>` where a run starts one driver after another.
        incarnation: random; used only if this pipeline never ran here (head is born with it).
        retained: how many checkpoints keep their records.
        follows: head as the driver before this one of the same run held it last; None at the first start of a run.
        late: see verify.
        known: by sink, the incarnations in which it can be written to without being asked: its rows wait in a log. If
            the sink does not answer, the start goes on without it, and `joining` claims it later (H32).
    """
    owned, compared = yield from claim_head(pipeline, sinks, session, incarnation, follows, late, known=known or {})
    yield from recover(owned, retained, compared)
    return owned


def recover(owned: Ownership, retained: int, compared: Compared) -> Steps[None]:
    """Commit decided checkpoints, then abort all other transactions of older epochs (R3)."""
    for record in compared.missing:  # head calls it committed, and the sink went back in time (H27)
        yield from commit_and_count(owned, record)
    yield from _commit_decided(owned)
    head, newest = owned.head, compared.newest
    claim = messages.Claim(head.incarnation, head.epoch, begins=head.completed, counted=compared.counted)
    yield from replace(claim, sinks=owned.present)
    owned.note_counted(compared.counted)
    yield from abort_leftovers(head, owned.present)
    yield from check_nothing_beyond(owned, owned.present)
    if head.committed < head.completed and not owned.away:  # said last, as in R9: nothing of it is open
        yield from owned.swap(Committed(head.completed, retained), "committed")
    if newest is not None and (uncounted := _uncounted(head, newest)):
        yield from messages.FastForward(head.incarnation, head.epoch, newest.checkpoint_id, uncounted, compared.counted)
        owned.note_counted({name: newest.checkpoint_id for name in uncounted if name in compared.found})
    yield from messages.Sweep(owned.head)
    for name, error in compared.away.items():
        yield from messages.Emit(SinkAway(name, tuple(each.checkpoint_id for each in owned.waiting), error))
    yield from messages.Emit(CommittedUpTo(owned.head.incarnation, owned.head.committed))


def _uncounted(head: HeadValue, newest: CheckpointRecord) -> tuple[str, ...]:
    """Return the sinks that have not counted the newest checkpoint and lack no row of it.

    Its tasks have committed themselves (at-least-once), or the pipeline ran without the sink, which has rejoined.
    """
    return tuple(sink for sink in head.sinks if newest.direct or sink not in newest.committables)


def claim_head(
    pipeline: str,
    sinks: Sequence[str],
    session: str,
    incarnation: str,
    follows: HeadSnapshot | None = None,
    late: Collection[str] = (),
    *,
    rescales: bool = False,
    repairs: bool = False,
    known: Mapping[str, Collection[str]] | None = None,
) -> Steps[tuple[Ownership, Compared]]:
    """Compare the stores and claim head (R1, R2). Return the claimed head and the result of the comparison.

    If two drivers start at the same time, the refused one retries and finds the other's epoch. A restart does not
    retry: it continues only if no other run has claimed. Otherwise two runs would fence each other forever.
    """
    claims = 0  # a nonce is used once: an earlier claim that landed late must not pass for this one
    for _ in range(_ROUNDS):
        seen = yield from messages.ReadHead()
        head = seen.head if seen is not None else None
        if follows is not None and seen is not None:
            _check_follows(follows, seen, session)
        try:
            kind = {"rescales": rescales, "repairs": repairs}
            compared = yield from _compare(pipeline, sinks, head, incarnation, late, known or {}, **kind)
        except (IdentityError, HeadFormatError):
            again = yield from messages.ReadHead()
            if again == seen:
                raise
            continue  # a driver that still lives moved head while we looked: the comparison was of two moments
        basis = seen or HeadSnapshot(0, _newborn(pipeline, incarnation))
        owned = Ownership(session, basis.version, basis.head, claims, content=basis.content)
        value = yield from owned.stamp(Claim(tuple(sinks), compared.direct).apply(owned.head))
        claims = owned.swaps
        if not (yield from messages.Swap(owned.expected(), value, "claim")):
            landed = yield from messages.ReadHead()
            if landed is None or value.nonces[-1] not in landed.head.nonces:
                continue
        owned.take(HeadSnapshot(owned.version + 1, value))
        owned.note_counted(compared.known)
        owned.away, owned.absent = compared.away_counted, frozenset(compared.away_counted)
        return owned, compared
    message = f"head of pipeline {pipeline} did not take or answer a claim in {_ROUNDS} rounds"
    raise HeadUnknownError(message, remedy="see that its store answers, and that no other driver of it is running")


def _check_follows(mine: HeadSnapshot, seen: HeadSnapshot, session: str) -> None:
    """Raise FencedError for a newer epoch, unless a start of this run has claimed it, which failed later on.

    Raises IdentityError for a head without what this run has written (H29).
    """
    run = f"{session.rpartition('.')[0]}."
    if seen.head.epoch > mine.head.epoch:
        if not any(nonce.startswith(run) for nonce in seen.head.nonces[-1:]):
            raise fenced_error(mine.head, seen.head)
    elif seen.head.epoch < mine.head.epoch or not continues(mine, seen, run):
        raise head_set_back(mine.head, seen)


def _compare(
    pipeline: str,
    sinks: Sequence[str],
    head: HeadValue | None,
    newborn: str,
    late: Collection[str],
    known: Mapping[str, Collection[str]],
    *,
    rescales: bool,
    repairs: bool,
) -> Steps[Compared]:
    records = (yield from read_counting_records(head, sinks)) if head else ()
    newest = records[0] if head and records and records[0].checkpoint_id == head.completed else None
    expected = {sink: _newest_rows(records, head, sink) if head else () for sink in sinks}
    absent = frozenset(name for name in sinks if _may_be_away(head, newest, name, known))
    inspected = yield from messages.Inspect(head.incarnation if head else newborn, expected, absent)
    away = inspected.away
    verify(pipeline, head, newest, inspected.spark, inspected.sinks, late, rescales=rescales, away=away.keys())
    if head is None:
        return Compared()
    counted = counted_by(records, sinks, head.committed)
    behind = find_set_back(counted, inspected.sinks)
    missing = (yield from find_missing(head, counted, behind, repairs=repairs)) if behind else ()
    found = {name: sink.counted for name, sink in inspected.sinks.items() if sink.counted is not None}
    will_count = counted_by(records, [name for name in sinks if name not in away], head.completed)
    known_then = known_by(records, sinks, head.committed)
    away_counted = {name: counted.get(name, -1) for name in away}
    return Compared(newest, found, known_then, will_count, missing, away, away_counted, _find_direct_ids(records))


def _find_direct_ids(records: Sequence[CheckpointRecord]) -> frozenset[int]:
    """Return which of these checkpoints are at-least-once, for a head that does not say so (transitions.Claim).

    None where all are: an earlier version may have let go of an exactly-once record. What a sink holds prepared of that
    must not pass for undecided (set_back.check_undecided).
    """
    direct = frozenset(each.checkpoint_id for each in records if each.direct)
    return direct if len(direct) < len(records) else frozenset()


def _may_be_away(
    head: HeadValue | None, newest: CheckpointRecord | None, sink: str, known: Mapping[str, Collection[str]]
) -> bool:
    """Whether a start may go on without this sink (H32).

    The sink was claimed by this incarnation, and has to catch up with nothing that was written without its log.
    """
    if head is None or head.incarnation not in known.get(sink, ()) or sink not in head.sinks:
        return False
    return head.completed < 0 or (newest is not None and sink in newest.committables and not newest.direct)


def check_nothing_beyond(owned: Ownership, sinks: tuple[str, ...] | None) -> Steps[None]:
    """Compare the sinks with head a second time, now that nothing older can become visible any more (H29).

    Where head was set back, a driver that lives may have committed a decision that head lacks, after the first look.
    Raises FencedError where the rows are a successor's.
    """
    inspected = yield from messages.Inspect(owned.head.incarnation, {}, sinks=sinks)
    for name, sink in inspected.sinks.items():
        try:
            check_not_beyond(owned.head, name, sink)
        except IdentityError:
            yield from check_owned(owned)
            raise


def _newborn(pipeline: str, incarnation: str) -> HeadValue:
    return HeadValue(pipeline=pipeline, incarnation=incarnation, epoch=0, nonces=())


def _newest_rows(records: Sequence[CheckpointRecord], head: HeadValue, sink: str) -> tuple[Committable, ...]:
    """What the sink must show of the newest committed checkpoint in which it had rows: for a sink without a count.

    Nothing after a checkpoint that was written at-least-once: its rows have no witness.
    """
    for record in (each for each in records if each.checkpoint_id <= head.committed):
        with_rows = tuple(each for each in record.committables.get(sink, ()) if each.rows)
        if record.direct or with_rows:
            return () if record.direct else with_rows
    return ()


def _commit_decided(owned: Ownership) -> Steps[None]:
    """R3, first half: what is completed becomes visible, in order, before anything is aborted.

    At-least-once the tasks have committed: such a checkpoint is among these only where a repair has died (H34).
    In a sink that is away it waits for `joining`.
    """
    for ref in owned.head.records:
        if ref.checkpoint_id > owned.head.committed:
            record = yield from load(owned, ref)
            if record.direct:
                continue
            present = {name: group for name, group in record.committables.items() if name not in owned.away}
            yield from commit_and_count(owned, replace(record, committables=present))
            if owned.away:
                owned.waiting = (*owned.waiting, record)


def abort_leftovers(head: HeadValue, sinks: tuple[str, ...] | None, *, runs: bool = False) -> Steps[None]:
    """R3, second half. The claim has seen to it that nobody older prepares any more, so that one listing is enough.

    `sinks`: only these; None: every sink. `runs`: this driver itself may have prepared something already.
    """
    listed = yield from messages.ListPrepared(head.incarnation, sinks=sinks)
    epochs = [(p.transaction.scope.epoch, p) for group in listed.values() for p in group if p.transaction]
    newer = [p for epoch, p in epochs if epoch > head.epoch]
    twins = [p for epoch, p in epochs if epoch == head.epoch and not runs]
    if twins:  # this driver has prepared nothing yet (H29)
        message = (
            f"head of pipeline {head.pipeline} was set back: a sink holds {twins[0].description}, which another driver "
            f"has prepared in epoch {head.epoch}, which is this driver's epoch"
        )
        raise IdentityError(message, remedy=RESTORE_NEWEST)
    if newer:
        message = (
            f"fenced: a sink holds transactions of epoch {newer[0].description}, this driver is epoch {head.epoch}"
        )
        raise FencedError(message, remedy="another driver of this pipeline has started since; stop one of them")
    leftovers = {
        sink: tuple(p for p in group if p.transaction and p.transaction.scope.epoch < head.epoch)
        for sink, group in listed.items()
    }
    yield from check_undecided(head, leftovers)
    if any(leftovers.values()):
        yield from messages.AbortPrepared(leftovers)

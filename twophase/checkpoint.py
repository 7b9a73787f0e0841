"""R4-R9, the life of one checkpoint, in the order of R10. Pure; read top to bottom.

initial positions stored -> Spark plans offsets -> permits -> tasks prepare -> head swap -> commit -> close -> Spark
marks the batch done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from eos.errors import ConnectorError, IdentityError, ReplayMismatchError, SetBackError
from twophase import messages
from twophase.acknowledged import mistake
from twophase.codec import encode_record, sha256_of
from twophase.commits import commit_and_count
from twophase.head_value import HeadValue, RecordRef
from twophase.ids import Scope
from twophase.messages import Acknowledged, BatchStart, Failed, Steps
from twophase.news import Aborted, CommittedUpTo, Decided
from twophase.ownership import Ownership, load
from twophase.participants import Prepared
from twophase.positions import Position, Positions, is_before
from twophase.schemas import other_schema, pinned
from twophase.transitions import Abort, Committed, Complete, CompleteDirect
from twophase.values import CheckpointRecord, OffsetRange, StartingPoint
from twophase.verify import check_digest_method


def run_checkpoint(
    owned: Ownership, begin: BatchStart, sinks: Sequence[str], retained: int, *, direct: bool = False
) -> Steps[CheckpointRecord]:
    """Bring one of Spark's batches to its end: completed and committed, or aborted with the error that caused it.

    Called once for each call of `foreachBatch`. Returning means that Spark may write `commits/N`; raising means that it
    must not (R8: N is never skipped). `direct`: at-least-once, see `_note`.
    """
    is_new = begin.checkpoint_id > owned.head.completed
    if direct and is_new:
        return (yield from _note(owned, begin, sinks, retained))
    record = yield from decide(owned, begin, sinks)
    if is_new or owned.head.committed < record.checkpoint_id:
        yield from _finish(owned, record, retained, own=is_new)
    return record


def decide(owned: Ownership, begin: BatchStart, sinks: Sequence[str]) -> Steps[CheckpointRecord]:
    """The first half: completed, or aborted. Whoever calls this alone commits it as well (`backlog`)."""
    scope = _scope(owned.head, begin.checkpoint_id)
    if scope is None:
        return (yield from _replay(owned, begin))
    ranges = _ranges(owned.head, begin)
    if not begin.permitted:
        yield from messages.Permit(scope, owned.counted, owned.absent)
    answer = yield from messages.RunWriters(scope)
    while isinstance(answer, Failed) and answer.again:
        yield from _abort(owned, scope, answer.error)
        scope = replace(scope, attempt=owned.head.next_attempt(scope.checkpoint_id))
        yield from messages.Permit(scope, owned.counted, owned.absent)
        answer = yield from messages.RunWriters(scope)
    error = answer.error if isinstance(answer, Failed) else _mistake(owned, scope, sinks, answer)
    if error is not None:
        yield from _abort(owned, scope, error)
        raise error
    assert isinstance(answer, Acknowledged)

    yield from messages.AwaitState(scope.checkpoint_id - 1)  # a replay of this batch begins with it
    record = _record(scope, begin, ranges, answer)
    put = put_record_of(record)
    yield from put
    yield from owned.swap(Complete(record, put.ref, begin.began), "decide")
    # From here on there is no way back: whatever happens, this checkpoint becomes visible (R6).
    yield from messages.Emit(Decided(record))
    return record


def _note(owned: Ownership, begin: BatchStart, sinks: Sequence[str], retained: int) -> Steps[CheckpointRecord]:
    """At-least-once: tasks commit their rows themselves, and one swap says that all have.

    Whatever ends this before the swap, Spark runs the batch again, and rows that were committed come twice. None is
    missing: every task has acknowledged before head says so. There is nothing to abort, for nothing is prepared and no
    decision is on its way. So a further try needs no swap before it: what the tasks of the last one have committed, or
    still commit, comes twice.
    """
    scope, ranges = _scope(owned.head, begin.checkpoint_id), _ranges(owned.head, begin)
    assert scope is not None  # it is new
    answer = yield from messages.RunWriters(scope, direct=True)
    while isinstance(answer, Failed) and answer.again:
        answer = yield from messages.RunWriters(scope, direct=True)
    if isinstance(answer, Failed):
        raise answer.error
    if error := _mistake(owned, scope, sinks, answer):
        raise error
    yield from messages.AwaitState(scope.checkpoint_id - 1)
    record = _record(scope, begin, ranges, answer, direct=True)
    put, before = put_record_of(record), owned.head.records
    yield from put
    yield from owned.swap(CompleteDirect(Complete(record, put.ref, begin.began), retained), "note")
    yield from messages.Emit(Decided(record))
    yield from tell(owned, record, before)
    return record


def _mistake(owned: Ownership, scope: Scope, sinks: Sequence[str], done: Acknowledged) -> ConnectorError | None:
    wrong = mistake(scope, sinks, done.committables)
    return wrong or other_schema(scope.checkpoint_id, owned.head.schemas, done.schemas)


def _record(
    scope: Scope,
    begin: BatchStart,
    ranges: Mapping[str, tuple[OffsetRange, ...]],
    done: Acknowledged,
    *,
    direct: bool = False,
) -> CheckpointRecord:
    method = done.digest_method
    return CheckpointRecord(
        scope,
        ranges,
        begin.offsets_log,
        done.committables,
        begin.at,
        done.at,
        direct,
        digest_method=method,
        schemas=pinned(done.schemas),
        left_out=begin.left_out,
        source_lists=begin.source_lists,
    )


def permit(owned: Ownership, checkpoint_id: int) -> Steps[Scope | None]:
    """The first step alone, where the job and the decision are run by others (`BatchStart.permitted`).

    Returns the scope that its tasks may prepare in; None: it is decided already, and they must prepare nothing.
    """
    scope = _scope(owned.head, checkpoint_id)
    if scope is not None:
        yield from messages.Permit(scope, owned.counted)
    return scope


def _scope(head: HeadValue, number: int) -> Scope | None:
    if number <= head.completed:
        return None
    if number != head.completed + 1:
        message = f"Spark runs batch {number}, but the newest completed checkpoint is {head.completed}"
        remedy = "restore the checkpoint location if something changed it; a job must write every batch, empty or not"
        raise IdentityError(message, remedy=remedy)
    return Scope(head.incarnation, head.epoch, number, head.next_attempt(number))


def _finish(owned: Ownership, record: CheckpointRecord, retained: int, *, own: bool) -> Steps[None]:
    """R7 and R9: commit, close, and only then say so."""
    yield from show(owned, record, own=own)
    yield from say(owned, record, retained)


def show(owned: Ownership, record: CheckpointRecord, *, own: bool = True) -> Steps[None]:
    """R7 and R9, in the sinks whose committables the record has: commit, count and close.

    `own`: this epoch has decided the checkpoint (see messages.Commit).
    """
    yield from commit_and_count(owned, record, own=own)
    yield from close(owned.head, record.scope, record, counted=True, sinks=tuple(record.committables))


def say(owned: Ownership, record: CheckpointRecord, retained: int) -> Steps[None]:
    """R9: every sink has committed up to this checkpoint. What is not retained any more is pruned."""
    before = owned.head.records
    yield from owned.swap(Committed(record.checkpoint_id, retained), "committed")
    yield from tell(owned, record, before)


def tell(owned: Ownership, record: CheckpointRecord, before: Sequence[RecordRef]) -> Steps[None]:
    """R9, once head calls it committed: the sources are told, and of the records of `before` old ones are pruned."""
    yield from messages.Emit(CommittedUpTo(owned.head.incarnation, record.checkpoint_id))
    yield from messages.CommitBack(_positions_after(owned.head, record))
    kept = frozenset(owned.head.records)
    dropped = tuple(ref for ref in before if ref not in kept)
    if dropped:
        yield from messages.Prune(owned.head.incarnation, dropped, below=owned.head.records[0].checkpoint_id)


def forget(owned: Ownership, below: int) -> Steps[None]:
    """R9, in a sink that was not asked by `say`: witnesses of checkpoints that head let go of are dropped."""
    yield from messages.Prune(owned.head.incarnation, (), below)


def _positions_after(head: HeadValue, record: CheckpointRecord) -> Mapping[str, Positions]:
    """Head has those after its newest checkpoint; of an older one, those of the splits that it moved."""
    if head.completed == record.checkpoint_id:
        return head.positions
    return {source: {each.split: each.end for each in ranges} for source, ranges in record.ranges.items()}


def _replay(owned: Ownership, begin: BatchStart) -> Steps[CheckpointRecord]:
    """R4: the decision exists. Nothing is prepared; what Spark re-runs must be what was decided."""
    number = begin.checkpoint_id
    ref = owned.head.record_of(number)
    if number != owned.head.completed or ref is None:
        message = f"Spark re-runs batch {number}, but checkpoint {owned.head.completed} is completed"
        raise IdentityError(message, remedy="Spark's checkpoint was set back; restore it")
    record = yield from load(owned, ref)
    if record.offsets_log != begin.offsets_log:
        message = f"Spark re-runs batch {number} with other offsets than checkpoint {number} was decided with"
        raise ReplayMismatchError(message, remedy="Spark's offsets log was changed; restore it from a backup")
    check_digest_method(record)
    found = yield from messages.Discard(number, record.digest_methods)
    if found is not None:
        _check_same(record, found)
    return record


def _check_same(record: CheckpointRecord, found: Sequence[Mapping[str, tuple[int, int]]]) -> None:
    """Compare the sinks that the spec still names; nothing is written any more to the others.

    `found`: by each method that may have given the record's digests; one of them has to fit.
    """
    then = {sink: each for sink, each in record.digest.items() if sink in found[0]}
    if all(then != {sink: each for sink, each in now.items() if sink in then} for now in found):
        message = (
            f"Spark re-runs batch {record.checkpoint_id} and gets other rows than it was decided with: "
            f"now {dict(found[-1])}, then {then} (rows, digest). State would no longer match what was written"
        )
        remedy = (
            "were steps or tables changed since, change them back for one run; what is not deterministic (rand(), the "
            "current time, a step of your own that gives other rows each time) has to go, and then `eos reset`"
        )
        raise ReplayMismatchError(message, remedy=remedy)


def _abort(owned: Ownership, scope: Scope, error: ConnectorError) -> Steps[None]:
    """R8: first a swap that defeats any decision still on the wire, and only then rollbacks."""
    yield from owned.swap(Abort(scope.checkpoint_id, scope.attempt), "abort")
    yield from close(owned.head, scope, sinks=owned.present)
    yield from messages.Emit(Aborted(scope, error))


def close(
    head: HeadValue,
    scope: Scope,
    decided: CheckpointRecord | None = None,
    *,
    counted: bool = False,
    sinks: tuple[str, ...] | None = None,
) -> Steps[None]:
    """R9: end every open or prepared transaction of this epoch and checkpoint that was not committed.

    The permits go first: when they are deleted nobody prepares any more, so that the listing after it is complete.
    `decided`: what was committed before. A sink that lists it as prepared went back in time meanwhile (H27):
    SetBackError, and the next start commits it. `sinks`: only these; None: every sink.
    """
    yield from messages.Revoke(scope, counted, sinks)
    listed = yield from messages.ListPrepared(head.incarnation, scope.checkpoint_id, sinks)
    rest = {sink: tuple(p for p in group if _belongs(p, scope)) for sink, group in listed.items()}
    for sink, group in decided.committables.items() if decided is not None else ():
        if {each.transaction for each in group} & {each.transaction for each in rest.get(sink, ())}:
            raise SetBackError.of(sink, scope.checkpoint_id - 1, scope.checkpoint_id)
    if any(rest.values()):
        yield from messages.AbortPrepared(rest)


def _belongs(prepared: Prepared, scope: Scope) -> bool:
    if prepared.transaction is None:
        return False
    other = prepared.transaction.scope
    same = (other.epoch, other.checkpoint_id) == (scope.epoch, scope.checkpoint_id)
    return same and other.attempt <= scope.attempt  # a later try is of a driver that was not set back (H33)


def _ranges(head: HeadValue, begin: BatchStart) -> dict[str, tuple[OffsetRange, ...]]:
    """What this checkpoint covers: from where the one before it ended to where Spark planned; empty ranges left out."""
    covered: dict[str, tuple[OffsetRange, ...]] = {}
    for source, ends in begin.ends.items():
        starts = {**begin.began.get(source, StartingPoint()).positions, **head.positions.get(source, {})}
        ranges = (_range(source, split, starts.get(split), end) for split, end in sorted(ends.items()))
        covered[source] = tuple(each for each in ranges if not each.is_empty)
    return covered


def _range(source: str, split: str, start: Position | None, end: Position) -> OffsetRange:
    if start is None:
        message = f"source {source}: Spark planned split {split}, and no starting point was stored for it"
        raise IdentityError(message, remedy="Spark's checkpoint was changed by something else; restore it")
    if is_before(end, start):
        message = f"source {source}, split {split}: Spark planned up to {end}, but {start} is already completed"
        raise IdentityError(message, remedy="Spark's checkpoint was changed by something else; restore it")
    return OffsetRange(split, start, end)


def put_record_of(record: CheckpointRecord) -> messages.PutRecord:
    """How it is stored, and how head points at it: by a name that nobody else can write another content under (H8)."""
    content = encode_record(record)
    sha256 = sha256_of(content)
    name = f"{record.scope}-{sha256[:16]}.json"
    return messages.PutRecord(RecordRef(record.checkpoint_id, name, sha256, direct=record.direct), content)

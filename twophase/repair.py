"""R7: rewrite the lost rows of a completed checkpoint, and commit them. Pure; read top to bottom.

The lost transactions' rows are prepared again by new ones, of this epoch, as in R5: until head names them nobody can
commit them, and whoever comes next rolls them back. Then one swap (`transitions.Repair`) puts them into the decision,
in the place of the lost ones, as in R6. From there on everything is as after any other decision. What is lost can so
become visible once at the most: a slot moves once, and a prepared transaction holds the witness of the lost one, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from eos.errors import ConnectorError, LostCommittableError, ReplayMismatchError
from twophase import messages
from twophase.acknowledged import mistake
from twophase.checkpoint import close, put_record_of
from twophase.commits import commit_and_count, commit_and_count_what_can_be, commit_what_can_be, count
from twophase.head_value import HeadValue, RecordRef
from twophase.ids import Scope
from twophase.messages import Failed, Steps
from twophase.ownership import Ownership, load
from twophase.schemas import other_schema
from twophase.startup import claim_head, recover
from twophase.transitions import NotCommitted, Repair
from twophase.values import INSTEAD_OF, CheckpointRecord, Committable, origin
from twophase.verify import check_digest_method

_NOTHING: Final[Mapping[str, int]] = {}


@dataclass(frozen=True, slots=True)
class Loss:
    """The committables of a completed checkpoint that are lost: their rows need a rewrite."""

    record: CheckpointRecord
    lost: Mapping[str, tuple[Committable, ...]]  # by sink; no tuple is empty

    @property
    def each(self) -> list[tuple[str, Committable]]:
        """Pairs of a sink and a lost committable."""
        return [(sink, each) for sink, group in self.lost.items() for each in group]

    @property
    def rows(self) -> int:
        """The number of lost rows, over all sinks."""
        return sum(each.rows for _, each in self.each)


@dataclass(frozen=True, slots=True)
class Repaired:
    """The result of a repair."""

    head: HeadValue
    losses: tuple[Loss, ...]  # of each checkpoint with losses; empty: all decided rows are committed


def repair(
    pipeline: str, sinks: Sequence[str], preparing: Sequence[str], session: str, incarnation: str, retained: int
) -> Steps[Repaired]:
    """Take over the pipeline as a start does, and rewrite the rows that a start would report as lost.

    If it is killed at any point, run it once more; or start the pipeline, if no row is lost any more.

    `preparing`: those of the sinks that hold transactions under permits, which a claim ends; the others have logs.

    Raises what a start raises; ReplayMismatchError where the rows are not those of the decision; what the job raised.
    """
    owned, compared = yield from claim_head(pipeline, sinks, session, incarnation, repairs=True)
    if compared.missing:  # in sinks that went back in time
        yield from owned.swap(NotCommitted(compared.missing[0].checkpoint_id - 1), "not committed")
    losses: list[Loss] = []
    waiting = [ref for ref in owned.head.records if ref.checkpoint_id > owned.head.committed]
    if waiting:
        counts = dict(compared.found)
        for ref in waiting:
            yield from _commit_prepared(owned, ref, preparing, counts)
        # Nothing decided is prepared any more but in logs, which a claim leaves alone; nobody older writes after it.
        yield from messages.Claim(owned.head.incarnation, owned.head.epoch, begins=owned.head.committed, counted=counts)
        for ref in waiting:
            losses += yield from _bring_to_its_end(owned, ref)
    yield from recover(owned, retained, replace(compared, missing=()))
    return Repaired(owned.head, tuple(losses))


def _commit_prepared(owned: Ownership, ref: RecordRef, preparing: Sequence[str], counts: dict[str, int]) -> Steps[None]:
    """R3: what is decided and prepared, also for later checkpoints, becomes visible before a claim could end it.

    Of several checkpoints a later one may so be seen before what an earlier one has lost. Raises for a sink that holds
    what is decided and cannot take it.
    """
    record = yield from load(owned, ref)
    if record.direct:
        return
    prepared = {sink: group for sink, group in record.committables.items() if sink in preparing}
    if prepared:
        yield from commit_and_count_what_can_be(owned, ref.checkpoint_id, prepared, counts)


def _bring_to_its_end(owned: Ownership, ref: RecordRef) -> Steps[list[Loss]]:
    """Everything of a checkpoint, after all before it. The sinks are claimed.

    Nothing of one whose tasks committed by themselves: no witness tells what of it is there (H34).
    """
    record = yield from load(owned, ref)
    if record.direct:
        return []
    number, refusals = record.checkpoint_id, dict[str, ConnectorError]()
    suspected = yield from commit_what_can_be(owned, number, record.committables, refusals)
    for error in refusals.values():
        if not isinstance(error, LostCommittableError):  # its sink still holds what is decided, and cannot take it now
            raise error
    if not suspected:
        yield from count(owned, number, record.committables)
        return []
    lost = yield from _ask(number, {sink: record.committables[sink] for sink in suspected})
    if not lost:
        yield from commit_and_count(owned, record)  # says what it is, or has come back
        return []
    loss = Loss(record, lost)
    yield from _write_again(owned, ref, loss)
    return [loss]


def _ask(number: int, committables: Mapping[str, tuple[Committable, ...]]) -> Steps[dict[str, tuple[Committable, ...]]]:
    found = yield from messages.FindMissing(number, committables)
    return {sink: tuple(group) for sink, group in found.items() if group}


def _write_again(owned: Ownership, ref: RecordRef, loss: Loss) -> Steps[None]:
    """As R5, R6, R7 and R9 for any checkpoint."""
    check_digest_method(loss.record)
    number = loss.record.checkpoint_id
    scope = Scope(owned.head.incarnation, owned.head.epoch, number)
    yield from messages.PermitRewrite(scope, tuple(loss.lost))
    answer = yield from messages.RewriteMissing(scope, loss.record, loss.lost)
    if isinstance(answer, Failed):
        made: CheckpointRecord | ConnectorError = answer.error
    else:
        wrong = other_schema(scope.checkpoint_id, owned.head.schemas, answer.schemas)
        made = wrong or rebuild_record(scope, loss, answer.committables, answer.counted)
    if isinstance(made, CheckpointRecord):
        again = yield from _ask(number, {sink: made.committables[sink] for sink in loss.lost})
        if again:
            made = LostCommittableError(f"what was just written again for checkpoint {number} is gone: {again}")
    if isinstance(made, ConnectorError):
        yield from close(owned.head, scope)  # no decision of it was ever sent
        raise made
    put = put_record_of(made)
    yield from put
    yield from owned.swap(Repair(made, put.ref, ref), "repair")
    yield from commit_and_count(owned, made)
    yield from close(owned.head, scope, made, counted=True)


def rebuild_record(
    scope: Scope,
    loss: Loss,
    acknowledged: Mapping[str, tuple[Committable, ...]],
    counted: Mapping[str, int] = _NOTHING,
) -> CheckpointRecord | ConnectorError:
    """The same decision with what was written again in the place of what is lost; or why there is none.

    All tasks must have had the rows that they were decided with, by their number and, where there is state, by their
    digest, computed by the record's method: else the rows of a lost one are not those of now. Of a lost one's rows its
    sink must refuse as many again; where the dead letters of then are there (`counted`), the very rows.
    """
    record = loss.record
    error = mistake(scope, [sink for sink in record.committables if sink not in counted], acknowledged)
    if error is not None:
        return _not_the_same(record, error.message)
    committables: dict[str, tuple[Committable, ...]] = {}
    for sink, group in sorted(record.committables.items(), key=lambda entry: entry[0] in counted):
        if sink in counted:  # the last: a sink that refuses other rows is named, rather than their number
            number, wanted = counted[sink], sum(each.rows for each in group)
            if sink in loss.lost or number != wanted:
                return _not_the_same(record, f"sink {sink} would have {number} rows, and had {wanted} then")
            committables[sink] = group
            continue
        again = {each.transaction.task: each for each in acknowledged[sink]}
        now, then = _rows(again.values()), _rows(group)
        if differs := [task for task in sorted(now.keys() | then.keys()) if now.get(task) != then.get(task)]:
            told = [f"{_told(now.get(each))} in task {each}, then {_told(then.get(each))}" for each in differs[:3]]
            why = f"sink {sink} has other rows in {len(differs)} of {len(then)} tasks (now {', '.join(told)})"
            return _not_the_same(record, why)
        for each in loss.lost.get(sink, ()):
            if why := _refused_otherwise(sink, each, again[each.transaction.task], exact=bool(counted)):
                return _not_the_same(record, why, _TABLE_BACK)
        lost = {each.transaction for each in loss.lost.get(sink, ())}
        committables[sink] = tuple(
            _in_place(each, again[each.transaction.task]) if each.transaction in lost else each for each in group
        )
    return replace(record, scope=scope, committables=committables)


def _rows(group: Iterable[Committable]) -> dict[int, tuple[int, int]]:
    """Return by task the number and digest of the rows that it received, refused or not."""
    return {each.transaction.task: (each.rows + each.refused, each.digest) for each in group}


def _refused_otherwise(sink: str, then: Committable, now: Committable, *, exact: bool) -> str:
    """How the rows that a sink refuses of a lost transaction differ from those that it refused; empty if they do not.

    `exact`: their dead letters are there, so that another row in the place of one would be lost, and one be doubled.
    """
    task = then.transaction.task
    if now.refused != then.refused:
        return f"sink {sink} refuses {now.refused} rows in task {task}, and refused {then.refused} then"
    if exact and now.refused_digest != then.refused_digest:
        return f"sink {sink} refuses {now.refused} rows in task {task} that are not known to be those of then"
    return ""


_TABLE_BACK = "Change the table back for the repair: its constraints, and the rows by which it refuses others. "


def _told(rows: tuple[int, int] | None) -> str:
    number, digest = rows or ("no", 0)
    return f"{number} with the digest {digest:x}" if digest else str(number)


def _in_place(lost: Committable, again: Committable) -> Committable:
    return replace(again, data={**again.data, INSTEAD_OF: str(origin(lost))})


def _not_the_same(record: CheckpointRecord, why: str, remedy: str = "") -> ReplayMismatchError:
    message = f"reading checkpoint {record.checkpoint_id} again does not give the rows that were decided: {why}"
    unnamed = len(record.digest_methods) > 1  # a repair computes one method; the record may be of the other
    return ReplayMismatchError(
        message,
        remedy="nothing was written. "
        + remedy
        + ("Repair it with the version of eos that decided it: its record names no digest method. " if unnamed else "")
        + "Were steps, sinks, `spark.master` or its settings changed since, change them back "
        "for the repair. What is not deterministic, or was compacted away in the source since, cannot be written "
        "again: `eos reset --abandon-lost` goes on without",
    )

"""Every way in which head may change, as plain values: `apply` gives the next head or says why it must not be.

A transition is kept while its swap is under way. If another swap of the same epoch came first, it is applied again to
the newer head (merge and retry); if another epoch came first, it is dropped (fenced).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from eos.errors import IdentityError, PermitRevokedError
from twophase.head_value import HeadValue, RecordRef
from twophase.positions import is_before
from twophase.values import CheckpointRecord, OffsetRange, Schemas, StartingPoint


class Transition(Protocol):
    """One change of head. Pure."""

    def apply(self, head: HeadValue) -> HeadValue:
        """The head after this change; the caller sets the nonce. Raises IdentityError where a rule forbids it."""


@dataclass(frozen=True, slots=True)
class Claim:
    """R1: the next epoch begins. What older epochs of the same checkpoint aborted does not matter to new ids."""

    sinks: tuple[str, ...] | None = None  # of this driver; None: it writes to none, so that those known stay
    direct: frozenset[int] = frozenset()
    """Checkpoints whose records were read and are at-least-once: a head of an earlier version does not say so, and
    would let go of the newest record that sinks have counted (H34)."""

    def apply(self, head: HeadValue) -> HeadValue:
        sinks = head.sinks if self.sinks is None else self.sinks
        records = tuple(replace(each, direct=each.direct or each.checkpoint_id in self.direct) for each in head.records)
        next_epoch = replace(head, epoch=head.epoch + 1, sinks=sinks, records=records)
        return replace(next_epoch, aborted_checkpoint=-1, aborted_attempt=0)


@dataclass(frozen=True, slots=True)
class SetPositions:
    """R6, R10: initial positions and topic ids are stored once, before Spark first hears of the split."""

    source: str
    starting_point: StartingPoint

    def apply(self, head: HeadValue) -> HeadValue:
        """See Transition. What is already stored stays as it is."""
        known = head.initial.get(self.source, {})
        added = {split: first for split, first in self.starting_point.positions.items() if split not in known}
        identities = {**self.starting_point.identities, **head.identities.get(self.source, {})}
        return replace(
            head,
            initial={**head.initial, self.source: {**known, **added}},
            identities={**head.identities, self.source: identities},
            positions={**head.positions, self.source: {**added, **head.positions.get(self.source, {})}},
        )


@dataclass(frozen=True, slots=True)
class SetQuery:
    """R2: the query id of this incarnation, once."""

    query_id: str

    def apply(self, head: HeadValue) -> HeadValue:
        if head.query_id not in (None, self.query_id):
            message = f"head belongs to Spark query {head.query_id}, this is {self.query_id}"
            raise IdentityError(message, remedy="`eos reset` restarts the pipeline on purpose")
        return replace(head, query_id=self.query_id)


@dataclass(frozen=True, slots=True)
class Complete:
    """R6: the decision. The only transition that moves positions."""

    record: CheckpointRecord
    ref: RecordRef
    began: Mapping[str, StartingPoint] = field(default_factory=dict)  # what was discovered for this checkpoint

    def apply(self, head: HeadValue) -> HeadValue:
        """See Transition. Checkpoints follow one another, and each split goes on where it ended.

        Where it stands, it has landed: unanswered, and so many swaps ago that its nonce is forgotten.
        """
        if self.ref in head.records[-1:]:
            return head
        for source, starting_point in self.began.items():
            head = SetPositions(source, starting_point).apply(head)
        number = self.record.checkpoint_id
        _check_not_aborted(head, self.record)
        if number != head.completed + 1:
            message = f"checkpoint {number} cannot follow {head.completed}"
            raise IdentityError(message, remedy="the checkpoint location was changed by something else; restore it")
        positions = {source: dict(splits) for source, splits in head.positions.items()}
        for source, ranges in self.record.ranges.items():
            for each in ranges:
                _check_continues(head, source, each)
                positions.setdefault(source, {})[each.split] = each.end
        return replace(
            head,
            completed=number,
            positions=positions,
            schemas=joined(head.schemas, self.record.schemas),
            records=(*head.records, self.ref),
            aborted_checkpoint=-1,
            aborted_attempt=0,
        )


@dataclass(frozen=True, slots=True)
class Repair:
    """R7: what was lost of a completed checkpoint is prepared again, and the decision names that instead.

    Everything else of the decision stays: `repair.mended` makes the record. Only between decided and committed, and
    only by the epoch that has prepared it.
    """

    record: CheckpointRecord
    ref: RecordRef
    replaces: RecordRef

    def apply(self, head: HeadValue) -> HeadValue:
        scope = self.record.scope
        number = scope.checkpoint_id
        if (scope.incarnation, scope.epoch) != (head.incarnation, head.epoch):
            message = f"{scope} was prepared by another epoch than {head.epoch} of {head.incarnation}"
            raise IdentityError(message, remedy="run `eos repair` again")
        if number <= head.committed or head.record_of(number) != self.replaces:
            message = f"checkpoint {number} is not what it was when its repair began"
            raise IdentityError(message, remedy="see `eos status`, and run `eos repair` again if it is still needed")
        return replace(head, records=tuple(self.ref if each == self.replaces else each for each in head.records))


@dataclass(frozen=True, slots=True)
class NotCommitted:
    """R7: what a sink has lost, since it went back in time, is decided and no longer committed, says a repair (H31).

    From there on it is what any decided checkpoint is: whoever comes next brings it to its end, or says what is lost.
    """

    checkpoint_id: int  # the newest one that every sink still counts

    def apply(self, head: HeadValue) -> HeadValue:
        return replace(head, committed=min(head.committed, self.checkpoint_id))


@dataclass(frozen=True, slots=True)
class Abort:
    """R8: try k of checkpoint N is over. Once this has landed, a decision of that try can never land."""

    checkpoint_id: int
    attempt: int

    def apply(self, head: HeadValue) -> HeadValue:
        if head.completed >= self.checkpoint_id:
            message = f"checkpoint {self.checkpoint_id} is completed: it can only be committed, not aborted"
            raise IdentityError(message)
        return replace(head, aborted_checkpoint=self.checkpoint_id, aborted_attempt=self.attempt)


@dataclass(frozen=True, slots=True)
class Committed:
    """R9: every sink has committed up to here; records beyond `retained` are let go of, in bulk, in the same swap.

    Invariant: the newest record that sinks have counted stays, however many at-least-once checkpoints follow it. From
    it a start knows what each sink had counted. Without it a start would not see that a sink went back in time, and its
    claim would roll back what is decided (H34).
    """

    checkpoint_id: int
    retained: int

    def apply(self, head: HeadValue) -> HeadValue:
        """See Transition. References are dropped when there are `retained` to drop, so that pruning is rare."""
        records = head.records
        if records:
            # The newest committed one stays as well: a start asks the sinks for its witnesses (R2).
            keep_from = min(records[-1].checkpoint_id - self.retained + 1, self.checkpoint_id)
            counted = next((r for r in reversed(records) if not r.direct), None)
            kept = tuple(r for r in records if r.checkpoint_id >= keep_from or r == counted)
            records = kept if len(records) - len(kept) >= self.retained else records
        return replace(head, committed=max(head.committed, self.checkpoint_id), records=records)


@dataclass(frozen=True, slots=True)
class CompleteDirect:
    """At-least-once: the tasks have committed by themselves, so that the checkpoint is completed and committed at once.

    A driver that was superseded learns it here (R1); what its tasks wrote is written again by whoever came after.
    """

    complete: Complete
    retained: int

    def apply(self, head: HeadValue) -> HeadValue:
        return Committed(self.complete.record.checkpoint_id, self.retained).apply(self.complete.apply(head))


def joined(known: Schemas, met: Schemas) -> Schemas:
    """Return all schemas; `known` itself if it has all. A stored schema stays as it is."""
    if all(each.keys() <= known.get(source, {}).keys() for source, each in met.items()):
        return known
    return {**known, **{source: {**each, **known.get(source, {})} for source, each in met.items()}}


def _check_not_aborted(head: HeadValue, record: CheckpointRecord) -> None:
    """R8: who aborted a try has rolled its branches back; its decision must not land by being applied again."""
    scope = record.scope
    aborted = head.aborted_checkpoint == scope.checkpoint_id and head.aborted_attempt >= scope.attempt
    if aborted or scope.epoch != head.epoch or scope.incarnation != head.incarnation:
        message = f"checkpoint {scope.checkpoint_id}, try {scope.attempt} of epoch {scope.epoch}, was aborted meanwhile"
        raise PermitRevokedError(message, remedy="nothing is lost: the checkpoint is run again")


def _check_continues(head: HeadValue, source: str, each: OffsetRange) -> None:
    before = head.position(source, each.split)
    if each.start != before or is_before(each.end, each.start):
        covers = f"this checkpoint covers [{each.start}, {each.end})"
        known = f"the one before it ended at {before}" if before is not None else "where it begins is not known"
        message = f"source {source}, split {each.split}: {covers}, {known}"
        raise IdentityError(message, remedy="the checkpoint location was changed by something else; restore it")

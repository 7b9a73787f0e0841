"""R2: a life of a pipeline that begins from a savepoint. Pure; follows the path of a reset (`reset.begin`).

A life is born whole: head's first value of it has the savepoint's checkpoint as completed and committed everywhere,
with its positions and Spark's query, so that the next start compares the three stores as ever. Spark's folder of
the new incarnation is in place before that swap. The witnesses of the checkpoint are of another life; the record that
head is born with asks for none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from eos.errors import IdentityError
from twophase import messages
from twophase.checkpoint import put_record_of
from twophase.head_value import HeadValue, Origin, RecordRef
from twophase.ids import Scope
from twophase.messages import Steps
from twophase.positions import Positions
from twophase.reset import Begun, ClaimExpected, begin, read_expected
from twophase.transitions import SetPositions, joined
from twophase.values import CheckpointRecord, Schemas, SinkState, StartingPoint


@dataclass(frozen=True, slots=True)
class Seed:
    """What a savepoint gives to a life that begins from it."""

    savepoint: str  # its id
    checkpoint_id: int  # of its state; -1: positions alone, and Spark begins with batch 0
    query_id: str | None  # Spark's, as its new folder has it
    offsets_log: str  # Spark's offsets/N there; empty without state
    begins: Mapping[str, StartingPoint]  # by source: where each split began, and topic ids
    positions: Mapping[str, Positions]  # by source: where each split goes on
    at: float  # seconds since 1970, when its checkpoint was decided
    schemas: Schemas = field(default_factory=dict)  # that its state may have been decoded with


@dataclass(frozen=True, slots=True)
class Restore:
    """See Transition: the new life's first head, whatever stood there before."""

    point: ClassVar[str] = "restore"
    incarnation: str
    sinks: tuple[str, ...]
    seed: Seed
    ref: RecordRef | None  # of the record that it is born with; None without state
    ended: str | None

    def apply(self, head: HeadValue) -> HeadValue:
        seed = self.seed
        born = HeadValue(
            head.pipeline,
            self.incarnation,
            head.epoch,
            head.nonces,
            query_id=seed.query_id,
            completed=seed.checkpoint_id,
            committed=seed.checkpoint_id,
            positions=seed.positions,
            schemas=joined(head.schemas, seed.schemas),
            records=(self.ref,) if self.ref is not None else (),
            sinks=self.sinks,
            origin=Origin(seed.savepoint, seed.checkpoint_id, self.ended),
        )
        for source, starting_point in seed.begins.items():
            born = SetPositions(source, starting_point).apply(born)
        return born


def restore(
    pipeline: str,
    sinks: Sequence[str],
    session: str,
    incarnation: str,
    seed: Seed,
    *,
    expected: HeadValue | None,
    take_over: bool,
) -> Steps[Begun]:
    """Begin `incarnation` where a savepoint stands, and end whatever life head has.

    Killed before its last swap, it has ended what was prepared and changed nothing else: the old life goes on, or the
    start is made again. Killed after it, sinks may still be claimed by the life before: a start without the savepoint
    is refused, one with it is made again.

    Args:
        pipeline: name in the spec.
        sinks: names of the sinks of the spec.
        session: see startup.start.
        incarnation: random, of the new life; Spark's folder of it is in place.
        seed: what the life begins with.
        expected: head when the user agreed to this start; None: there was none.
        take_over: from lives that neither head nor the one before it is (see `foreign_claims`).

    Raises IdentityError, with nothing changed, where head is not as expected, also where a driver has completed a
    checkpoint since, or where a sink belongs to another incarnation. Raises what `reset` raises.
    """
    claim = ClaimExpected(pipeline, expected, with_positions=True)
    seen = yield from read_expected(claim)
    head = seen.head if seen is not None else None
    inspected = yield from messages.Inspect(head.incarnation if head else incarnation, {})
    if not take_over and (foreign := foreign_claims(head, inspected.sinks)):
        raise of_another_incarnation(pipeline, foreign)
    record = _record(Scope(incarnation, head.epoch + 1 if head else 1, seed.checkpoint_id), sinks, seed)
    put = put_record_of(record) if record is not None else None
    if put is not None:
        yield from put
    ref, ended = put.ref if put is not None else None, head.incarnation if head is not None else None
    birth = Restore(incarnation, tuple(sinks), seed, ref, ended)
    return (yield from begin(seen, claim, birth, session, abandon_lost=False))


def look(incarnation: str) -> Steps[Mapping[str, SinkState]]:
    """How the sinks stand to a life."""
    inspected = yield from messages.Inspect(incarnation, {})
    return inspected.sinks


def foreign_claims(head: HeadValue | None, sinks: Mapping[str, SinkState]) -> dict[str, str]:
    """Sinks, with the incarnation that has each, of lives that this head does not know.

    It knows its own and, until every sink is claimed anew, the one that a start from a savepoint has ended here.
    """
    known: set[str | None] = set()
    if head is not None:
        known = {head.incarnation, head.origin.ended if head.origin is not None else None}
    return {
        name: sink.claim_incarnation
        for name, sink in sinks.items()
        if sink.claim_incarnation is not None and sink.claim_incarnation not in known
    }


def of_another_incarnation(pipeline: str, foreign: Mapping[str, str]) -> IdentityError:
    """The error for sinks that `foreign_claims` has found."""
    listed = ", ".join(f"{name} (incarnation {incarnation})" for name, incarnation in foreign.items())
    message = f"another incarnation of pipeline {pipeline!r} has written to {listed}, and may still run elsewhere"
    return IdentityError(
        message,
        remedy="if its location is lost, or it is stopped for good, take its sinks over with --take-over; for a copy "
        "that runs beside it, give the spec another `pipeline:` name and tables of its own",
    )


def _record(scope: Scope, sinks: Sequence[str], seed: Seed) -> CheckpointRecord | None:
    """Of a checkpoint that this life did not write: nothing of it can be asked for in the sinks."""
    if seed.checkpoint_id < 0:
        return None
    return CheckpointRecord(scope, {}, seed.offsets_log, dict.fromkeys(sinks, ()), seed.at, seed.at)

"""What becomes of a transaction that a sink holds prepared, by the rules of the protocol: for people who look. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from twophase.head_value import HeadValue
from twophase.ids import TransactionId
from twophase.participants import Prepared
from twophase.values import CheckpointRecord, Committable


class Resolution(Enum):
    """What the protocol does with it: the running driver, or else the next start."""

    COMMIT = "commit"
    ROLL_BACK = "roll back"
    OPEN = "not decided"  # a driver that lives may still decide it; else the next start rolls it back
    FOREIGN = "leave alone"  # not of this framework, or not of this life of the pipeline


@dataclass(frozen=True, slots=True)
class InDoubtTransaction:
    """One prepared transaction at one sink."""

    sink: str
    prepared: Prepared
    resolution: Resolution
    why: str
    committable: Committable | None = None  # as it was decided, or else as the sink tells it
    decided: tuple[Committable, ...] = ()  # all that its checkpoint was decided with at this sink
    decided_at: float | None = None  # seconds since 1970

    @property
    def transaction(self) -> TransactionId:
        """Its id, unless it is another program's."""
        assert self.prepared.transaction is not None
        return self.prepared.transaction

    @property
    def checkpoint_id(self) -> int:
        """The checkpoint that it was written for."""
        return self.transaction.scope.checkpoint_id

    @property
    def id(self) -> str:
        """By which a command names it."""
        return str(self.prepared.transaction or self.prepared.description)


def in_doubt_transaction(
    head: HeadValue, records: Mapping[int, CheckpointRecord], sink: str, prepared: Prepared
) -> InDoubtTransaction:
    """Judge one.

    Args:
        head: as it is now, read after the sink was asked: what was decided since counts.
        records: by checkpoint, all that head points at.
        sink: its name.
        prepared: as the sink lists it.
    """
    transaction = prepared.transaction
    if transaction is None or transaction.scope.incarnation != head.incarnation:
        whose = "another program's" if transaction is None else "of another incarnation, or of another pipeline"
        return InDoubtTransaction(sink, prepared, Resolution.FOREIGN, whose)
    scope = transaction.scope
    if scope.checkpoint_id <= head.completed:
        record = records.get(scope.checkpoint_id)
        decided = record.committables.get(sink, ()) if record is not None else ()
        for committable in decided:
            if committable.transaction == transaction:
                assert record is not None
                why = f"checkpoint {scope.checkpoint_id} was decided with it"
                return InDoubtTransaction(
                    sink, prepared, Resolution.COMMIT, why, committable, decided, record.decided_at
                )
        why = f"checkpoint {scope.checkpoint_id} was decided without it, with another attempt of its task"
        return InDoubtTransaction(sink, prepared, Resolution.ROLL_BACK, why, prepared.committable)
    if scope.epoch < head.epoch:
        why = (
            f"its driver, epoch {scope.epoch}, was replaced before it decided; epoch {head.epoch} writes the rows again"
        )
        return InDoubtTransaction(sink, prepared, Resolution.ROLL_BACK, why, prepared.committable)
    if scope.checkpoint_id == head.aborted_checkpoint and scope.attempt <= head.aborted_attempt:
        return InDoubtTransaction(
            sink, prepared, Resolution.ROLL_BACK, f"try {scope.attempt} was aborted", prepared.committable
        )
    why = f"the driver of epoch {scope.epoch} decides it if it still runs; if not, the next start rolls it back"
    return InDoubtTransaction(sink, prepared, Resolution.OPEN, why, prepared.committable)

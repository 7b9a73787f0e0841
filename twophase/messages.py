"""Actions of the protocol and their answers. The driver carries out one action at a time.

Each action names the type of its answer: `Swap` is an `Action[bool | None]`. A step of the protocol writes
`landed = yield from messages.Swap(...)`, and the type checker knows the type of `landed`.

An action that cannot be carried out raises out of the protocol, as if the process had died there: every rule holds
for a crash between any two actions, so that nothing else needs to be thought of.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from eos.errors import ConnectorError, HeadFormatError, SetBackError
from twophase.abandoned import Abandoned
from twophase.head_value import HeadValue, RecordRef
from twophase.ids import Scope
from twophase.news import DriverEvent
from twophase.participants import Prepared
from twophase.positions import Positions
from twophase.values import (
    DIGEST_METHODS,
    CheckpointRecord,
    CommitOutcome,
    Committable,
    SinkState,
    SparkState,
    StartingPoint,
)

T = TypeVar("T")
Answer = TypeVar("Answer", covariant=True)


class Action(Generic[Answer]):
    """A request of the protocol to the driver. `Answer` is the type of what the driver sends back."""

    __slots__ = ()

    def __iter__(self) -> Generator[Action[Any], Any, Answer]:
        """Yield this action to the driver and return its answer: `answer = yield from action`."""
        answer: Answer = yield self
        return answer


Steps = Generator[Action[Any], Any, T]
"""A part of the protocol: yields actions, is sent their answers, returns a T. Pure: no I/O, no clock, no randomness."""


@dataclass(frozen=True, slots=True)
class HeadSnapshot:
    """Head as it was read."""

    version: int
    head: HeadValue
    content: bytes | None = None  # as stored: a swap compares it; None: as this version of eos encodes `head`


@dataclass(frozen=True, slots=True)
class Inspected:
    """What a start compares with head."""

    spark: SparkState
    sinks: Mapping[str, SinkState]
    away: Mapping[str, ConnectorError] = field(default_factory=dict)  # by sink that may be away, and is: the outage


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Every task of the job has succeeded; the acknowledgements that Spark accepted, and no others."""

    committables: Mapping[str, tuple[Committable, ...]]
    at: float  # seconds since 1970
    digest_method: int = DIGEST_METHODS[-1]  # by which the tasks have computed the digests of `committables`
    counted: Mapping[str, int] = field(default_factory=dict)
    """Of a repair: how many rows the sink of dead letters would get, where it has lost nothing. No task writes them, so
    that the sink is not in `committables`."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The job failed, ran past its timeout or was cancelled; its tasks may still run (R8)."""

    error: ConnectorError
    again: bool = False  # the batch can do otherwise in another try, which may follow at once


@dataclass(frozen=True, slots=True)
class StateRescaled:
    """Spark has divided its state anew and knows it (`commits/N`); all of it is on disk."""

    offsets_log: str  # content of Spark's offsets/N
    started_at: float  # seconds since 1970
    at: float


@dataclass(frozen=True, slots=True)
class BatchStart:
    """Spark starts, or starts again, the batch `checkpoint_id`."""

    checkpoint_id: int
    ends: Mapping[str, Positions]  # source -> split -> end of what Spark planned
    offsets_log: str  # content of Spark's offsets/N
    at: float  # seconds since 1970
    began: Mapping[str, StartingPoint] = field(default_factory=dict)  # source -> what was discovered for this batch
    permitted: bool = False  # by `Driver.permit`, before the job, in a process that has ended since


@dataclass(frozen=True, slots=True)
class ReadHead(Action[HeadSnapshot | None]):
    """Read the head register."""


@dataclass(frozen=True, slots=True)
class Inspect(Action[Inspected]):
    """Read Spark's checkpoint and every sink, changing nothing (R2)."""

    incarnation: str
    expected: Mapping[str, tuple[Committable, ...]]  # by sink: what must have a visible witness
    may_be_away: frozenset[str] = frozenset()  # sinks without which a start may go on (H32)
    sinks: tuple[str, ...] | None = None  # only these; None: every sink


@dataclass(frozen=True, slots=True)
class DrawNonce(Action[str]):
    """Answer: random text, of the operating system's at this moment.

    A process that is resumed from a snapshot of its memory gives no nonce out a second time by it (H33).
    """


@dataclass(frozen=True, slots=True)
class Swap(Action[bool | None]):
    """Swap head, if it is as expected, to this value. `point` names the moment for logs and faults."""

    expected: HeadSnapshot | None  # None: head was never written
    value: HeadValue
    point: str

    @property
    def version(self) -> int:
        """The version that is expected; 0: head was never written."""
        return self.expected.version if self.expected is not None else 0


@dataclass(frozen=True, slots=True)
class PutRecord(Action[None]):
    """Store the record of a checkpoint before head points at it."""

    ref: RecordRef
    content: bytes  # see codec.encode_record


@dataclass(frozen=True, slots=True)
class LoadRecord(Action[CheckpointRecord | HeadFormatError]):
    """Read a record that head points at."""

    ref: RecordRef


@dataclass(frozen=True, slots=True)
class Claim(Action[None]):
    """Raise the claim rows, and delete older permits (R3)."""

    incarnation: str
    epoch: int
    take_over: bool = False  # from another incarnation, on purpose (a reset)
    begins: int = -1  # the count of a sink that has none yet: every checkpoint up to this one is committed everywhere
    counted: Mapping[str, int] = field(default_factory=dict)  # by sink: what it has counted for certain (H26)
    sinks: tuple[str, ...] | None = None  # only these; None: every sink


@dataclass(frozen=True, slots=True)
class Permit(Action[None]):
    """Put the permit of this run into every sink (R5)."""

    scope: Scope
    counted: Mapping[str, int] = field(default_factory=dict)  # by sink: what it has counted for certain (H26)
    away: frozenset[str] = frozenset()  # sinks that are not asked: only their log is prepared (H32)


@dataclass(frozen=True, slots=True)
class RunWriters(Action[Acknowledged | Failed]):
    """Run the tasks that write and prepare. One Spark job."""

    scope: Scope
    direct: bool = False  # at-least-once: they commit instead of preparing


@dataclass(frozen=True, slots=True)
class FindMissing(Action[Mapping[str, Sequence[Committable]]]):
    """Ask each sink named which of these it has lost: all that it was given for the checkpoint (R7)."""

    checkpoint_id: int
    committables: Mapping[str, tuple[Committable, ...]]


@dataclass(frozen=True, slots=True)
class PermitRewrite(Action[None]):
    """Let tasks write in this scope, at these sinks, what a decided checkpoint has lost there."""

    scope: Scope
    sinks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RewriteMissing(Action[Acknowledged | Failed]):
    """Read the records of a decided checkpoint again, in tasks as they were; write and prepare what is lost, and count
    everything else. One Spark job."""

    scope: Scope
    record: CheckpointRecord
    lost: Mapping[str, tuple[Committable, ...]]


@dataclass(frozen=True, slots=True)
class RescaleState(Action[StateRescaled | Failed]):
    """Have Spark divide its state into so many partitions, by a batch of this number that reads nothing."""

    incarnation: str
    checkpoint_id: int
    state_partitions: int


@dataclass(frozen=True, slots=True)
class DropPlan(Action[None]):
    """Take back what a rewrite that has not ended has planned: to Spark it was never asked for."""

    incarnation: str
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class Discard(Action[Sequence[Mapping[str, tuple[int, int]]] | None]):
    """Run a decided batch again for its state only, and return its rows and digests (R4)."""

    checkpoint_id: int
    digest_methods: tuple[int, ...]  # of the record that the answer is compared with


@dataclass(frozen=True, slots=True)
class Commit(Action[Mapping[str, Sequence[CommitOutcome] | ConnectorError]]):
    """Commit these in every sink named, also where there are none (R7)."""

    incarnation: str
    checkpoint_id: int
    committables: Mapping[str, tuple[Committable, ...]]
    repeated: int  # how often "retry later" was the answer so far: the driver waits, and gives up in the end
    tell_refusals: bool = False  # answer why a sink cannot commit, which a reset can give up, instead of raising
    own: bool = False  # this driver has decided it: no sink may be past it (H33)
    known: Mapping[str, int] = field(default_factory=dict)  # by sink: see Count


@dataclass(frozen=True, slots=True)
class Count(Action[SetBackError | None]):
    """Count a checkpoint as committed in every sink named: all of these committables are (H26).

    Answer: None, or the SetBackError of a sink, for the protocol to tell from what a successor has pruned.
    """

    incarnation: str
    checkpoint_id: int
    committables: Mapping[str, tuple[Committable, ...]]
    known: Mapping[str, int] = field(default_factory=dict)
    """By sink, what it has counted for certain, where that is not the checkpoint before: at-least-once lies between."""


@dataclass(frozen=True, slots=True)
class ListPrepared(Action[Mapping[str, Sequence[Prepared]]]):
    """List what the sinks hold prepared."""

    incarnation: str
    checkpoint_id: int | None = None  # what is of this one is enough
    sinks: tuple[str, ...] | None = None  # only these; None: every sink


@dataclass(frozen=True, slots=True)
class AbortPrepared(Action[None]):
    """Roll these back."""

    prepared: Mapping[str, tuple[Prepared, ...]]


@dataclass(frozen=True, slots=True)
class Revoke(Action[None]):
    """Delete the permits of this run and of earlier tries; wait for zombie writers (R9)."""

    scope: Scope
    counted: bool = False  # the checkpoint is counted as committed; else the try was aborted
    sinks: tuple[str, ...] | None = None  # only these; None: every sink


@dataclass(frozen=True, slots=True)
class FastForward(Action[None]):
    """Have these sinks, if they count checkpoints, stand at this one: they lack nothing that they have not counted."""

    incarnation: str
    epoch: int
    checkpoint_id: int
    sinks: tuple[str, ...]
    counted: Mapping[str, int] = field(default_factory=dict)  # by sink: what it has counted for certain (H34)


@dataclass(frozen=True, slots=True)
class CommitBack(Action[None]):
    """Tell the sources how far the pipeline is, for lag tools only. A failure is a warning."""

    positions: Mapping[str, Positions]


@dataclass(frozen=True, slots=True)
class Prune(Action[None]):
    """Delete records that head let go of, and the witnesses of checkpoints below `below` (R9)."""

    incarnation: str
    records: tuple[RecordRef, ...]
    below: int


@dataclass(frozen=True, slots=True)
class Sweep(Action[None]):
    """Delete the records that a driver before this one stored and head never pointed at, or no longer does."""

    head: HeadValue


@dataclass(frozen=True, slots=True)
class Abandon(Action[None]):
    """Say what a reset is about to give up. Before it does so, or a crash would give it up in silence."""

    abandoned: tuple[Abandoned, ...]


@dataclass(frozen=True, slots=True)
class Emit(Action[None]):
    """Tell whoever watches. Changes nothing, and cannot fail."""

    news: DriverEvent

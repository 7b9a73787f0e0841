"""Actions of the protocol and their answers. The driver carries out one action at a time.

Each action names the type of its answer: `Swap` is an `Action[bool | None]`. A step of the protocol writes
`landed = yield from messages.Swap(...)`, and the type checker knows the type of `landed`.

An action that fails raises out of the protocol, as if the process had crashed there. Every rule holds for a crash
between any two actions, so a failure needs no further rule.
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
    MetSchemas,
    OffsetRange,
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
    """The value of head and its version, as they were read."""

    version: int
    head: HeadValue
    content: bytes | None = None  # as stored: a swap compares it; None: as this version of eos encodes `head`


@dataclass(frozen=True, slots=True)
class Inspected:
    """The state of Spark's checkpoint and of the sinks, which a start compares with head."""

    spark: SparkState
    sinks: Mapping[str, SinkState]
    away: Mapping[str, ConnectorError] = field(default_factory=dict)  # by sink that is away: its error


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The result of a job whose tasks have all succeeded: the acknowledgements that Spark took."""

    committables: Mapping[str, tuple[Committable, ...]]
    at: float  # seconds since 1970
    digest_method: int = DIGEST_METHODS[-1]  # the method of the digests of `committables`
    counted: Mapping[str, int] = field(default_factory=dict)
    """Of a repair: by dead-letter sink that has lost nothing, the number of rows that it would get. No task writes
    them, so the sink is not in `committables`."""
    schemas: MetSchemas = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failed:
    """The result of a job that failed, timed out or was cancelled. Its tasks may still run (R8)."""

    error: ConnectorError
    again: bool = False  # another attempt works differently, and may start at once


@dataclass(frozen=True, slots=True)
class StateRescaled:
    """The result of a rescale: Spark has repartitioned its state and written `commits/N`; all of it is durable."""

    offsets_log: str  # content of Spark's offsets/N
    started_at: float  # seconds since 1970
    at: float


@dataclass(frozen=True, slots=True)
class BatchStart:
    """The start of the batch `checkpoint_id` by Spark, for the first time or once more."""

    checkpoint_id: int
    ends: Mapping[str, Positions]  # source -> split -> end of what Spark planned
    offsets_log: str  # content of Spark's offsets/N
    at: float  # seconds since 1970
    began: Mapping[str, StartingPoint] = field(
        default_factory=dict
    )  # source -> splits that were discovered for this batch
    permitted: bool = False  # by `Driver.permit`, before the job, in a process that has ended since
    left_out: Mapping[str, tuple[OffsetRange, ...]] = field(default_factory=dict)  # see CheckpointRecord
    source_lists: Mapping[str, str] = field(default_factory=dict)  # see CheckpointRecord


@dataclass(frozen=True, slots=True)
class ReadHead(Action[HeadSnapshot | None]):
    """Read the head register."""


@dataclass(frozen=True, slots=True)
class Inspect(Action[Inspected]):
    """Read Spark's checkpoint and every sink, changing nothing (R2)."""

    incarnation: str
    expected: Mapping[str, tuple[Committable, ...]]  # by sink: committables that must have a visible witness
    may_be_away: frozenset[str] = frozenset()  # sinks without which a start may go on (H32)
    sinks: tuple[str, ...] | None = None  # only these; None: every sink


@dataclass(frozen=True, slots=True)
class DrawNonce(Action[str]):
    """Draw a nonce: random text from the operating system.

    A process that is resumed from a snapshot of its memory does not draw the same nonce a second time (H33).
    """


@dataclass(frozen=True, slots=True)
class Swap(Action[bool | None]):
    """Replace head by `value` if it is as expected. `point` names the swap in logs and for injected faults."""

    expected: HeadSnapshot | None  # None: head was never written
    value: HeadValue
    point: str

    @property
    def version(self) -> int:
        """The expected version; 0: head was never written."""
        return self.expected.version if self.expected is not None else 0


@dataclass(frozen=True, slots=True)
class AwaitState(Action[None]):
    """Wait until a start can have Spark's state after this checkpoint (R6), also on another machine."""

    checkpoint_id: int


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
    counted: Mapping[str, int] = field(default_factory=dict)  # by sink: its last checkpoint counted for certain (H26)
    sinks: tuple[str, ...] | None = None  # only these; None: every sink


@dataclass(frozen=True, slots=True)
class Permit(Action[None]):
    """Insert the permit of this attempt into every sink (R5)."""

    scope: Scope
    counted: Mapping[str, int] = field(default_factory=dict)  # by sink: what it has counted for certain (H26)
    away: frozenset[str] = frozenset()  # sinks that get no query: only their log is prepared (H32)


@dataclass(frozen=True, slots=True)
class RunWriters(Action[Acknowledged | Failed]):
    """Run the tasks that write and prepare. One Spark job."""

    scope: Scope
    direct: bool = False  # at-least-once: the tasks commit instead of preparing


@dataclass(frozen=True, slots=True)
class FindMissing(Action[Mapping[str, Sequence[Committable]]]):
    """Find the committables that can never become visible. `committables`: all of the checkpoint, by sink (R7)."""

    checkpoint_id: int
    committables: Mapping[str, tuple[Committable, ...]]


@dataclass(frozen=True, slots=True)
class PermitRewrite(Action[None]):
    """Insert permits into these sinks to rewrite the lost rows of a decided checkpoint."""

    scope: Scope
    sinks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RewriteMissing(Action[Acknowledged | Failed]):
    """Re-read the records of a decided checkpoint in the same tasks. Prepare the lost rows, count the others.

    One Spark job.
    """

    scope: Scope
    record: CheckpointRecord
    lost: Mapping[str, tuple[Committable, ...]]


@dataclass(frozen=True, slots=True)
class RescaleState(Action[StateRescaled | Failed]):
    """Repartition Spark's state into `state_partitions`, by a batch of this number that reads nothing.

    `head`: as this driver owns it. The answer is StateRescaled once a start can have that state, on any machine.
    """

    head: HeadValue
    checkpoint_id: int
    state_partitions: int


@dataclass(frozen=True, slots=True)
class DropPlan(Action[None]):
    """Delete the plan of a rescale that has not completed, so that Spark does not run it."""

    incarnation: str
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class Discard(Action[Sequence[Mapping[str, tuple[int, int]]] | None]):
    """Re-run a decided batch for its state only, and return its rows and digests (R4)."""

    checkpoint_id: int
    digest_methods: tuple[int, ...]  # of the record with which the answer is compared


@dataclass(frozen=True, slots=True)
class Commit(Action[Mapping[str, Sequence[CommitOutcome] | ConnectorError]]):
    """Commit the committables of a checkpoint in each sink of the mapping, also in a sink without any (R7)."""

    incarnation: str
    checkpoint_id: int
    committables: Mapping[str, tuple[Committable, ...]]
    repeated: int  # the number of "retry later" answers so far: the driver waits, and gives up at a limit
    tell_refusals: bool = False  # return the error of a sink that cannot commit, for a reset, instead of raising it
    own: bool = False  # this driver has decided the checkpoint: no sink may have applied a later one (H33)
    known: Mapping[str, int] = field(default_factory=dict)  # by sink: see Count


@dataclass(frozen=True, slots=True)
class Count(Action[SetBackError | None]):
    """Count a checkpoint as committed in each sink of the mapping: all of these committables are committed (H26).

    Answer: None, or the SetBackError of a sink. The protocol then checks whether a newer driver has pruned the sink.
    """

    incarnation: str
    checkpoint_id: int
    committables: Mapping[str, tuple[Committable, ...]]
    known: Mapping[str, int] = field(default_factory=dict)
    """By sink, the last checkpoint that it has counted for certain, if at-least-once checkpoints follow that one."""


@dataclass(frozen=True, slots=True)
class ListPrepared(Action[Mapping[str, Sequence[Prepared]]]):
    """List the prepared transactions of the sinks."""

    incarnation: str
    checkpoint_id: int | None = None  # only the transactions of this checkpoint are needed
    sinks: tuple[str, ...] | None = None  # only these; None: every sink


@dataclass(frozen=True, slots=True)
class AbortPrepared(Action[None]):
    """Roll back prepared transactions."""

    prepared: Mapping[str, tuple[Prepared, ...]]


@dataclass(frozen=True, slots=True)
class Revoke(Action[None]):
    """Delete the permits of this attempt and of earlier ones; wait for zombie writers (R9)."""

    scope: Scope
    counted: bool = False  # the checkpoint is counted as committed; else the attempt was aborted
    sinks: tuple[str, ...] | None = None  # only these; None: every sink


@dataclass(frozen=True, slots=True)
class FastForward(Action[None]):
    """Set the count of these sinks to this checkpoint, if they count. They lack no row of the checkpoints before."""

    incarnation: str
    epoch: int
    checkpoint_id: int
    sinks: tuple[str, ...]
    counted: Mapping[str, int] = field(default_factory=dict)  # by sink: its last checkpoint counted for certain (H34)


@dataclass(frozen=True, slots=True)
class CommitBack(Action[None]):
    """Publish the positions at the services of the sources, for lag tools only. A failure is a warning."""

    positions: Mapping[str, Positions]


@dataclass(frozen=True, slots=True)
class Prune(Action[None]):
    """Delete records that head no longer names, and the witnesses of checkpoints below `below` (R9)."""

    incarnation: str
    records: tuple[RecordRef, ...]
    below: int


@dataclass(frozen=True, slots=True)
class Sweep(Action[None]):
    """Delete the records of earlier drivers that head does not name."""

    head: HeadValue


@dataclass(frozen=True, slots=True)
class Abandon(Action[None]):
    """Log the rows that a reset is about to give up, before it does: a crash in between would lose the report."""

    abandoned: tuple[Abandoned, ...]


@dataclass(frozen=True, slots=True)
class Emit(Action[None]):
    """Send an event to the event handler. Changes nothing, and cannot fail."""

    news: DriverEvent

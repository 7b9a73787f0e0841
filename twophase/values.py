"""The nouns of the protocol: plain, immutable data that any process can read and act on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from twophase.ids import Scope, TransactionId
from twophase.positions import Position, Positions, distance, is_before, total
from twophase.version import installed_version

DIGEST_METHODS: Final = (1, 2)
"""Methods of row digests that this version computes (R4), oldest first. A checkpoint is decided with the last one; the
replay of a decided checkpoint uses the method that its record names. A method leaves this list one release after its
successor has entered it, at the earliest, so that an update finishes what the version before it has decided.

1: the sum of a hash of each row's values. 2: the hash also sees which columns are NULL.
"""

UNNAMED_METHODS: Final = (1, 2)
"""Methods of records that name none: both were in use before records named their method."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The records of one split that belong to a checkpoint: half-open, `[start, end)`.

    Created by: Spark's planner process, from the last checkpoint's end and the source's `Horizon`. Read by: the methods
    of `Source`. Ranges of a split continue where the last checkpoint's ended (R6).
    """

    split: str
    start: Position
    end: Position

    @property
    def is_empty(self) -> bool:
        """Whether no record can be in it."""
        return not is_before(self.start, self.end)

    @property
    def records(self) -> int | None:
        """Offsets between the two; with gaps (markers, compaction) more than records. None: the source has no count."""
        return distance(self.start, self.end)


Schemas = Mapping[str, Mapping[str, str]]
"""By source: the schemas that records name, by that name, each with the fingerprint of its content."""

MetSchemas = Mapping[str, Collection[tuple[str, str]]]
"""By source: name and fingerprint of each schema that a task has decoded records with. Two tasks may have got two
schemas of one name (H35)."""


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """The first positions of the splits of a source, and the identities of their topics.

    Created by: `Source.starting_point` and `Source.horizon`. Read by: the same methods at later starts, as `known`: it
    is stored once, so each split is resolved once in the lifetime of an incarnation (R6).
    """

    positions: Positions = field(default_factory=dict)
    identities: Mapping[str, str] = field(default_factory=dict)  # topic -> id, another one once it is made again


@dataclass(frozen=True, slots=True)
class Committable:
    """The facts that any process needs to commit or abort the rows of one writer. Plain data, never a live object.

    Created by: `Writer.prepare` and `DirectWriter.commit`, in a task. Read by: `Committer.commit`, `count` and
    `inspect`, in this driver or a later one: it is stored with the decision (R6). `data` is for the sink only, for
    example the name of a segment, and holds no secret.
    """

    transaction: TransactionId
    rows: int
    bytes: int = 0
    digest: int = 0  # order-free sum of row hashes, modulo 2**64, by the record's method; 0: stateless pipeline (R4)
    data: Mapping[str, str] = field(default_factory=dict)  # what only this kind of sink understands (a segment's name)
    refused: int = 0
    """Rows that the sink refused and `dead_letter` has. They are not in `rows`, and are in `digest`: a replay sees them
    as it sees every row, and cannot know which ones a sink refused (R4)."""
    refused_digest: int = 0
    """Order-free sum of the hashes of the `refused` rows, modulo 2**64. A repair compares it where their dead letters
    are there (R7). 0 in records of versions that did not compute it: a repair then takes the rows for others."""


INSTEAD_OF: Final = "instead_of"
"""Key in `Committable.data` of what `eos repair` has written: the id of the transaction whose rows these were first."""


def origin(committable: Committable) -> TransactionId:
    """The transaction that its rows were first decided with. A sink can show one of all that have this origin."""
    first = TransactionId.parse(committable.data.get(INSTEAD_OF, ""))
    return first if first is not None else committable.transaction


class CommitOutcome(Enum):
    """The four outcomes of a commit. There is no fifth: an unknown outcome is looked up until it is one of these (R7).

    Created by: `Committer.commit`, one for each committable. Read by: the driver. RETRY_LATER makes it call `commit`
    once more after a pause; LOST ends the pipeline with LostCommittableError.
    """

    COMMITTED = "committed"
    ALREADY_COMMITTED = "already committed"
    RETRY_LATER = "retry later"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class SinkState:
    """The state of one sink, as a start reads it before it changes anything.

    Created by: `Committer.inspect`. Read by: recovery, which compares it with head and Spark's checkpoint, and refuses
    to start where they contradict each other (R2).
    """

    claim_incarnation: str | None = None  # None: no claim row yet, the sink is new to this pipeline
    claim_epoch: int = 0
    highest_witness: int = -1  # newest checkpoint of the claim's incarnation with a visible witness; -1: none
    missing: tuple[TransactionId, ...] = ()  # of the committables asked about: those with no visible witness
    counted: int | None = None
    """The sink shows every checkpoint of the incarnation up to this one. None: it has no count, since an earlier
    version claimed it last. Invariant: only a sink that went back in time counts less than before (H26)."""


@dataclass(frozen=True, slots=True)
class SparkState:
    """What a start reads from Spark's checkpoint (R2). -1 stands for none."""

    query_id: str | None = None
    newest_planned: int = -1  # highest file of offsets/
    newest_committed: int = -1  # highest file of commits/
    offsets_log: Mapping[int, str] = field(default_factory=dict)  # checkpoint -> content of offsets/N, newest two
    state_partitions: Mapping[int, int] = field(default_factory=dict)  # checkpoint -> as its plan says, newest two
    source_lists: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """Checkpoint -> as CheckpointRecord.source_lists, newest two. A checkpoint that is missing is not compared."""
    may_lack_plan: bool = False  # rebuilt from head: a plan after the newest one is lost with its driver

    @property
    def rescaled_to(self) -> int | None:
        """The number of state partitions, where the newest plan has another than the one before it: it reads nothing,
        and only says into how many partitions the state is divided from there on."""
        before, now = (self.state_partitions.get(n) for n in (self.newest_planned - 1, self.newest_planned))
        return now if before is not None and now != before else None


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """A completed checkpoint: the decision, whole. Written as an immutable blob before head points at it (R6)."""

    scope: Scope
    ranges: Mapping[str, tuple[OffsetRange, ...]]  # by source
    offsets_log: str  # Spark's offsets/N to the letter; a replay must show the same (R4)
    committables: Mapping[str, tuple[Committable, ...]]  # by sink name; every sink of the pipeline has an entry
    started_at: float  # seconds since 1970, UTC
    decided_at: float
    direct: bool = False  # at-least-once: tasks committed their rows themselves, and no sink has a witness of them
    state_partitions: int | None = None  # of a rescale: into how many it has divided the state; no task has run
    digest_method: int | None = DIGEST_METHODS[-1]  # or another version's; None in records that name none
    schemas: Schemas = field(default_factory=dict)  # that its records were decoded with
    written_by: str = installed_version()  # the version of eos that decided; empty in records that name none
    left_out: Mapping[str, tuple[OffsetRange, ...]] = field(default_factory=dict)
    """By source, the parts of `ranges` that were deleted before its tasks began, where the spec allows that."""
    source_lists: Mapping[str, str] = field(default_factory=dict)
    """By folder (`sources/0`), a digest of Spark's lists of files up to `offsets_log`, if they are in a store (H25)."""

    @property
    def checkpoint_id(self) -> int:
        """Spark's batch id."""
        return self.scope.checkpoint_id

    @property
    def rows(self) -> int:
        """Rows over all sinks."""
        return sum(c.rows for group in self.committables.values() for c in group)

    @property
    def records(self) -> int | None:
        """Offsets covered, over all splits. None: a source does not count."""
        return total(each.records for ranges in self.ranges.values() for each in ranges)

    @property
    def repaired(self) -> int:
        """Transactions that `eos repair` has put in the place of lost ones."""
        return sum(INSTEAD_OF in c.data for group in self.committables.values() for c in group)

    @property
    def digest_methods(self) -> tuple[int, ...]:
        """The methods of which one has given the digests: the one that is named, or those before methods had names.

        Without rows, and without state, each digest is 0 by every method, so that any method does.
        """
        if not any(digest for _, digest in self.digest.values()):
            return DIGEST_METHODS[-1:]
        return UNNAMED_METHODS if self.digest_method is None else (self.digest_method,)

    @property
    def digest(self) -> dict[str, tuple[int, int]]:
        """By sink: count and hashes' sum, modulo 2**64, of all rows that its tasks were given, refused or not (R4)."""
        return {
            sink: (sum(c.rows + c.refused for c in group), sum(c.digest for c in group) % 2**64)
            for sink, group in self.committables.items()
        }

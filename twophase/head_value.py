"""What head holds: a few KiB that decide everything. Changed only by the transitions of `transitions`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from twophase.positions import Position, Positions
from twophase.values import Schemas, StartingPoint


@dataclass(frozen=True, slots=True)
class RecordRef:
    """Points at the immutable record of a completed checkpoint."""

    checkpoint_id: int
    name: str  # full id and content hash: nobody can write another content under it (H8)
    sha256: str
    direct: bool = False  # at-least-once: no sink has counted the checkpoint


@dataclass(frozen=True, slots=True)
class Origin:
    """The savepoint that this life of the pipeline began from."""

    savepoint: str  # its id
    checkpoint_id: int  # `completed` as the life was born; -1 where it took over positions and no state
    ended: str | None  # the incarnation that it took the place of in this head: sinks may still hold its claim


@dataclass(frozen=True, slots=True)
class HeadValue:
    """The one truth. Every field is replaced, never changed in place."""

    pipeline: str
    incarnation: str  # born with head; a reset begins another
    epoch: int  # grows by one at every start; a swap by a smaller one is refused by the register
    nonces: tuple[
        str, ...
    ]  # of the newest swaps, oldest first: a writer finds out whether an unanswered one landed (H20)
    query_id: str | None = None  # Spark's; None until the first query of this incarnation has started
    completed: int = -1  # L: the newest completed checkpoint. records[-1] is its decision while any is retained
    committed: int = -1  # every sink has committed up to here; never above `completed`
    aborted_checkpoint: int = -1  # the checkpoint whose try was aborted last in this epoch; -1: none
    aborted_attempt: int = 0  # that try; the next run of the same checkpoint takes the next number
    initial: Mapping[str, Positions] = field(default_factory=dict)  # source -> split -> its first position ever (R6)
    identities: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # source -> topic -> its id (R6)
    positions: Mapping[str, Positions] = field(default_factory=dict)  # source -> split -> end of `completed`
    records: tuple[RecordRef, ...] = ()  # ascending by checkpoint; contains all above `committed`
    sinks: tuple[str, ...] = ()  # names as of the newest start: no other sink can hold anything prepared (R2)
    origin: Origin | None = None  # of a life that began from a savepoint
    schemas: Schemas = field(default_factory=dict)
    """Schemas that decided records were decoded with. Invariant: a name never gets another fingerprint (H35)."""
    unknown: tuple[str, ...] = ()  # fields of a newer version; then this one only reads (codec.check_writable)

    @property
    def waiting(self) -> int:
        """Checkpoints that are completed and not committed everywhere."""
        return self.completed - self.committed

    def next_attempt(self, checkpoint_id: int) -> int:
        """The try under which this epoch may run the checkpoint now."""
        return self.aborted_attempt + 1 if self.aborted_checkpoint == checkpoint_id else 1

    def position(self, source: str, split: str) -> Position | None:
        """Next position of a split; None for one that no checkpoint has covered and no starting point names."""
        return self.positions.get(source, {}).get(split)

    def known(self, source: str) -> StartingPoint:
        """Return the position of each split of a source, and its topic ids, as `Source.horizon` takes them."""
        positions = {**self.initial.get(source, {}), **self.positions.get(source, {})}
        return StartingPoint(positions, self.identities.get(source, {}))

    def record_of(self, checkpoint_id: int) -> RecordRef | None:
        """The record of a completed checkpoint, if it is still retained."""
        return next((ref for ref in self.records if ref.checkpoint_id == checkpoint_id), None)

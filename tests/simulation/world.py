"""The state of the simulated world: three stores, the wire between, and the processes. Immutable and hashable."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from tests.simulation.config import FIRST_OFFSET, SOURCE, SPLIT, Budget, Config
from twophase.codec import decode_head, decode_record
from twophase.head_value import HeadValue
from twophase.ids import TransactionId
from twophase.values import CheckpointRecord, origin

OTHER = ("incarnation of another", 1)
"""Claim of an incarnation that has a head of its own."""

FOREIGN = "foreign transaction of somebody else"

SHELF: dict[str, bytes] = {}
"""Content of every record ever stored. Names hold the hash of the content, so that one shelf serves all worlds."""


class Sink(NamedTuple):
    """One database. Transactions by their id as text."""

    claim: tuple[str, int] | None = None  # incarnation, epoch
    permits: frozenset[str] = frozenset()  # scopes
    open: frozenset[str] = frozenset()  # attempts that hold their permit and have not prepared
    prepared: frozenset[str] = frozenset({FOREIGN})
    committing: frozenset[tuple[str, int]] = frozenset()  # by which process: not listed, not visible, not undone
    forgotten: frozenset[str] = frozenset()  # prepared, with their locks, and in no list (H24)
    committed: frozenset[str] = frozenset()  # rows as a reader sees them; never forgotten
    witnesses: frozenset[str] = frozenset()  # pruned (R9)
    direct: frozenset[str] = frozenset()  # rows that tasks have committed themselves (at-least-once)
    counts: frozenset[tuple[str, int]] = frozenset()  # by incarnation: the newest checkpoint that it counts (H26)
    instead: frozenset[tuple[str, str]] = frozenset()  # written by a repair, and the lost one whose witness it holds
    taken_with: frozenset[str] | None = None  # rows visible when another incarnation took the sink over (H28)
    twice: frozenset[str] = frozenset()  # written once more, with other rows, though rows of that id are visible (H33)
    drifted: frozenset[str] = frozenset()  # written by a repair, with other rows than those that were decided

    @property
    def held(self) -> frozenset[str]:
        """What is prepared, whether the sink lists it or not."""
        return self.prepared | self.forgotten

    def newest_counted(self, incarnation: str) -> int | None:
        """The newest checkpoint that the sink counts of this incarnation."""
        return next((number for name, number in self.counts if name == incarnation), None)

    def counting(self, incarnation: str, checkpoint_id: int) -> Sink:
        """The sink with another count."""
        others = frozenset(each for each in self.counts if each[0] != incarnation)
        return self._replace(counts=others | {(incarnation, checkpoint_id)})

    @property
    def left(self) -> frozenset[str]:
        """What of ours is there that could still become visible, or keeps a lock."""
        return (self.held - {FOREIGN}) | self.permits | self.open


class Spark(NamedTuple):
    """Spark's checkpoint folder. What offsets/N contains follows from N, but for the number of state partitions."""

    planned: int = -1
    committed: int = -1
    query: str | None = None
    rescales: frozenset[int] = frozenset()  # batches that only divide the state anew, each into one partition more

    def state_partitions(self, number: int) -> int:
        """As the plan of that batch says."""
        return 2 + sum(each <= number for each in self.rescales)

    @property
    def unfinished(self) -> int | None:
        """State partitions of a rescale that Spark has planned and not committed."""
        under_way = self.planned in self.rescales and self.committed < self.planned
        return self.state_partitions(self.planned) if under_way else None


class Process(NamedTuple):
    """A driver, or a process that aborts. Its state is a node of `processes`: the answers that it was given."""

    make: tuple[Any, ...]
    node: int = 0
    partial: tuple[Any, ...] = ()  # results of the operations of the action under way
    job: tuple[Any, ...] | None = None  # progress of the Spark job under way
    status: str = "live"  # or dead, or how it ended
    resumed: int = 0  # how often it was set back with its memory (H33)


class World(NamedTuple):
    """Everything."""

    budget: Budget
    sinks: tuple[Sink, ...]
    version: int = 0
    head: bytes = b""
    wire: frozenset[tuple[tuple[int, bytes], bytes]] = frozenset()  # swaps that were sent and may land later
    records: frozenset[str] = frozenset()
    spark: Spark = Spark()
    decided: tuple[str, ...] = ()  # name of the record that decided each checkpoint; remembered, whatever head says
    by_hand: frozenset[str] = frozenset()  # transactions that somebody has rolled back
    past: tuple[str, ...] = ()  # the same, of lives that a reset has ended
    sparks: tuple[tuple[str, Spark], ...] = ()  # Spark's checkpoint folders of those lives, by incarnation
    claimer: str = ""  # the run whose claim of head came last
    usurped: bool = False  # a run has claimed head again after it was superseded
    unsaid: bool = False  # a new life has begun where the one before it was when it was looked at, and is no longer
    copy: tuple[int, Sink] | None = None  # of one sink, which may take its place later (H26)
    erased: frozenset[str] | None = None  # transactions that the copy lacked when it did; None: it did not
    decided_then: int = 0  # how many checkpoints were decided or permitted at that moment
    trail: tuple[bytes, ...] = ()  # heads before this one, where the register may go back
    taken: tuple[str, ...] = ()  # decisions that it has lost, by the name of their record
    gone: frozenset[str] = frozenset()  # nonces of swaps that it has lost
    unclaimed: bool = False  # it has lost a claim
    crossed: str = ""  # what is wrong with a swap that came after that
    resumed: bool = False  # a process was set back with its memory (H33)
    away: bool = False  # sink 0 does not answer; its log does
    kept: str = ""  # the incarnation that has opened sink 0: it can be written to without being asked (H32)
    processes: tuple[Process, ...] = ()
    current: int = 0
    snapshot: World | None = None  # a whole earlier world, of which something may be restored (H33)

    @property
    def core(self) -> tuple[Any, ...]:
        """What is left when every process is gone."""
        return self[1:-3]

    def with_sink(self, index: int, **changes: Any) -> World:
        """The world with one sink changed."""
        sinks = list(self.sinks)
        sinks[index] = sinks[index]._replace(**changes)
        return self._replace(sinks=tuple(sinks))

    def with_process(self, index: int, **changes: Any) -> World:
        """The world with one process changed."""
        processes = list(self.processes)
        processes[index] = processes[index]._replace(**changes)
        return self._replace(processes=tuple(processes))

    def spark_of(self, incarnation: str) -> Spark:
        """Spark's checkpoint folder of one life."""
        return dict(self.sparks).get(incarnation, self.spark)

    def with_spark(self, incarnation: str, spark: Spark) -> World:
        """The world with that folder changed."""
        if incarnation not in dict(self.sparks):
            return self._replace(spark=spark)
        return self._replace(sparks=tuple((n, spark if n == incarnation else each) for n, each in self.sparks))

    def spend(self, kind: str) -> World:
        """The world with one trouble less to come."""
        return self._replace(budget=self.budget._replace(**{kind: getattr(self.budget, kind) - 1}))


def first_world(config: Config) -> World:
    """Nothing has happened; somebody else's transaction is prepared in every sink."""
    return World(config.budget, tuple(Sink() for _ in range(config.sinks)))


@cache
def parse(transaction: str) -> TransactionId | None:
    """The transaction id of a text; None for a foreign one."""
    return TransactionId.parse(transaction)


@cache
def head_of(content: bytes) -> HeadValue | None:
    """Head as it is in the register; None if it was never written."""
    return decode_head(content) if content else None


@cache
def record_of(name: str) -> CheckpointRecord:
    """A record from the shelf."""
    return decode_record(SHELF[name])


def ends_from(head: HeadValue) -> int:
    """The offset to which the ends of this life's checkpoints are added."""
    initial = head.initial.get(SOURCE, {}).get(SPLIT, FIRST_OFFSET)
    assert isinstance(initial, int)
    return 0 if initial == FIRST_OFFSET else initial


def is_direct(name: str) -> bool:
    """Whether tasks committed the rows of this decision themselves."""
    return bool(name) and record_of(name).direct


@cache
def is_repair(before: str, now: str) -> bool:
    """Whether two decisions differ only in transactions that a repair has put in the place of others."""
    one, other = record_of(before), record_of(now)
    rows = [{n: [origin(c) for c in group] for n, group in each.committables.items()} for each in (one, other)]
    return rows[0] == rows[1] and replace(one, scope=other.scope, committables=other.committables) == other


@cache
def decided_transactions(name: str, sink: str) -> frozenset[str]:
    """What a decision makes visible in one sink."""
    return frozenset(str(each.transaction) for each in record_of(name).committables.get(sink, ()))

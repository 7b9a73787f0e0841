"""What a round does: how its pipeline is set up, and which faults in which order. The same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

_OVERLAPPING: Final = 0.7
"""Of the faults that may, so many begin before the pipeline has recovered from the one before."""

_MOST_AT_ONCE: Final = 3


@dataclass(frozen=True, slots=True)
class Setup:
    """How a round's pipeline is set up. The topic is always written by a log."""

    mysql: str  # `commit` of the sink into MySQL
    postgresql: str  # the same into PostgreSQL
    mode: str = "exactly-once"
    waiting: int = 0  # checkpoints that may wait at each sink
    has_backlog: bool = False  # sinks with a log may be away
    log: Literal["folder", "object store", "HDFS"] = "folder"  # in a store wherever the location is in it
    location: Literal["folder", "object store", "HDFS"] = "folder"
    has_dead_letters: bool = False  # some records do not decode
    has_standby: bool = False  # a second driver waits for the end of the first one
    changes: Literal["", "in place", "moving"] = ""
    """Records are change events of a table, whose keys are in one partition each, or move. Empty: records are rows."""

    @property
    def commits(self) -> Mapping[str, str]:
        """By kind of database."""
        return {"mysql": self.mysql, "postgresql": self.postgresql}

    @property
    def keeps_state_in_store(self) -> bool:
        """Whether the step has state, and its state outlives the driver's machine."""
        return self.is_stored and not self.changes

    @property
    def is_stored(self) -> bool:
        """Whether the location outlives the driver's machine."""
        return self.location != "folder"

    @property
    def may_repeat(self) -> bool:
        """Whether a row may be there several times."""
        return self.mode == "at-least-once"


SETUPS: Final = (
    Setup("two-phase", "upsert"),
    Setup("two-phase", "two-phase", has_dead_letters=True),
    Setup("write-ahead-log", "two-phase", has_backlog=True),
    Setup("upsert", "write-ahead-log", log="object store"),
    Setup("two-phase", "write-ahead-log", waiting=2),
    Setup("two-phase", "two-phase", mode="at-least-once"),
    Setup("write-ahead-log", "upsert", waiting=1, has_backlog=True, log="object store", has_dead_letters=True),
    Setup("upsert", "upsert", has_dead_letters=True, changes="in place"),
    Setup("upsert", "upsert", waiting=2, has_backlog=True, changes="moving"),
    Setup("two-phase", "write-ahead-log", waiting=2, log="object store", location="object store"),
    Setup("write-ahead-log", "two-phase", log="object store", location="object store", has_dead_letters=True),
    Setup("upsert", "upsert", log="object store", location="object store", changes="in place"),
    Setup("two-phase", "write-ahead-log", has_standby=True),
    Setup("two-phase", "two-phase", log="object store", location="object store", has_standby=True),
    Setup("two-phase", "write-ahead-log", log="HDFS", location="HDFS"),
    Setup("upsert", "upsert", log="HDFS", location="HDFS", has_dead_letters=True, changes="in place"),
)
"""Taken in turn."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fault."""

    weight: float  # how often, beside others
    hold_s: tuple[float, float] = (0.0, 0.0)  # how long, at least and at most; nothing: it is over at once
    targets: tuple[str, ...] = ("",)
    alone: bool = False  # it looks at what comes of it, so that no other fault may come between


_BROKERS: Final = ("broker-0", "broker-1", "broker-2")
_DATABASES: Final = ("mysql", "postgresql")
_STORE: Final = ("store",)

KINDS: Final[Mapping[str, Kind]] = {
    "driver killed": Kind(6),
    "driver killed beside a standby": Kind(8),
    "driver's JVM killed": Kind(2),
    "driver stopped": Kind(2, (2, 15)),
    "driver superseded": Kind(2, alone=True),
    "two drivers": Kind(2, alone=True),
    "executor killed": Kind(4),
    "executor stopped": Kind(2, (2, 10)),
    "Python worker killed": Kind(4),
    "Python worker stopped": Kind(2, (2, 10)),
    "machine of a worker lost": Kind(2, (2, 6)),
    "broker killed": Kind(4, (1, 8), _BROKERS),
    "broker stopped": Kind(3, (4, 8), _BROKERS),
    "database killed": Kind(4, (0, 4), _DATABASES),
    "database stopped": Kind(3, (2, 8), _DATABASES),
    "sink away": Kind(2, targets=("mysql",), alone=True),
    "connections cut": Kind(4, (0, 4), (*_BROKERS, *_DATABASES)),
    "connections slow": Kind(3, (3, 8), (*_BROKERS, *_DATABASES)),
    "connections half open": Kind(2, (1, 4), (*_BROKERS, *_DATABASES)),
    "disk full": Kind(2, (2, 8)),
    "disk read-only": Kind(2, (2, 8), ("head", "spark")),
    "topic grown": Kind(1, alone=True),
    "tables evolved": Kind(1, alone=True),
    "savepoint taken": Kind(1, alone=True),
    "transaction rolled back": Kind(2, alone=True),
    "clock jumped": Kind(2, (2, 8), ("+3600", "-3600", "+40", "-40")),
    "driver's machine lost": Kind(5),
    "store away": Kind(4, (2, 15), _STORE),
    "store stopped": Kind(3, (2, 15), _STORE),
    "store slow": Kind(3, (3, 8), _STORE),
    "store half open": Kind(2, (1, 4), _STORE),
}

_OF_A_STORE: Final = ("driver's machine lost", "store away", "store stopped", "store slow", "store half open")
"""Only with the location in an object store or in HDFS."""

_WITHOUT_STANDBY: Final = (
    "driver killed",
    "driver stopped",
    "driver superseded",
    "two drivers",
    "driver's machine lost",  # the standby has its disk
)
"""Where no standby changes what they do."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One that is done to the pipeline."""

    kind: str
    hold_s: float  # from its begin to its end, where it does not end by itself
    target: str  # what it is done to; empty where there is but one
    pause_s: float  # before it, from the recovery of the one before, or from its begin
    seed: int  # for what it chooses at the moment


@dataclass(frozen=True, slots=True)
class Round:
    """What one round does."""

    seed: int
    number: int
    setup: Setup
    faults: Sequence[Sequence[Fault]]  # one, or some that overlap

    @property
    def count(self) -> int:
        """Of all its faults."""
        return sum(map(len, self.faults))


def round_of(seed: int, number: int, count: int, possible: Collection[str] = tuple(KINDS)) -> Round:
    """The round of this number, with so many faults; `possible`: the kinds that this machine can do."""
    chance = random.Random(f"{seed} {number}")
    setup = SETUPS[(seed + number) % len(SETUPS)]
    kinds = [kind for kind in KINDS if kind in possible and _fits(kind, setup)]
    weights = [KINDS[kind].weight for kind in kinds]
    faults: list[list[Fault]] = []
    for fault in (_fault(chance, kind, setup) for kind in chance.choices(kinds, weights, k=count)):
        if faults and _may_join(fault, faults[-1]) and chance.random() < _OVERLAPPING:
            faults[-1].append(fault)
        else:
            faults.append([fault])
    return Round(seed, number, setup, faults)


def _fault(chance: random.Random, kind: str, setup: Setup) -> Fault:
    settings = KINDS[kind]
    targets = [each for each in settings.targets if each != "head" or setup.location == "folder"]
    hold_s = round(chance.uniform(*settings.hold_s), 2)
    return Fault(kind, hold_s, chance.choice(targets), round(chance.uniform(0, 2), 2), chance.getrandbits(32))


def _may_join(fault: Fault, others: Sequence[Fault]) -> bool:
    return len(others) < _MOST_AT_ONCE and all(_may_overlap(other, fault) for other in others)


def _may_overlap(first: Fault, second: Fault) -> bool:
    """Two of three brokers must not be away at once: then nobody may acknowledge a record.

    A disk that fails and is lost meanwhile would be another disk, on which nothing fails.
    """
    if KINDS[first.kind].alone or KINDS[second.kind].alone or first.kind == second.kind:
        return False
    kinds = {first.kind, second.kind}
    if "driver's machine lost" in kinds and kinds & {"disk full", "disk read-only"}:
        return False
    return not (first.target and first.target.split("-")[0] == second.target.split("-")[0])


def _fits(kind: str, setup: Setup) -> bool:
    """What is decided can be rolled back by hand only where it is prepared. Only a sink with a backlog may be away.

    Where state is kept in a store, only the newest checkpoint can be repaired.
    """
    if setup.has_standby and kind in _WITHOUT_STANDBY:
        return False
    if kind in _OF_A_STORE:
        return setup.is_stored
    prepares = "two-phase" in setup.commits.values() and setup.mode == "exactly-once"
    return {
        "transaction rolled back": prepares and not setup.keeps_state_in_store,
        "sink away": setup.has_backlog,
        "driver killed beside a standby": setup.has_standby,
    }.get(kind, True)

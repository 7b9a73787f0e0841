"""What one exploration covers, and how much of each kind of trouble it allows."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from tests.simulation.coordinator import REAL, Coordinator

SOURCE = "source"
SPLIT = "t/0"
FIRST_OFFSET = 5
PIPELINE = "p"


class Budget(NamedTuple):
    """How often each kind of trouble may still happen. Crashes are never counted: every point has one."""

    switches: int = 0  # from a process that could go on to another one
    swaps: int = 0  # whose answer is lost: landed, or still on the wire
    retries: int = 0  # of a task, whose first attempt lives on
    failures: int = 0  # of a whole job
    commits: int = 0  # that take their time: neither prepared nor visible
    aborters: int = 0  # processes that abort what another one is just deciding (H2)
    vandals: int = 0  # prepared transactions that an administrator rolls back by hand
    drifts: int = 0  # tasks of a repair that get other rows than those of the decision
    forgets: int = 0  # commits and rollbacks that a sink says it has done, and forgets (H24)
    set_backs: int = 0  # sinks that are replaced by a copy of an earlier moment (H26)
    take_overs: int = 0  # of a sink, by another incarnation, which has a head of its own (H28)
    head_set_backs: int = 0  # of the register, by one swap each (H29)
    snapshots: int = 0  # of the machine with its memory, each restored once (H33): see Config.resumes
    absences: int = 0  # of sink 0, which has a log: drivers go on, and start, without it (H32)
    outages: int = 0  # of a sink, which end the epoch of a driver that asks it


@dataclass(frozen=True)
class Config:
    """One exploration."""

    drivers: int = 2
    checkpoints: int = 2
    sinks: int = 2
    tasks: int = 2
    retained: int = 1
    tries: int = 1  # how often one epoch runs a checkpoint before it gives up
    tolerated: int = 0  # how many failed tries of a checkpoint are followed by another one in the same call
    restarts: int = 0  # how many more drivers a run starts after a failure that a restart may cure
    resets: int = 0  # `eos reset`, at any moment
    resets_to: int = 0  # `eos reset --to completed`, at any moment
    rescales: int = 0  # `eos rescale`, one at a time, at any moment
    repairs: int = 0  # `eos repair`, at any moment
    restores: int = 0  # starts from a savepoint of checkpoint 0, at any moment once that is committed
    behind: int = 0  # decided checkpoints that a driver leaves uncommitted while Spark writes the next one
    evicts: bool = False  # sinks roll back what is prepared under permits that they delete, as databases do
    slots: bool = (
        False  # sinks apply a log in one slot for each task, which moves by one checkpoint with its rows (H33)
    )
    logs: bool = False  # sinks apply a log: a transaction that applies it holds the claim, so a claim waits (H28)
    stateful: bool = False  # rows are known by their digest
    updated: bool = False  # epoch 1 is a version before, which computes digests by the method before
    counts: bool = True  # False: sinks do not count, so that a mutant of another rule is not noticed by that (H26)
    resumes: str = ""  # what a snapshot holds: "machine" (memory, head, Spark's folder, the log), or "memory" alone
    direct: frozenset[int] = frozenset()  # which runs are at-least-once, by their number
    budget: Budget = field(default_factory=Budget)
    coordinator: Coordinator = REAL
    without: frozenset[str] = frozenset()  # kinds of moves that are left out
    broken: str = ""  # a rule that the simulated sinks or the register break

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The sinks."""
        return tuple(f"sink{n}" for n in range(self.sinks))

    @property
    def preparing(self) -> tuple[str, ...]:
        """The sinks in which a claim ends what is prepared; the others keep it, as logs do."""
        return self.names if self.evicts else ()

    @property
    def absent(self) -> bool:
        """Whether sink 0 may be away."""
        return bool(self.budget.absences)

    @property
    def last(self) -> int:
        """The last checkpoint."""
        return self.checkpoints - 1

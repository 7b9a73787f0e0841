"""The state of the model: one head register, some sinks, Spark's mark of what is done, and the processes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

Label = tuple[Any, ...]


@dataclass(frozen=True)
class Bounds:
    """What one exploration covers. Crashes are never counted: every step has one."""

    drivers: int = 2
    checkpoints: int = 1
    sinks: int = 1
    tasks: int = 1
    tries: int = 1  # how often one driver runs a checkpoint before it gives up
    unanswered: int = 0  # swaps whose answer is lost: landed, or still on the wire
    repeats: int = 0  # tasks that Spark runs twice
    failures: int = 0  # of a whole job
    aborters: int = 0  # other processes of an epoch that abort what it is just deciding
    behind: int = 0  # decided checkpoints whose commits a driver leaves to a thread of its own while it goes on
    turns: int = 1  # how often a process goes on while another one could


class Xid(NamedTuple):
    """A transaction: of which epoch, checkpoint, try, sink, task, and attempt of the task."""

    epoch: int
    number: int
    attempt: int
    sink: int
    task: int
    run: int


class Head(NamedTuple):
    """The register. Checkpoints count from 1."""

    epoch: int = 0
    completed: tuple[frozenset[Xid], ...] = ()
    committed: int = 0
    aborted: tuple[int, int] = (0, 0)  # checkpoint and try
    nonces: tuple[tuple[int, int], ...] = ()  # of this epoch: process and number of its swap


class Process(NamedTuple):
    """A driver, or a process that aborts what a driver is deciding."""

    step: str = "read"
    head: Head = Head()  # what it believes head to be
    todo: tuple[Any, ...] = ()
    number: int = 0  # the checkpoint under way
    attempt: int = 0  # its try
    accepted: frozenset[Xid] = frozenset()
    old: Xid | None = None  # the first attempt of a task that runs a second time
    heard: bool = False  # it has acknowledged, so that Spark may take its word
    swaps: int = 0
    swapping: tuple[str, str] = ("", "")  # the swap under way, and the step after it
    tries: int = 0
    is_aborter: bool = False
    leader: int = -1  # of a thread that commits what this driver has decided; -1: it is a process


class World(NamedTuple):
    """Everything."""

    head: Head = Head()
    wire: frozenset[tuple[Head, Head]] = frozenset()  # swaps that may land later: expected and new
    claims: tuple[int, ...] = ()  # by sink: epoch
    permits: frozenset[tuple[int, int, int, int]] = frozenset()  # sink, epoch, checkpoint, try
    open: frozenset[Xid] = frozenset()  # each holds its permit
    prepared: frozenset[Xid] = frozenset()
    committed: frozenset[Xid] = frozenset()  # what a reader sees
    witnesses: frozenset[Xid] = frozenset()  # are pruned
    done: int = 0  # the newest checkpoint that Spark takes for done
    processes: tuple[Process, ...] = (Process(),)
    current: int = 0
    unanswered: int = 0
    repeats: int = 0
    failures: int = 0
    aborters: int = 0
    turns: int = 0

    def put(self, index: int, **changes: Any) -> World:
        """The world with one process changed."""
        processes = list(self.processes)
        processes[index] = processes[index]._replace(**changes)
        return self._replace(processes=tuple(processes))

    def without_permits(self, gone: frozenset[tuple[int, int, int, int]]) -> World:
        """Whoever holds one of these permits is ended."""
        ended = frozenset(x for x in self.open if (x.sink, x.epoch, x.number, x.attempt) in gone)
        return self._replace(permits=self.permits - gone, open=self.open - ended)


ENDS = ("done", "fenced", "dead", "failed", "stopped", "lost", "ended")


def first_world(bounds: Bounds) -> World:
    """Nothing has happened."""
    return World(
        claims=(0,) * bounds.sinks,
        unanswered=bounds.unanswered,
        repeats=bounds.repeats,
        failures=bounds.failures,
        aborters=bounds.aborters,
        turns=bounds.turns,
    )


Moves = Iterator[tuple[Label, World]]


def enter(world: World, index: int, step: str, me: Process, bounds: Bounds) -> World:
    """The world with a process at the beginning of a step, with all that it has to do there."""
    todo: tuple[Any, ...] = tuple(range(bounds.sinks)) if step in ("raise", "permit", "revoke") else ()
    if step == "commit":
        todo = tuple(sorted(me.accepted))
    if step == "task":
        todo = tuple((sink, task, 0, False) for sink in range(bounds.sinks) for task in range(bounds.tasks))
    return world.put(index, step=step, todo=todo)

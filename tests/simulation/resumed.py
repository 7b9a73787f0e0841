"""A machine is restored from a snapshot with its memory (H33): its driver goes on without a start, as if nothing were.

With the memory, head, Spark's folder and the log go back ("machine"), or nothing does ("memory"). The sinks stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.simulation.config import Config
from tests.simulation.sinks import waiting
from tests.simulation.world import Process, Sink, World, decided_transactions


def resumes(
    world: World, config: Config, resume: Callable[[Process], Process]
) -> Iterator[tuple[str, tuple[object, ...], World]]:
    """The moves: a snapshot is taken while a process lives; it is restored. `resume`: see Processes.resume."""
    if not world.budget.snapshots:
        return
    if world.snapshot is None:
        if any(each.status == "live" for each in world.processes):
            yield "snapshot", ("the machine is copied with its memory",), world._replace(snapshot=world)
        return
    is_live = [each.status == "live" for each in world.snapshot.processes]
    then = tuple(resume(p) if live else p for p, live in zip(world.snapshot.processes, is_live, strict=True))
    restored = _machine(world, config, then) if config.resumes == "machine" else _memory(world, is_live, then)
    yield "resume", (f"the {config.resumes} is restored",), restored._replace(resumed=True, snapshot=None)


def _machine(world: World, config: Config, then: tuple[Process, ...]) -> World:
    """Who has come since is gone. What was decided since is no decision any more, though sinks may show it."""
    assert world.snapshot is not None
    known = len(world.snapshot.decided)
    sinks = world.sinks if config.evicts else map(_with_log, world.sinks, world.snapshot.sinks)
    return world.snapshot._replace(
        budget=world.spend("snapshots").budget,
        sinks=tuple(sinks),
        wire=frozenset(),
        taken=world.taken + world.decided[known:],
        processes=then,
    )


def _with_log(now: Sink, then: Sink) -> Sink:
    """A log is the machine's: what waits in it goes back. What is applied of it does not wait, and is swept away."""
    return now._replace(open=then.open, prepared=waiting(now, then.prepared))


def _memory(world: World, is_live: list[bool], then: tuple[Process, ...]) -> World:
    assert world.snapshot is not None
    ours = zip(then, world.processes, is_live, strict=False)
    processes = tuple(old if live else new for old, new, live in ours) + world.processes[len(then) :]
    return world.spend("snapshots")._replace(processes=processes, current=world.snapshot.current)


def find_mistake(world: World, config: Config) -> str:
    """Return what is wrong in a world in which a process was set back with its memory; empty where nothing is."""
    for name, sink in zip(config.names, world.sinks, strict=True):
        for number, record in enumerate(world.decided):
            decided = decided_transactions(record, name)
            if decided & sink.twice & sink.committed:
                return f"lost: checkpoint {number} was decided with other rows than {name} shows of it"
            gone = decided - sink.committed - sink.held
            if gone and config.resumes == "memory":  # else somebody says that it is lost
                return f"lost: {name} neither holds nor shows {sorted(gone)} of checkpoint {number}"
            if decided - sink.committed and number <= world.spark.committed:
                return f"lost: Spark calls checkpoint {number} done, and {name} does not show all of it"
    return ""

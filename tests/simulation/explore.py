"""The search: every world that can be reached within the budget, each looked at once."""

from __future__ import annotations

import gc
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.config import Budget, Config
from tests.simulation.moves import Moves, has_savepoint
from tests.simulation.rules import Violation, check, check_end, check_finished
from tests.simulation.sinks import holds_of_another
from tests.simulation.world import World, first_world, head_of

_STEPS = 2_000
FRESH = 99
"""Number of the driver that comes at the end: nobody else has its nonces."""


@dataclass
class Found:
    """What an exploration has seen."""

    worlds: int = 0
    ends: int = 0  # worlds in which nobody lives any more
    statuses: Counter[str] = field(default_factory=Counter)  # how processes ended, over all ends
    kinds: Counter[str] = field(default_factory=Counter)  # moves by kind: what was tried at all
    cores: set[tuple[Any, ...]] = field(default_factory=set)  # the stores at the ends
    violation: str = ""
    history: list[str] = field(default_factory=list)  # that leads to the violation


def explore(config: Config) -> Found:
    """Look at every world. Stops at the first violation."""
    gc.disable()  # millions of small tuples that all stay: looking for garbage among them takes a third of the time
    try:
        return _Search(config).run()
    finally:
        gc.enable()


class _Search:
    def __init__(self, config: Config) -> None:
        self._config = config
        self._moves = Moves(config)
        self._found = Found()
        self._came: dict[World, tuple[World, tuple[object, ...]] | None] = {}
        self._checked: set[tuple[Any, ...]] = set()

    def run(self) -> Found:
        first = self._moves.start(first_world(self._config))
        self._came[first] = None
        stack = [first]
        world = first
        try:
            while stack:
                world = stack.pop()
                self._look(world)
                for kind, text, after in self._moves.all(world):
                    self._found.kinds[kind] += 1
                    if after not in self._came:
                        self._came[after] = (world, text)
                        stack.append(after)
        except Violation as violation:
            self._found.violation = str(violation)
            self._found.history = self._history(world)
        self._found.worlds = len(self._came)
        return self._found

    def _look(self, world: World) -> None:
        visible = world.core, world.processes
        if visible not in self._checked:
            self._checked.add(visible)
            check(world, self._config)
        if any(process.status == "live" for process in world.processes):
            return
        self._found.ends += 1
        self._found.statuses.update(process.status for process in world.processes)
        check_end(world, self._config)
        if world.core not in self._found.cores:
            self._found.cores.add(world.core)
            finish(self._moves, world)

    def _history(self, world: World) -> list[str]:
        texts = []
        while (came := self._came[world]) is not None:
            world, parts = came
            texts.append(" ".join(map(str, parts)))
        return texts[::-1]


def finish(moves: Moves, world: World) -> None:
    """A fresh driver runs alone, without any trouble, and must bring everything to its end.

    Where a reset has died half way it may be refused, and another reset is due. That must go well in any world.
    """
    after, status = run_alone(moves, world)
    if world.erased is not None:
        _check_alone_after_set_back(moves, world, after, status)
        return
    if world.resumed:
        _check_alone_after_resume(moves, world, after, status)
        return
    half_rescale = is_half_rescale(world)
    if half_rescale and status != "refused":
        raise Violation(f"a start goes on from a rescale that has not ended, and ends as {status!r}")
    if status == "refused" and (half_rescale or is_half_reset(world)):
        if after.core != world.core and not world.gone:
            raise Violation("a refused start has changed something")
        if half_rescale:
            finish_by_rescale(moves, world)
    else:
        check_finished(after, status, moves.config)
    if moves.config.repairs and world.version and not is_half_reset(world) and not half_rescale:
        finish_by_repair(moves, world)
    if moves.config.resets or moves.config.resets_to:
        finish_by_reset(moves, world)
    if moves.config.restores and has_savepoint(world):
        finish_by_restore(moves, world)


def _check_alone_after_set_back(moves: Moves, world: World, after: World, status: str) -> None:
    """Everything is visible, or the driver says that it is not. Refused, it has changed nothing."""
    check(after, moves.config)
    if status == "done":
        check_finished(after, status, moves.config)
    elif status == "refused" and after.core != world.core:
        raise Violation("a refused start has changed something")
    elif status not in ("refused", "lost"):
        raise Violation(f"a driver alone ends as {status!r} after a sink went back")
    if moves.config.resets:
        _check_reset_after_set_back(moves, world)
    if moves.config.repairs:
        _check_repair_after_set_back(moves, world)


def _check_alone_after_resume(moves: Moves, world: World, after: World, status: str) -> None:
    """Everything is visible, or, where head went back as well, the driver says that it is not."""
    check(after, moves.config)
    if status == "done" or moves.config.resumes == "memory":
        check_finished(after, status, moves.config)
    elif status == "refused" and after.core != world.core:
        raise Violation("a refused start has changed something")
    elif status not in ("refused", "lost"):
        raise Violation(f"a driver alone ends as {status!r} after a machine was restored")
    if moves.config.repairs and world.version:
        ended, status = _alone(moves, moves.repair(world._replace(processes=(), budget=Budget()), FRESH + 1))
        check(ended, moves.config)
        if status == "done":
            after, status = run_alone(moves, ended)
            check_finished(after, status, moves.config)


def _check_repair_after_set_back(moves: Moves, world: World) -> None:
    """A repair alone shows each decided row once, as long as head has the records; and a start finds nothing to say."""
    ended, status = _alone(moves, moves.repair(world._replace(processes=(), budget=Budget()), FRESH + 1))
    check(ended, moves.config)
    head = head_of(world.head)
    counts = [sink.newest_counted(head.incarnation) for sink in world.sinks] if head is not None else []
    kept = [ref.checkpoint_id for ref in head.records] if head is not None else []
    is_before_the_records = any(count is None or count + 1 < min(kept, default=0) for count in counts)
    if status in ("refused", "stopped") and is_before_the_records:
        return
    if status != "done":
        raise Violation(f"a repair alone ends as {status!r} after a sink went back")
    after, status = run_alone(moves, ended)
    check_finished(after, status, moves.config)


def _check_reset_after_set_back(moves: Moves, world: World) -> None:
    """A reset alone commits what it can, and gives nothing prepared up that may be decided, but on purpose."""
    alone = world._replace(processes=(), budget=Budget())
    ended, status = _alone(moves, moves.reset(alone, FRESH + 1))
    check(ended, moves.config)
    if status == "lost":
        ended, status = _alone(moves, moves.reset(ended._replace(processes=()), FRESH + 2, abandon_lost=True))
    head = head_of(ended.head)
    of_another = head is not None and any(holds_of_another(sink, head.incarnation) for sink in ended.sinks)
    if status != "done" and not (status == "stopped" and of_another):
        raise Violation(f"a reset alone ends as {status!r} after a sink went back")


def finish_by_reset(moves: Moves, world: World) -> None:
    """A reset alone, which gives up only what was ended by hand or went with head; then a fresh driver alone."""
    before = world._replace(processes=(), budget=Budget())
    to = moves.config.resets_to > 0
    ended, status = _alone(moves, moves.reset_to(before, FRESH + 1) if to else moves.reset(before, FRESH + 1))
    if status == "lost" and (world.by_hand or world.gone):
        ended, status = _alone(moves, moves.reset(ended._replace(processes=()), FRESH + 2, abandon_lost=True))
    check(ended, moves.config)
    if status != "done" or is_half_reset(ended):
        raise Violation(f"a reset alone ends as {status!r}")
    after, status = run_alone(moves, ended)
    check_finished(after, status, moves.config)


def finish_by_repair(moves: Moves, world: World) -> None:
    """A repair alone, whatever is lost, and then a fresh driver alone, which finds nothing lost any more."""
    ended, status = _alone(moves, moves.repair(world._replace(processes=(), budget=Budget()), FRESH + 1))
    check(ended, moves.config)
    if status != "done":
        raise Violation(f"a repair alone ends as {status!r}")
    after, status = run_alone(moves, ended)
    if status == "lost":
        raise Violation("a fresh driver finds something lost after a repair")
    check_finished(after, status, moves.config)


def finish_by_rescale(moves: Moves, world: World) -> None:
    """A rescale alone, to the number of the one that has not ended, and then a fresh driver alone."""
    wanted = world.spark.state_partitions(world.spark.planned)
    ended, status = _alone(moves, moves.rescale(world._replace(processes=(), budget=Budget()), FRESH + 1, wanted))
    check(ended, moves.config)
    if status != "done" or is_half_rescale(ended):
        raise Violation(f"a rescale alone ends as {status!r}")
    after, status = run_alone(moves, ended)
    check_finished(after, status, moves.config)


def finish_by_restore(moves: Moves, world: World) -> None:
    """A start from the savepoint alone, whatever was cut short before, and then a fresh driver alone."""
    ended, status = _alone(moves, moves.restore(world._replace(processes=(), budget=Budget()), FRESH + 1))
    if status == "lost" and (world.by_hand or world.gone):
        return
    check(ended, moves.config)
    if status != "done" or is_half_reset(ended):
        raise Violation(f"a start from a savepoint alone ends as {status!r}")
    after, status = run_alone(moves, ended)
    check_finished(after, status, moves.config)


def is_half_rescale(world: World) -> bool:
    """Spark has planned one that head has not decided."""
    return world.spark.planned >= len(world.decided) and world.spark.planned in world.spark.rescales


def is_half_reset(world: World) -> bool:
    """A sink is claimed by another life than head's."""
    head = head_of(world.head)
    return head is not None and any(
        sink.claim is not None and sink.claim[0] != head.incarnation for sink in world.sinks
    )


def run_alone(moves: Moves, world: World) -> tuple[World, str]:
    """The world after one more driver has run, and how that one ended."""
    return _alone(moves, moves.start(world._replace(processes=(), budget=Budget(), away=False), FRESH))


def _alone(moves: Moves, world: World) -> tuple[World, str]:
    for _ in range(_STEPS):
        if world.processes[0].status != "live":
            return world, world.processes[0].status
        plain = next((after for kind, _, after in moves.step(world, 0) if kind == "step"), None)
        if plain is None:
            plain = next((after for kind, _, after in moves.environment(world) if kind == "finish"), None)
        if plain is None:
            raise Violation("a process alone waits for ever")
        world = plain
    raise Violation("a process alone never ends")

"""Every interleaving within the bounds, each world looked at once, shortest histories first; and what must hold."""

from __future__ import annotations

import gc
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.model.state import ENDS, Bounds, Label, Process, World, first_world
from tests.model.steps import is_waiting, moves


class Violation(Exception):
    """What the exploration looks for, and the steps that lead to it from the world under look."""

    def __init__(self, text: str, steps: Sequence[Label] = ()) -> None:
        super().__init__(text)
        self.steps = steps


@dataclass
class Found:
    """What an exploration has seen."""

    worlds: int = 0
    violation: str = ""
    trace: list[Label] = field(default_factory=list)  # that leads to the violation
    ends: Counter[str] = field(default_factory=Counter)


def explore(bounds: Bounds, broken: str = "") -> Found:
    """Look at every world; stop at the first violation."""
    gc.disable()  # what is made stays: looking for garbage among it takes a third of the time
    try:
        return _explore(bounds, broken)
    finally:
        gc.enable()


def _explore(bounds: Bounds, broken: str) -> Found:
    first = first_world(bounds)
    came: dict[World, tuple[World, Label] | None] = {first: None}
    queue = deque([first])
    found, world = Found(), first
    finished: set[World] = set()
    try:
        while queue:
            world = queue.popleft()
            check(world, bounds)
            if all(each.step in ENDS for each in world.processes):
                found.ends.update(each.step for each in world.processes)
                _check_end(world, bounds, broken, finished)
            for label, after in _successors(world, bounds, broken):
                if after not in came:
                    came[after] = (world, label)
                    queue.append(after)
    except Violation as violation:
        found.violation = str(violation)
        while (step := came[world]) is not None:
            world, label = step
            found.trace.insert(0, label)
        found.trace += violation.steps
    found.worlds = len(came)
    return found


def _successors(world: World, bounds: Bounds, broken: str) -> Iterator[tuple[Label, World]]:
    live = [
        n
        for n, each in enumerate(world.processes)
        if each.step not in ENDS and not is_waiting(world, n, bounds, broken)
    ]
    for index in live:
        turned = world
        if index != world.current and world.current in live:
            if not world.turns:
                continue
            turned = world._replace(turns=world.turns - 1)
        turned = turned._replace(current=index)
        yield from moves(turned, index, bounds, broken)
        me = world.processes[index]
        yield (index, "dies"), _with_its_threads_dead(turned, me.leader if me.leader >= 0 else index)
        if world.aborters and me.step == "decide":
            aborter = Process("abort", me.head, number=me.number, attempt=me.attempt, is_aborter=True)
            asked = turned._replace(aborters=world.aborters - 1, processes=(*turned.processes, aborter))
            yield (index, "is to be aborted"), asked
    drivers = sum(not each.is_aborter and each.leader < 0 for each in world.processes)
    if drivers < bounds.drivers and (world.turns or world.current not in live):
        spent = world._replace(turns=world.turns - (world.current in live), current=len(world.processes))
        yield (len(world.processes), "starts"), spent._replace(processes=(*world.processes, Process()))
    for sent in sorted(world.wire):
        rest = world._replace(wire=world.wire - {sent})
        if sent[0] == world.head or broken == "swap without compare":
            yield ("deliver",), rest._replace(head=sent[1], wire=frozenset())
    awaited = _awaited(world)
    for xid in sorted(world.open - awaited):
        ready = world._replace(open=world.open - {xid}, prepared=world.prepared | {xid})
        for index, each in enumerate(world.processes):
            if each.old == xid:
                ready = ready.put(index, heard=True)
        yield ("straggler", xid), ready


def _with_its_threads_dead(world: World, index: int) -> World:
    dead = Process(step="dead")
    return world._replace(
        processes=tuple(
            dead._replace(leader=each.leader) if n == index or each.leader == index else each
            for n, each in enumerate(world.processes)
        )
    )


def _awaited(world: World) -> set[object]:
    """Attempts that a living driver still waits for."""
    return {
        (each.head.epoch, each.number, each.attempt, *each.todo[0][:3])
        for each in world.processes
        if each.step == "task" and each.todo
    }


def check(world: World, bounds: Bounds) -> None:
    """In every world: nothing doubled, early or lost, and head and Spark say no more than is true."""
    head = world.head
    shown = Counter((x.number, x.sink, x.task) for x in world.committed)
    if any(times > 1 for times in shown.values()):
        raise Violation(f"doubled: {sorted(world.committed)}")
    decided = frozenset(x for each in head.completed for x in each)
    if world.committed - decided:
        raise Violation(f"visible without a decision: {sorted(world.committed - decided)}")
    if decided - world.committed - world.prepared:
        raise Violation(f"lost: {sorted(decided - world.committed - world.prepared)}")
    said = max(head.committed, world.done - bounds.behind)
    waits = [x for x in decided - world.committed if x.number <= said]
    if waits or world.done > len(head.completed):
        raise Violation(f"head or Spark calls checkpoint {said} done: {waits}")
    if [x for x in decided if x.number > bounds.checkpoints] or len(head.completed) > bounds.checkpoints:
        raise Violation("a checkpoint was decided twice")
    left = [x for x in world.prepared | world.open if x.epoch == head.epoch and x.number <= head.committed]
    if left or any(p[1] == head.epoch and p[2] <= head.committed for p in world.permits):
        raise Violation(f"head calls a checkpoint committed that is not closed: {left}")
    for each in world.processes:
        if each.step == "lost":
            raise Violation("a driver takes for lost what is not")
        if each.step in ("fenced", "stopped") and sum(other.leader < 0 for other in world.processes) == 1:
            raise Violation(f"a driver that has never met another one is {each.step}")


def _check_end(world: World, bounds: Bounds, broken: str, finished: set[World]) -> None:
    done = [each for each in world.processes if each.step == "done"]
    if bounds.behind:  # one that was superseded may see Spark's mark of what its successor's thread never committed
        done = [each for each in done if each.head.epoch == world.head.epoch]
    if done and world.prepared:
        raise Violation(f"finished, and left prepared: {sorted(world.prepared)}")
    alone = world._replace(
        processes=(*world.processes, Process()), current=len(world.processes), unanswered=0, repeats=0, failures=0
    )._replace(aborters=0, turns=0)
    steps: list[Label] = [(alone.current, "starts")]
    try:
        while (index := _to_go(alone, bounds, broken)) is not None:
            if alone in finished:
                return
            finished.add(alone)
            label, alone = next(moves(alone, index, bounds, broken))
            steps.append(label)
            check(alone, bounds)
        _check_finished(alone, len(world.processes), bounds)
    except Violation as violation:
        raise Violation(str(violation), steps) from violation


def _to_go(world: World, bounds: Bounds, broken: str) -> int | None:
    """The first that can: a driver before its threads."""
    for index, each in enumerate(world.processes):
        if each.step not in ENDS and not is_waiting(world, index, bounds, broken):
            return index
    return None


def _check_finished(alone: World, driver: int, bounds: Bounds) -> None:
    wanted = {
        (n + 1, s, t) for n in range(bounds.checkpoints) for s in range(bounds.sinks) for t in range(bounds.tasks)
    }
    end = alone.processes[driver].step
    if end != "done" or {(x.number, x.sink, x.task) for x in alone.committed} != wanted:
        raise Violation(f"a driver alone ends as {end} and shows {sorted(alone.committed)}")
    if alone.prepared or alone.open or alone.permits:
        raise Violation(f"a driver alone leaves {sorted(alone.prepared | alone.open)} {sorted(alone.permits)}")

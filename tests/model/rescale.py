"""`eos rescale` among starts (R2): exhaustive model of head and Spark's two logs.

One head, Spark's plans and commits, and some processes, each a run or a rescale, each of which may stand still for as
long as it likes, or die, between any two steps. Spark creates each file of its logs once: who comes second is told. In
every state head names only batches that Spark has planned as head says, and Spark's state of a batch is of the plan
that stands there. Where all have come to their end, one more rescale, alone, and a run after it go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.model.reach import Violation, reach

ENDS = ("done", "fenced", "dead", "refused", "failed")
BATCHES = 2  # that a run completes
VARIANTS = (  # each must be caught
    "swap without compare",
    "head decides before Spark knows",
    "a start goes on from a rescale that has not ended",
    "a plan is written over another's",
    "a plan is taken back though Spark has committed it",
    "two rescales at once",
)
BEFORE = 3  # state partitions at the beginning


class Plan(NamedTuple):
    state_partitions: int
    serial: int  # tells plans of one batch apart


class Head(NamedTuple):
    epoch: int = 1
    decided: tuple[Plan, ...] = (Plan(BEFORE, 0),)


class Process(NamedTuple):
    asked: int | None  # state partitions; None: a run
    step: str = "read"
    head: Head = Head()
    plan: Plan | None = None
    done: int = 0  # batches of this run


class World(NamedTuple):
    head: Head = Head()
    plans: tuple[Plan, ...] = (Plan(BEFORE, 0),)
    commits: tuple[Plan, ...] = (Plan(BEFORE, 0),)  # the plan that each batch's state was made by
    serial: int = 1
    processes: tuple[Process, ...] = ()

    @property
    def rescaled_to(self) -> int | None:
        now = self.plans[-1].state_partitions
        return now if len(self.plans) > 1 and now != self.plans[-2].state_partitions else None


def moves(world: World, index: int, broken: str) -> Iterator[World]:
    """What one process may do next."""
    me = world.processes[index]
    number = len(me.head.decided)

    def go(step: str, world: World = world, **changes: Any) -> World:
        processes = list(world.processes)
        processes[index] = me._replace(step=step, **changes)
        return world._replace(processes=tuple(processes))

    def planned(step: str, state_partitions: int) -> World:
        plan = Plan(state_partitions, world.serial)
        return go(step, world._replace(plans=(*world.plans, plan), serial=world.serial + 1), plan=plan)

    match me.step:
        case "read":  # R2
            last = len(world.head.decided)
            half = world.rescaled_to is not None and len(world.plans) == last + 1
            lenient = me.asked is not None or broken == "a start goes on from a rescale that has not ended"
            if len(world.plans) not in (last, last + 1) or (len(world.commits) > last and not half):
                raise Violation(f"a start finds stores that do not fit: {world}")
            yield go("refused") if half and not lenient else go("claim", head=world.head)
        case "claim":  # R1
            if world.head != me.head:
                yield go("read")
                return
            head = world.head._replace(epoch=world.head.epoch + 1)
            yield go("plan" if me.asked is None else "look", world._replace(head=head), head=head)
        case "look":
            yield from _look(world, me, go, broken)
        case "plan":
            if me.done == BATCHES:
                yield go("done")
            elif len(world.plans) > number + 1 or len(world.commits) > number:
                yield go("failed")  # Spark goes on from the newest of its own, and head does not take that
            elif len(world.commits) < number:  # R4: it is decided, and only its state is made again
                yield go("commit", plan=world.plans[number - 1])
            elif len(world.plans) == number:
                yield planned("decide", world.plans[-1].state_partitions)
            elif world.rescaled_to is not None and not broken.startswith("a start goes on"):
                yield go("failed")  # Spark's own check
            else:
                yield go("decide", plan=world.plans[number])
        case "create":  # of offsets/N, by a rescale that has seen none
            assert me.asked is not None
            if len(world.plans) > number and broken == "a plan is written over another's":
                over = Plan(me.asked, world.serial)
                plans = (*world.plans[:number], over, *world.plans[number + 1 :])
                yield go("rewrite", world._replace(plans=plans, serial=world.serial + 1), plan=over)
            elif len(world.plans) > number:
                yield go("failed")
            else:
                yield planned("decide" if broken == "head decides before Spark knows" else "rewrite", me.asked)
        case "rewrite":  # the state, then commits/N
            assert me.plan is not None
            if len(world.commits) == number and len(world.plans) > number:
                yield go("decide", world._replace(commits=(*world.commits, me.plan)))
                yield go("take back")
            else:
                yield go("take back")
        case "take back":
            if world.head.epoch != me.head.epoch:
                yield go("fenced")
            else:
                yield go("failed", _dropped(world, number, broken))
        case "drop":
            yield go("done", _dropped(world, number, broken))
        case "decide":
            assert me.plan is not None
            if world.head != me.head and broken != "swap without compare":
                yield go("fenced")
                return
            head = me.head._replace(decided=(*me.head.decided, me.plan))
            after = world._replace(head=head)
            if me.asked is None:
                yield go("commit", after, head=head)
            else:
                yield go("rewrite late" if broken == "head decides before Spark knows" else "done", after, head=head)
        case "commit":  # of a run
            yield from _commit(world, me, go, "plan")
        case "rewrite late":
            yield from _commit(world, me, go, "done")


def _look(world: World, me: Process, go: Any, broken: str) -> Iterator[World]:
    number = len(me.head.decided)
    before = me.head.decided[-1].state_partitions
    if len(world.plans) > number + 1 or (world.rescaled_to is None and len(world.plans) > number):
        yield go("refused")  # a batch is under way
    elif len(world.commits) < number:
        yield go("refused")
    elif len(world.plans) > number:
        plan, is_done = world.plans[number], len(world.commits) > number
        if plan.state_partitions == me.asked:
            yield go("decide" if is_done else "rewrite", plan=plan)
        elif me.asked == before and (not is_done or broken.startswith("a plan is taken back")):
            yield go("drop")
        else:
            yield go("refused")
    elif me.asked == before:
        yield go("done")
    else:
        yield go("create")


def _dropped(world: World, number: int, broken: str) -> World:
    """Only what a rescale has planned and Spark has not committed."""
    if len(world.plans) != number + 1 or world.rescaled_to is None:
        return world
    if len(world.commits) > number and not broken.startswith("a plan is taken back"):
        return world
    return world._replace(plans=world.plans[:number])


def _commit(world: World, me: Process, go: Any, then: str) -> Iterator[World]:
    number = len(me.head.decided) - 1
    if len(world.commits) > number:
        yield go("failed")
        return
    assert me.plan is not None
    yield go(then, world._replace(commits=(*world.commits, me.plan)), done=me.done + 1)


def check(world: World) -> None:
    last = len(world.head.decided)
    if world.plans[:last] != world.head.decided:
        raise Violation(f"head has decided {world.head.decided}, Spark has planned {world.plans}")
    if world.commits != world.plans[: len(world.commits)]:
        raise Violation(f"Spark's state is of {world.commits}, its plans are {world.plans}")
    if len(world.commits) > last and world.rescaled_to is None:
        raise Violation("Spark has committed what head has not decided")


def successors(world: World, processes: int, broken: str) -> Iterator[World]:
    for index, process in enumerate(world.processes):
        if process.step in ENDS:
            continue
        yield from moves(world, index, broken)
        dead = list(world.processes)
        dead[index] = process._replace(step="dead")
        yield world._replace(processes=tuple(dead))
    if len(world.processes) < processes:
        rescaling = any(p.asked is not None and p.step not in ENDS for p in world.processes)
        yield world._replace(processes=(*world.processes, Process(None)))
        if not rescaling or broken == "two rescales at once":  # one at a time, by a lock that lives as they do
            for asked in (BEFORE, 5):
                yield world._replace(processes=(*world.processes, Process(asked)))


def check_final(world: World, broken: str) -> None:
    """A rescale alone, to what has not ended, and then a run alone."""
    after = world
    for asked in [*([world.rescaled_to] if world.rescaled_to is not None else []), None]:
        after = after._replace(processes=(*after.processes, Process(asked)))
        last = len(after.processes) - 1
        while after.processes[last].step not in ENDS:
            found = next(moves(after, last, broken))
            check(found)
            after = found
        if after.processes[last].step != "done":
            raise Violation(f"{'a run' if asked is None else 'a rescale'} alone ends as {after.processes[last]}")


def explore(broken: str = "", processes: int = 3) -> tuple[int, str]:
    """States seen, and the first violation ('' if none)."""

    def look(world: World) -> None:
        check(world)
        if all(process.step in ENDS for process in world.processes):
            check_final(world, broken)

    return reach(World(), look, lambda world: successors(world, processes, broken))

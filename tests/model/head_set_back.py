"""A head register that goes back in time while drivers live (H29): exhaustive model.

A fail-over to a replica that lags, or a backup that is put back, takes the newest swaps away. The model has one head,
one sink and some drivers, each of which may die between any two steps. A head is the whole line of its swaps, so that
two heads of one version are equal only if every swap before them was the same.

In every state each swap lands on the head that its driver holds, no driver writes on after one of its own swaps was
taken away, no checkpoint is shown twice and nothing decided is lost. At the end one more driver, alone, is refused or
finishes the work. Swaps on the wire are left out: they end with the server that is failed over from.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.model.reach import Violation, reach

DRIVERS, CHECKPOINTS, SET_BACKS = 2, 2, 2
ENDS = ("done", "fenced", "dead", "refused", "lost", "set back")
_TWICE = "an epoch that another driver has claimed as well goes on (H29)"
VARIANTS = (  # each must be caught
    "a swap compares the version alone (H29)",
    "an older head is merged onto (H29)",
    "a start does not look again at the sinks (H29)",
    _TWICE,
)
Xid = tuple[int, int, int]  # (driver, epoch, checkpoint): ids are of epochs, and two drivers may have one epoch


class Swap(NamedTuple):
    """Head after a swap."""

    driver: int
    epoch: int
    completed: tuple[Xid, ...] = ()  # completed[i] decides checkpoint i + 1
    committed: int = 0


Head = tuple[Swap, ...]  # all swaps of this line; its length is the version
BORN = Swap(-1, 0)


class Driver(NamedTuple):
    step: str = "read"
    head: Head = ()  # what this driver believes head to be
    landed: Head = ()  # its own swaps
    todo: tuple[Xid, ...] = ()


class World(NamedTuple):
    head: Head = ()
    claimed: int = 0  # the epoch in the sink's claim row
    permits: frozenset[tuple[int, int]] = frozenset()  # epoch and checkpoint
    prepared: frozenset[Xid] = frozenset()
    committed: frozenset[Xid] = frozenset()
    planned: int = 0  # by Spark
    done: int = 0  # the newest checkpoint that Spark takes for done
    drivers: tuple[Driver, ...] = (Driver(),)
    set_backs: int = SET_BACKS
    unclaimed: bool = False  # the register has gone back over a claim


def newest(head: Head) -> Swap:
    return head[-1] if head else BORN


def refused(world: World, head: Head) -> bool:
    """R2: head, Spark and the sink do not tell one story."""
    now = newest(head)
    completed = len(now.completed)
    return (
        world.claimed > now.epoch
        or max((number for *_, number in world.committed), default=0) > completed
        or world.done > completed
        or world.planned not in (completed, completed + 1)
    )


def swap(world: World, index: int, after: Swap, step: str, broken: str, **changes: Any) -> World:
    """R6: `after` follows the head that the driver holds, or the driver stops."""
    me = world.drivers[index]
    alone = broken == "a swap compares the version alone (H29)"
    if len(world.head) == len(me.head) if alone else world.head == me.head:
        if world.head != me.head:
            raise Violation("a swap lands on another history")
        head = (*me.head, after)
        if not set(me.landed) <= set(head):
            raise Violation("a driver goes on upon a head that lacks what it has written")
        world = world._replace(head=head)
        return put(world, index, step=step, head=head, landed=(*me.landed, after), **changes)
    if step == "commit decided":
        return put(world, index, step="read")  # a claim begins again
    if newest(world.head).epoch > newest(me.head).epoch:
        return put(world, index, step="fenced")
    if broken == "an older head is merged onto (H29)" and newest(world.head).epoch == newest(me.head).epoch:
        return put(world, index, head=world.head)
    return put(world, index, step="set back")


def put(world: World, index: int, **changes: Any) -> World:
    drivers = list(world.drivers)
    drivers[index] = drivers[index]._replace(**changes)
    return world._replace(drivers=tuple(drivers))


def advance(world: World, index: int, broken: str) -> World:
    """The world after driver `index` takes its next step."""
    me = world.drivers[index]
    mine = newest(me.head)
    number = len(mine.completed) + 1
    match me.step:
        case "read":
            return put(world, index, step="compare", head=world.head)
        case "compare":  # R2
            return put(world, index, step="refused" if refused(world, me.head) else "claim")
        case "claim":  # R1
            after = Swap(index, mine.epoch + 1, mine.completed, mine.committed)
            todo = after.completed[after.committed :]
            return swap(world, index, after, "commit decided", broken, todo=todo)
        case "commit decided":  # R3, first half
            if me.todo:
                return commit(world, index, me)
            return put(world, index, step="raise")
        case "raise":  # R3: nobody of an older epoch prepares from here on
            if world.claimed > mine.epoch:
                return put(world, index, step="fenced")
            kept = frozenset(each for each in world.permits if each[0] >= mine.epoch)
            return put(world._replace(claimed=mine.epoch, permits=kept), index, step="abort")
        case "abort":  # R3, second half
            if any(each[1] == mine.epoch for each in world.prepared) and broken != _TWICE:
                return put(world, index, step="set back")  # another driver has this epoch, too
            left = frozenset(each for each in world.prepared if each[1] < mine.epoch)
            return put(world._replace(prepared=world.prepared - left), index, step="look again")
        case "look again":
            shown = max((number for *_, number in world.committed), default=0)
            if broken != "a start does not look again at the sinks (H29)" and shown > len(mine.completed):
                return put(world, index, step="set back")
            return put(world, index, step="said" if mine.committed < len(mine.completed) else "plan")
        case "plan":
            if world.done >= CHECKPOINTS:
                return put(world, index, step="done")
            if world.done < len(mine.completed):  # R4: the decision exists, and it is committed
                return put(world._replace(done=world.done + 1), index)
            return put(world._replace(planned=max(world.planned, number)), index, step="permit")
        case "permit":  # R5
            if world.claimed != mine.epoch:
                return put(world, index, step="fenced")
            return put(world._replace(permits=world.permits | {(mine.epoch, number)}), index, step="prepare")
        case "prepare":
            if (mine.epoch, number) not in world.permits:
                return put(world, index, step="fenced")
            xid = (index, mine.epoch, number)
            return put(world._replace(prepared=world.prepared | {xid}), index, step="decide", todo=(xid,))
        case "decide":  # R6; a head that is merged onto may have gone on, or lack the checkpoint before
            if me.todo[0][2] != number:
                return put(world, index, step="refused")
            after = mine._replace(driver=index, completed=(*mine.completed, me.todo[0]))
            return swap(world, index, after, "commit", broken)
        case "commit":  # R7
            if me.todo:
                return commit(world, index, me)
            return put(world, index, step="close")
        case "close":  # R9: everything else of this epoch and checkpoint is ended
            last = len(mine.completed)
            left = frozenset(x for x in world.prepared if x[1:] == (mine.epoch, last))
            permits = world.permits - {(mine.epoch, last)}
            return put(world._replace(prepared=world.prepared - left, permits=permits), index, step="said")
        case "said":
            after = mine._replace(driver=index, committed=len(mine.completed))
            return swap(world, index, after, "plan", broken)
    raise AssertionError(me.step)


def commit(world: World, index: int, me: Driver) -> World:
    xid, rest = me.todo[0], me.todo[1:]
    if xid in world.prepared:
        world = world._replace(prepared=world.prepared - {xid}, committed=world.committed | {xid})
    elif xid not in world.committed:
        seen, mine = newest(world.head), newest(me.head)
        return put(world, index, step="lost" if seen.epoch == mine.epoch else "fenced")
    return put(world, index, todo=rest)


def successors(world: World, broken: str) -> Iterator[World]:
    for index, driver in enumerate(world.drivers):
        if driver.step in ENDS:
            continue
        yield advance(world, index, broken)
        yield put(world, index, step="dead", todo=())
    if len(world.drivers) < DRIVERS:
        yield world._replace(drivers=(*world.drivers, Driver()))
    if world.set_backs and world.head:
        before = world.head[:-1]
        unclaimed = world.unclaimed or newest(before).epoch < newest(world.head).epoch
        yield world._replace(head=before, set_backs=world.set_backs - 1, unclaimed=unclaimed)


def check(world: World) -> None:
    numbers = [number for *_, number in world.committed]
    if len(numbers) != len(set(numbers)):
        raise Violation(f"shown twice: {sorted(world.committed)}")
    now = newest(world.head)
    if now.committed > len(now.completed):
        raise Violation("head calls a checkpoint committed that it lacks")
    gone = set(now.completed) - world.committed - world.prepared
    if gone and not world.unclaimed:
        raise Violation(f"lost: {sorted(gone)}")
    if any(driver.step == "done" and set(numbers) != set(range(1, CHECKPOINTS + 1)) for driver in world.drivers):
        raise Violation(f"finished with {sorted(world.committed)}")


def check_end(world: World, broken: str) -> None:
    """One more driver, alone: it is refused, or it finishes the work."""
    alone = world._replace(drivers=(*world.drivers, Driver()), set_backs=0)
    while alone.drivers[-1].step not in ENDS:
        alone = advance(alone, len(world.drivers), broken)
        check(alone)
    if alone.drivers[-1].step not in ("done", "refused", *(("lost",) if world.unclaimed else ())):
        raise Violation(f"a driver alone ends as {alone.drivers[-1].step}")
    if alone.drivers[-1].step == "done" and alone.prepared:
        raise Violation(f"a driver alone leaves {sorted(alone.prepared)}")


def explore(broken: str = "") -> tuple[int, str, set[str]]:
    """States seen, the first violation ('' if none), and how drivers have ended."""
    ends = set[str]()

    def look(world: World) -> None:
        check(world)
        if all(driver.step in ENDS for driver in world.drivers):
            ends.update(driver.step for driver in world.drivers)
            check_end(world, broken)

    return *reach(World(), look, lambda world: successors(world, broken)), ends

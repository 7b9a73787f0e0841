"""Several lives of one pipeline: exhaustive model of a reset (R2) among drivers that start, die and wake up.

Up to DRIVERS drivers, one of which may be a reset or a start from a savepoint of the very beginning, against one head
and one sink; each may die between any two steps. A start from a savepoint is a reset that was agreed to: what had been
decided when it was looked at, and no more, may come again. A reset to positions (`eos reset --to completed`) begins the
new incarnation after the checkpoints that were decided when the user agreed: no checkpoint may come twice.
In every state no checkpoint is committed twice, nothing decided is lost, and a life that has ended leaves nothing
undone; where a driver has finished nothing is left prepared, and one more driver, alone, finishes the work.
What happens within one life, task by task, is in `state`, `steps` and `search`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.model.reach import Violation, reach

DRIVERS, CHECKPOINTS = 3, 1
VARIANTS = (  # each must be caught
    "swap without compare",
    "no permit",
    "permit without claim",
    "reset without commit",
    "reset without abort",
    "a start from a savepoint does not look again",
    "a reset to positions does not compare head again (H30)",
)
ENDS = ("done", "fenced", "dead", "reset", "refused")
Xid = tuple[int, int]  # (epoch, checkpoint)


class Head(NamedTuple):
    epoch: int = 0
    completed: tuple[Xid, ...] = ()  # completed[i] decides checkpoint i + 1
    born: int = 0  # the epoch of the reset with which this life began
    begins: int | None = None  # checkpoints before the positions that a reset chose; None: no positions were chosen


class Driver(NamedTuple):
    step: str = "read"
    head: Head = Head()  # what this driver believes head to be
    todo: tuple[Xid, ...] = ()
    resets: bool = False
    agreed: tuple[Xid, ...] | None = None  # what was decided when the user agreed
    to_positions: bool = False  # a reset whose new incarnation begins after `agreed`


class World(NamedTuple):
    head: Head = Head()
    prepared: frozenset[Xid] = frozenset()
    committed: frozenset[Xid] = frozenset()
    claimed: int = 0  # the epoch in the sink's claim row
    permits: frozenset[Xid] = frozenset()  # rows in the sink that a preparing transaction must find
    drivers: tuple[Driver, ...] = (Driver(),)
    ended: frozenset[Xid] = frozenset()  # what lives before this one had decided


def commit(world: World, xid: Xid) -> World:
    if xid in world.prepared:
        return world._replace(prepared=world.prepared - {xid}, committed=world.committed | {xid})
    if xid in world.committed:
        return world  # the witness says: already committed
    raise Violation(f"lost: {xid} is in a completed checkpoint, but was rolled back")


def advance(world: World, index: int, broken: str) -> World:
    """The world after driver `index` takes its next step."""
    me = world.drivers[index]
    mine = me.head.epoch

    def go(step: str, world: World = world, **changes: object) -> World:
        drivers = list(world.drivers)
        drivers[index] = me._replace(step=step, **changes)  # type: ignore[arg-type]
        return world._replace(drivers=tuple(drivers))

    if me.step == "look":  # of a reset to positions or a start from a savepoint
        return go("read", agreed=world.head.completed)
    if me.step == "read":
        return go("claim", head=world.head)
    if me.step == "claim":  # R1
        if world.head != me.head:
            return go("read")
        unchecked = VARIANTS[-1] if me.to_positions else VARIANTS[-2]
        if me.agreed is not None and broken != unchecked and world.head.completed != me.agreed:
            return go("refused")
        head = world.head._replace(epoch=world.head.epoch + 1)
        first = "recover-revoke" if me.resets and broken == "reset without commit" else "recover-commit"
        return go(first, world._replace(head=head), head=head, todo=head.completed)
    if me.step == "recover-commit":  # R3, first half
        if me.todo:
            return go("recover-commit", commit(world, me.todo[0]), todo=me.todo[1:])
        return go("recover-revoke")
    if me.step == "recover-revoke":  # after this, no older epoch prepares
        if world.claimed > mine:
            return go("fenced")
        world = world._replace(claimed=mine)
        return go("recover-abort-list", world._replace(permits=frozenset(x for x in world.permits if x[0] == mine)))
    if me.step == "recover-abort-list":  # R3, second half
        if me.resets and broken == "reset without abort":
            return go("permit")
        keep = () if me.resets else me.head.completed
        stale = tuple(sorted(x for x in world.prepared if x[0] < mine and x not in keep))
        return go("recover-abort", todo=stale)
    if me.step == "recover-abort":
        if me.todo:
            return go("recover-abort", world._replace(prepared=world.prepared - {me.todo[0]}), todo=me.todo[1:])
        return go("permit")
    if me.step == "permit" and me.resets:  # R2: nothing of the old life is left, so that another one may begin
        if world.head != me.head:
            return go("fenced")
        if me.agreed is not None and not me.to_positions and set(me.head.completed) != set(me.agreed):
            raise Violation(f"{sorted(me.head.completed)} come twice, and {sorted(me.agreed)} were said to")
        head = Head(mine, born=mine, begins=len(me.agreed) if me.agreed is not None and me.to_positions else None)
        return go("reset", world._replace(head=head, ended=world.ended | set(me.head.completed)), head=head)
    number = (me.head.begins or 0) + len(me.head.completed) + 1
    if me.step == "permit":
        if number > CHECKPOINTS:
            return go("done")
        if world.claimed != mine and broken != "permit without claim":
            return go("fenced")
        return go("prepare", world._replace(permits=world.permits | {(mine, number)}))
    if me.step == "prepare":  # R5
        if (mine, number) not in world.permits and broken != "no permit":
            return go("fenced")
        xid = (mine, number)
        if xid in world.prepared | world.committed:
            return go("decide")  # a second prepare of the same id is refused by the database
        return go("decide", world._replace(prepared=world.prepared | {xid}))
    if me.step == "decide":  # R6
        xid = (mine, number)
        if world.head != me.head and broken != "swap without compare":
            return go("fenced")  # and touches nothing more
        head = me.head._replace(completed=(*me.head.completed, xid))
        return go("commit", world._replace(head=head), head=head)
    if me.step == "commit":  # R7
        return go("permit", commit(world, me.head.completed[-1]))
    raise AssertionError(me.step)


def successors(world: World, broken: str) -> Iterator[World]:
    for index, driver in enumerate(world.drivers):
        if driver.step in ENDS:
            continue
        yield advance(world, index, broken)
        drivers = list(world.drivers)
        drivers[index] = driver._replace(step="dead")
        yield world._replace(drivers=tuple(drivers))
    if len(world.drivers) < DRIVERS:
        yield world._replace(drivers=(*world.drivers, Driver()))
        if not any(driver.resets for driver in world.drivers):
            yield world._replace(drivers=(*world.drivers, Driver(resets=True)))
            yield world._replace(drivers=(*world.drivers, Driver("look", resets=True)))
            yield world._replace(drivers=(*world.drivers, Driver("look", resets=True, to_positions=True)))


def has_finished(world: World, driver: Driver) -> bool:
    return driver.step == "done" and driver.head.born == world.head.born


def check(world: World) -> None:
    given_up = world.ended - world.committed
    left = [xid for xid in world.prepared if xid[0] <= world.head.born]
    if given_up or left:
        raise Violation(f"a life has ended with {sorted(given_up)} not committed and {sorted(left)} left prepared")
    before = world.ended if world.head.begins is None else frozenset()  # else rows of both incarnations count
    numbers = [number for _, number in world.committed - before]
    if len(numbers) != len(set(numbers)):
        raise Violation(f"duplicated: {sorted(world.committed)}")
    for driver in world.drivers:
        if has_finished(world, driver) and set(numbers) != set(range(1, CHECKPOINTS + 1)):
            raise Violation(f"finished with {sorted(world.committed)} committed")


def final(world: World) -> bool:
    return len(world.drivers) == DRIVERS and all(d.step in ENDS for d in world.drivers)


def check_final(world: World, broken: str) -> None:
    if world.prepared and any(has_finished(world, d) for d in world.drivers):
        raise Violation(f"left prepared: {sorted(world.prepared)}")
    after = world._replace(drivers=(*world.drivers, Driver()))
    while after.drivers[-1].step not in ENDS:
        after = advance(after, len(after.drivers) - 1, broken)
    check(after)
    if after.prepared:
        raise Violation(f"a fresh start leaves prepared: {sorted(after.prepared)}")


def explore(broken: str = "") -> tuple[int, str]:
    """States seen, and the first violation ('' if none)."""

    def look(world: World) -> None:
        check(world)
        if final(world):
            check_final(world, broken)

    return reach(World(), look, lambda world: successors(world, broken))

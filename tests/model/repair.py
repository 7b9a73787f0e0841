"""`eos repair` among starts (R7): exhaustive model of one decided checkpoint that somebody takes parts of away.

One head, one sink that prepares transactions, and some drivers, each a start or a repair, each of which may die
between any two steps. Before, and at any moment meanwhile, what is decided and prepared may be ended by hand. In
every state no task's rows are seen twice, and nobody but that hand ends what is decided; where all have come to their
end, one more repair, alone, brings each task's rows into the sink once and leaves nothing prepared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.model.reach import Violation, reach

TASKS, BY_HAND = 2, 2
ENDS = ("done", "fenced", "dead", "lost", "refused")
VARIANTS = (  # each must be caught
    "swap without compare",
    "the sinks are claimed before what is decided is committed",
    "the sinks are not claimed",
    "committed is said though something is lost",
    "a plain read of the witness, and the lost one's is not held",
    "no permit, and the lost one's witness is not held",
    "who holds the lost one's witness is waited for",
)
Xid = tuple[int, int]  # (epoch, task)
DECIDED: tuple[Xid, ...] = tuple((1, task) for task in range(TASKS))  # before anything is repaired


class Head(NamedTuple):
    epoch: int = 1
    decided: tuple[Xid, ...] = DECIDED
    committed: bool = False


class Driver(NamedTuple):
    repairs: bool
    step: str = "read"
    head: Head = Head()  # what this driver believes head to be
    todo: tuple[Xid, ...] = ()
    lost: tuple[Xid, ...] = ()
    is_mended: bool = False


class World(NamedTuple):
    head: Head = Head()
    prepared: frozenset[Xid] = frozenset(DECIDED)
    committing: frozenset[Xid] = frozenset()  # a commit is under way: neither listed nor yet seen
    committed: frozenset[Xid] = frozenset()
    witnesses: frozenset[Xid] = frozenset()  # of what is committed, and of what that was written for
    claimed: int = 1
    permits: frozenset[int] = frozenset({1})  # by epoch
    by_hand: int = BY_HAND  # how often it may still happen
    drivers: tuple[Driver, ...] = ()


def held(xid: Xid, broken: str) -> Xid:
    """Whose witness a transaction holds beside its own: that of the one which it is written for."""
    return xid if "is not held" in broken else (1, xid[1])


def moves(world: World, index: int, broken: str) -> Iterator[World]:
    """What one driver may do next; nothing while it waits for a lock."""
    me = world.drivers[index]
    mine = me.head.epoch

    def go(step: str, world: World = world, **changes: Any) -> World:
        drivers = list(world.drivers)
        drivers[index] = me._replace(step=step, **changes)
        return world._replace(drivers=tuple(drivers))

    match me.step:
        case "read":
            yield go("claim", head=world.head)
        case "claim":  # R1
            if world.head != me.head:
                yield go("read")
                return
            head = world.head._replace(epoch=world.head.epoch + 1)
            todo = () if head.committed else head.decided
            first = "raise" if broken == "the sinks are claimed before what is decided is committed" else "commit"
            yield go(first, world._replace(head=head), head=head, todo=todo)
        case "commit":  # R3, R7
            yield from _commit(world, me, go, broken)
        case "raise":  # R3: nobody older prepares from here on
            if world.claimed > mine:
                yield go("fenced")
                return
            after = world._replace(claimed=mine, permits=frozenset(e for e in world.permits if e >= mine))
            left = frozenset(x for x in world.prepared if x[0] < mine)
            if left & set(world.head.decided):
                raise Violation(f"a claim ends {sorted(left)}, of which some is decided")
            after = after._replace(prepared=after.prepared - left)
            if me.todo:  # of the broken variant
                yield go("commit", after)
            else:
                yield go("permit" if me.lost else "said", after)
        case "permit":  # R5
            if world.claimed != mine and broken != "the sinks are not claimed":
                yield go("fenced")
                return
            yield go("write", world._replace(permits=world.permits | {mine}), todo=me.lost)
        case "write":
            yield from _write(world, me, go, broken)
        case "swap":  # R6
            if world.head != me.head and broken != "swap without compare":
                yield go("fenced")
                return
            again = {task: (mine, task) for _, task in me.lost}
            head = me.head._replace(decided=tuple(again.get(x[1], x) for x in me.head.decided))
            yield go("commit", world._replace(head=head), head=head, todo=head.decided, lost=(), is_mended=True)
        case "close":  # R9
            if mine not in world.permits:
                yield go("said")
                return
            left = frozenset(x for x in world.prepared if x[0] == mine)
            yield go("said", world._replace(permits=world.permits - {mine}, prepared=world.prepared - left))
        case "said":
            if world.head != me.head:
                yield go("fenced")
                return
            head = me.head._replace(committed=True)
            yield go("done", world._replace(head=head), head=head)


def _commit(world: World, me: Driver, go: Any, broken: str) -> Iterator[World]:
    if not me.todo:
        if me.is_mended:
            yield go("refused" if me.lost else "close")
        elif me.lost and not me.repairs:
            said = broken == "committed is said though something is lost"
            yield go("said" if said else "fenced" if world.head.epoch != me.head.epoch else "lost")
        elif me.lost and broken.startswith("the sinks are "):
            yield go("permit")
        else:
            yield go("raise")
        return
    xid, rest = me.todo[0], me.todo[1:]
    if xid in world.prepared:
        yield go("commit", world._replace(prepared=world.prepared - {xid}, committing=world.committing | {xid}))
    elif xid in world.committing:
        seen = {xid, held(xid, broken)}
        done = world._replace(
            committing=world.committing - {xid},
            committed=world.committed | {xid},
            witnesses=world.witnesses | seen,
        )
        yield go("commit", done, todo=rest)  # it waited until it was over
        if broken.startswith("a plain read"):
            yield go("commit", todo=rest, lost=(*me.lost, xid))
    elif xid in world.witnesses:
        yield go("commit", todo=rest)
    elif broken.startswith("who holds") and any(held(other, broken) == xid for other in world.prepared):
        return
    else:  # also where a repair that died has prepared its rows again, and holds its witness
        yield go("commit", todo=rest, lost=(*me.lost, xid))


def _write(world: World, me: Driver, go: Any, broken: str) -> Iterator[World]:
    if not me.todo:
        yield go("swap")
        return
    (_, task), rest = me.todo[0], me.todo[1:]
    xid = (me.head.epoch, task)
    if me.head.epoch not in world.permits and not broken.startswith("no permit"):
        yield go("refused")
        return
    guard = held(xid, broken)
    if guard in world.witnesses:
        yield go("refused")
        return
    others = world.prepared | world.committing
    if any(guard in (x, held(x, broken)) for x in others):
        return  # it waits for that one's witness
    yield go("write", world._replace(prepared=world.prepared | {xid}), todo=rest)


def check(world: World) -> None:
    tasks = [task for _, task in world.committed]
    if len(tasks) != len(set(tasks)):
        raise Violation(f"doubled: {sorted(world.committed)}")
    if world.head.committed:
        if len(tasks) != TASKS:
            raise Violation(f"head says committed, and {sorted(world.committed)} is seen")
        left = [xid for xid in world.prepared if xid[0] <= world.head.epoch]
        if left and all(driver.step in ENDS for driver in world.drivers):
            raise Violation(f"done, and left prepared: {left}")


def successors(world: World, drivers: int, broken: str) -> Iterator[World]:
    for index, driver in enumerate(world.drivers):
        if driver.step in ENDS:
            continue
        yield from moves(world, index, broken)
        dead = list(world.drivers)
        dead[index] = driver._replace(step="dead")
        yield world._replace(drivers=tuple(dead))
    if world.by_hand:
        for xid in world.prepared & set(world.head.decided):
            yield world._replace(prepared=world.prepared - {xid}, by_hand=world.by_hand - 1)
    if len(world.drivers) < drivers:
        for repairs in (False, True):
            yield world._replace(drivers=(*world.drivers, Driver(repairs)))


def check_final(world: World, broken: str) -> None:
    """A repair, alone, and nobody takes anything away any more."""
    after = world._replace(drivers=(*world.drivers, Driver(repairs=True)), by_hand=0)
    last = len(after.drivers) - 1
    while after.drivers[last].step not in ENDS:
        found = next(moves(after, last, broken), None)
        if found is None:
            raise Violation(f"a repair alone waits for ever: {after}")
        after = found
        check(after)
    if after.drivers[last].step != "done" or not after.head.committed or after.prepared:
        raise Violation(f"a repair alone ends as {after.drivers[last].step}: {after}")


def explore(broken: str = "", drivers: int = 3) -> tuple[int, str]:
    """States seen, and the first violation ('' if none). Three drivers take some minutes."""

    def look(world: World) -> None:
        check(world)
        if len(world.drivers) == drivers and all(driver.step in ENDS for driver in world.drivers):
            check_final(world, broken)

    return reach(World(), look, lambda world: successors(world, drivers, broken))

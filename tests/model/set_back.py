"""A sink that goes back in time (H26, H27): exhaustive model of one sink among drivers and a reset, which may die.

At any moment a copy of the sink is taken, and at any later moment it replaces the sink: a backup is restored, or a
replica that lagged takes over. Transactions that were prepared then are prepared in the copy. Up to DRIVERS drivers
write CHECKPOINTS checkpoints; some of these have no rows. One may die between any two steps. The second may be a reset
instead, which ends the incarnation and takes the sink over for another one; or a repair, which writes again what is
gone.

In every state: nobody rolls back what is decided, and no driver decides a checkpoint on a sink that lacks rows of an
earlier decision and lacked them when the checkpoint was permitted. Where all drivers have ended, one more driver
either shows the rows of each decision, or is refused; it is refused only where rows are gone. A repair then shows the
rows of each decision once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from tests.model.reach import Violation, reach

DRIVERS = 2
ENDS = ("done", "fenced", "dead", "lost", "refused", "stopped")
CHECKPOINTS = (True, False)
"""Whether each checkpoint has rows, from checkpoint 1 on. Small ones come after: they hide what is missing."""

VARIANTS = (  # each must be caught
    "a start asks for the newest checkpoint alone (H26)",
    "a permit does not compare the count (H26)",
    "a count moves without a look at the witnesses (H26)",
    "a count moves from wherever it is",
    "a claim rolls back without a look at the count (H27)",
    "a close rolls back without a look at the count (H27)",
    "a close rolls back what is decided (H27)",
    "a start rolls back what head calls committed (H27)",
    "a reset rolls back what head calls committed (H27)",
    "a reset claims without a look at the count (H27)",
    "a reset rolls back without asking the records (H27)",
    "a reset does not count what it commits (H27)",
    "a reset takes over what is prepared (H27)",
    "a repair leaves to head what a sink has lost (H31)",
    "a repair claims without a look at the count (H31)",
    "a repair claims before it commits what is prepared (H31)",
    "a repair does not count what it commits (H31)",
)
Xid = tuple[int, int]  # (epoch, checkpoint)


class Head(NamedTuple):
    epoch: int = 0
    completed: tuple[Xid, ...] = ()  # completed[i] decides checkpoint i + 1
    committed: int = 0
    is_ended: bool = False  # another incarnation has taken its place


class Sink(NamedTuple):
    claimed: int = 0  # epoch
    permits: frozenset[Xid] = frozenset()
    prepared: frozenset[Xid] = frozenset()
    shown: frozenset[Xid] = frozenset()  # rows, each with its witness
    counted: int = 0  # every checkpoint up to this one is shown. Invariant: never goes back, but by a copy


class Driver(NamedTuple):
    step: str = "read"
    head: Head = Head()  # what this driver believes head to be
    todo: tuple[Xid, ...] = ()
    counted: int = 0  # the highest that it has seen
    permitted_over_a_hole: bool = False
    repairs: bool = False


class World(NamedTuple):
    head: Head = Head()
    sink: Sink = Sink()
    copy: Sink | None = None
    was_restored: bool = False
    drivers: tuple[Driver, ...] = (Driver(),)


class Go(Protocol):
    """The world after a driver's step; `changes`: of the driver."""

    def __call__(self, step: str, world: World = ..., **changes: Any) -> World: ...


class Swap(Protocol):
    """The world after a driver has tried to replace head: the driver takes the step, or is fenced."""

    def __call__(self, step: str, head: Head, **changes: Any) -> World: ...


def gone(world: World) -> list[Xid]:
    """Decided rows that can never be shown."""
    return [x for x in world.head.completed if _has_rows(x) and x not in world.sink.shown | world.sink.prepared]


def _has_rows(xid: Xid) -> bool:
    return CHECKPOINTS[xid[1] - 1]


def _starts_as_if_nothing_went_back(broken: str) -> bool:
    """What head calls committed is committed: neither looked for nor counted."""
    return broken in (
        "a start asks for the newest checkpoint alone (H26)",
        "a start rolls back what head calls committed (H27)",
    )


def roll_back(world: World, xids: frozenset[Xid]) -> World:
    if decided := xids & set(world.head.completed):
        raise Violation(f"rolled back, and decided: {sorted(decided)}")
    sink = world.sink
    return world._replace(sink=sink._replace(prepared=sink.prepared - xids))


def evict(world: World, permits: frozenset[Xid]) -> World:
    """Delete permits; what is prepared under them is rolled back, since it keeps them locked."""
    rest = roll_back(world, world.sink.prepared & permits)
    return rest._replace(sink=rest.sink._replace(permits=rest.sink.permits - permits))


def advance(world: World, index: int, broken: str) -> World:
    """The world after driver `index` takes its next step."""
    me, sink = world.drivers[index], world.sink
    mine, number = me.head.epoch, len(me.head.completed) + 1

    def go(step: str, world: World = world, **changes: Any) -> World:
        drivers = list(world.drivers)
        drivers[index] = me._replace(step=step, **changes)
        return world._replace(drivers=tuple(drivers))

    def swap(step: str, head: Head, **changes: Any) -> World:
        if world.head != me.head:
            return go("fenced")
        return go(step, world._replace(head=head), head=head, **changes)

    match me.step:
        case "read":
            return go("compare", head=world.head)
        case "compare" if me.head.is_ended:
            return go("done")
        case "compare":  # R2: the sink's count, and what it holds of the checkpoints above it
            if broken == "a start asks for the newest checkpoint alone (H26)":
                asked = [x for x in me.head.completed[: me.head.committed] if _has_rows(x)][-1:]
                asked = [x for x in asked if x[1] == me.head.committed]
            else:
                asked = [x for x in me.head.completed[sink.counted : me.head.committed] if _has_rows(x)]
            is_gone = any(x not in sink.shown | sink.prepared for x in asked)
            return go("refused" if is_gone else "claim", counted=sink.counted)
        case "claim":  # R1
            if world.head != me.head:
                return go("read")
            head = world.head._replace(epoch=world.head.epoch + 1)
            first = me.counted
            if _starts_as_if_nothing_went_back(broken):
                first = max(first, head.committed)
            return go("recover", world._replace(head=head), head=head, todo=head.completed[first:])
        case "recover":  # R3, first half: in order, each counted once it is shown
            if not me.todo:
                return go("raise")
            return _commit_and_count(world, me, go, "recover", broken)
        case "raise":  # R3: nobody older prepares from here on
            if sink.claimed > mine:
                return go("fenced")
            is_behind = sink.counted < len(me.head.completed) and not _starts_as_if_nothing_went_back(broken)
            if is_behind and broken != "a claim rolls back without a look at the count (H27)":
                return go("stopped")
            raised = world._replace(sink=sink._replace(claimed=mine))
            return go("leftovers", evict(raised, frozenset(p for p in sink.permits if p[0] < mine)))
        case "leftovers":  # R3, second half
            old = frozenset(x for x in sink.prepared if x[0] < mine and x not in me.head.completed)
            return go("said", roll_back(world, old))
        case "said":
            return swap(
                "done" if me.repairs else "permit",
                me.head._replace(committed=len(me.head.completed)),
                counted=sink.counted,
            )
        case "permit":  # R5
            if number > len(CHECKPOINTS):
                return go("done")
            if sink.claimed != mine:
                return go("fenced")
            if sink.counted < me.counted and broken != "a permit does not compare the count (H26)":
                return go("stopped")
            permitted = world._replace(sink=sink._replace(permits=sink.permits | {(mine, number)}))
            return go(
                "prepare", permitted, counted=max(me.counted, sink.counted), permitted_over_a_hole=bool(gone(world))
            )
        case "prepare":
            if (mine, number) not in sink.permits:
                return go("stopped")
            prepared = sink.prepared | ({(mine, number)} if _has_rows((mine, number)) else set())
            return go("decide", world._replace(sink=sink._replace(prepared=frozenset(prepared))))
        case "decide":  # R6
            if world.head == me.head and me.permitted_over_a_hole:
                raise Violation(f"checkpoint {number} is decided over a hole: {gone(world)} are gone")
            completed = (*me.head.completed, (mine, number))
            return swap("commit", me.head._replace(completed=completed), todo=((mine, number),))
        case "commit":  # R7
            if not me.todo:
                return go("revoke")
            return _commit_and_count(world, me, go, "commit", broken)
        case "count":
            return _count(world, me, go, "commit", broken)
        case "count-recovered":
            return _count(world, me, go, "recover", broken)
        case "revoke":  # R9
            last = me.head.completed[-1]
            if sink.counted < last[1] and broken != "a close rolls back without a look at the count (H27)":
                return go("stopped")
            return go("close", evict(world, sink.permits & {last}))
        case "close":
            last = me.head.completed[-1]
            if last in sink.prepared and broken != "a close rolls back what is decided (H27)":
                return go("stopped")
            return go("say", roll_back(world, sink.prepared & {last}))
        case "say":
            return swap("permit", me.head._replace(committed=len(me.head.completed)))
    return _advance_reset(world, me, go, swap, broken)


def _advance_reset(world: World, me: Driver, go: Go, swap: Swap, broken: str) -> World:
    sink, mine = world.sink, me.head.epoch
    match me.step:
        case step if step.startswith("repair"):
            return _advance_repair(world, me, go, swap, broken)
        case "reset":
            return go("done" if world.head.is_ended else "reset: claim head", head=world.head)
        case "reset: claim head":
            if world.head != me.head:
                return go("reset")
            return swap("reset: inspect", me.head._replace(epoch=mine + 1))
        case "reset: inspect":
            first = sink.counted
            if broken == "a reset rolls back what head calls committed (H27)":
                first = max(first, me.head.committed)
            return go("reset: commit", todo=me.head.completed[first:], counted=sink.counted)
        case "reset: commit":  # what is gone is said, and given up
            if not me.todo:
                return go("reset: claim the sink")
            xid = me.todo[0]
            if _has_rows(xid) and xid not in sink.shown | sink.prepared:
                return go("reset: commit", todo=me.todo[1:])
            if me.counted != xid[1] - 1 or broken == "a reset does not count what it commits (H27)":
                return go("reset: commit", _commit(world, xid), todo=me.todo[1:])
            return go("reset: count", _commit(world, xid))
        case "reset: count":
            return _count(world, me, go, "reset: commit", broken)
        case "reset: claim the sink":
            if sink.claimed > mine:
                return go("fenced")
            if sink.counted < me.counted and broken != "a reset claims without a look at the count (H27)":
                return go("stopped")
            raised = world._replace(sink=sink._replace(claimed=mine))
            return go("reset: leftovers", evict(raised, frozenset(p for p in sink.permits if p[0] < mine)))
        case "reset: leftovers":
            old = frozenset(x for x in sink.prepared if x[0] < mine)
            if old & set(me.head.completed) and broken != "a reset rolls back without asking the records (H27)":
                return go("stopped")
            return go("reset: end", roll_back(world, old))
        case "reset: end":
            return swap("reset: take over", me.head._replace(is_ended=True))
        case "reset: take over":
            if sink.prepared & sink.permits and broken != "a reset takes over what is prepared (H27)":
                return go("refused")  # only the head that has ended knew what is decided
            return go("done", evict(world, sink.permits))
    raise AssertionError(me.step)


def _advance_repair(world: World, me: Driver, go: Go, swap: Swap, broken: str) -> World:
    sink, mine = world.sink, me.head.epoch
    match me.step:
        case "repair":
            return go("done" if world.head.is_ended else "repair: compare", head=world.head)
        case "repair: compare":
            return go("repair: claim head", counted=sink.counted)
        case "repair: claim head":
            if world.head != me.head:
                return go("repair")
            return swap("repair: uncommit", me.head._replace(epoch=mine + 1))
        case "repair: uncommit":  # what the sink does not count is decided, and no longer committed
            committed = min(me.head.committed, me.counted)
            if broken == "a repair leaves to head what a sink has lost (H31)":
                committed = me.head.committed
            head = me.head._replace(committed=committed)
            first = "repair: commit what is prepared"
            if broken == "a repair claims before it commits what is prepared (H31)":
                first = "repair: claim the sink"
            return swap(first, head, todo=head.completed[committed:])
        case "repair: commit what is prepared":
            if not me.todo:
                return go("repair: claim the sink")
            xid = me.todo[0]
            if _has_rows(xid) and xid not in sink.shown | sink.prepared:
                return go(me.step, todo=me.todo[1:])
            if me.counted != xid[1] - 1 or broken == "a repair does not count what it commits (H31)":
                return go(me.step, _commit(world, xid), todo=me.todo[1:])
            return go("repair: count what was prepared", _commit(world, xid))
        case "repair: count what was prepared":
            return _count(world, me, go, "repair: commit what is prepared", broken)
        case "repair: claim the sink":
            if sink.claimed > mine:
                return go("fenced")
            if sink.counted < me.counted and broken != "a repair claims without a look at the count (H31)":
                return go("stopped")
            raised = world._replace(sink=sink._replace(claimed=mine))
            after = evict(raised, frozenset(p for p in sink.permits if p[0] < mine))
            return go("repair: write again", after, todo=me.head.completed[me.head.committed :])
        case "repair: write again":
            if not me.todo:
                return go("recover", todo=me.head.completed[me.head.committed :], repairs=True)
            xid = me.todo[0]
            is_there = not _has_rows(xid) or xid in sink.shown | sink.prepared
            if is_there:
                return go("repair: commit", _commit(world, xid))
            if sink.claimed != mine:
                return go("fenced")
            return go("repair: prepare", world._replace(sink=sink._replace(permits=sink.permits | {(mine, xid[1])})))
        case "repair: prepare":
            again = (mine, me.todo[0][1])
            if again not in sink.permits:
                return go("stopped")
            return go("repair: decide", world._replace(sink=sink._replace(prepared=sink.prepared | {again})))
        case "repair: decide":
            again = (mine, me.todo[0][1])
            completed = tuple(again if x == me.todo[0] else x for x in me.head.completed)
            return swap("repair: commit", me.head._replace(completed=completed), todo=(again, *me.todo[1:]))
        case "repair: commit":
            xid = me.todo[0]
            if _has_rows(xid) and xid not in sink.shown | sink.prepared:
                return go("lost")
            return go("repair: close", _commit(world, xid))
        case "repair: close":
            if me.todo[0] in sink.prepared:  # it went back in time meanwhile
                return go("stopped")
            return go("repair: write again", evict(world, sink.permits & {me.todo[0]}), todo=me.todo[1:])
    raise AssertionError(me.step)


def _commit(world: World, xid: Xid) -> World:
    shown = {xid} if _has_rows(xid) else set()
    sink = world.sink
    return world._replace(sink=sink._replace(prepared=sink.prepared - shown, shown=sink.shown | shown))


def _commit_and_count(world: World, me: Driver, go: Go, step: str, broken: str) -> World:
    xid, sink = me.todo[0], world.sink
    if _has_rows(xid) and xid not in sink.shown | sink.prepared:
        return go("lost")
    return go("count" if step == "commit" else "count-recovered", _commit(world, xid))


def _count(world: World, me: Driver, go: Go, step: str, broken: str) -> World:
    xid, sink = me.todo[0], world.sink
    if _has_rows(xid) and xid not in sink.shown and broken != "a count moves without a look at the witnesses (H26)":
        return go("stopped")
    if sink.counted >= xid[1]:
        return go(step, todo=me.todo[1:], counted=max(me.counted, sink.counted))
    if sink.counted != xid[1] - 1 and broken != "a count moves from wherever it is":
        return go("stopped")
    return go(step, world._replace(sink=sink._replace(counted=xid[1])), todo=me.todo[1:], counted=xid[1])


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
        yield world._replace(drivers=(*world.drivers, Driver(step="reset")))
        yield world._replace(drivers=(*world.drivers, Driver(step="repair")))
    if world.copy is None:
        yield world._replace(copy=world.sink)
    elif not world.was_restored and world.copy != world.sink:
        yield world._replace(sink=world.copy, was_restored=True)


def check(world: World) -> None:
    numbers = [number for _, number in world.sink.shown]
    if len(numbers) != len(set(numbers)):
        raise Violation(f"doubled: {sorted(world.sink.shown)}")
    if world.sink.shown - set(world.head.completed):
        raise Violation(f"shown, and not decided: {sorted(world.sink.shown)}")
    is_stopped = any(d.step in ("lost", "refused", "stopped") for d in world.drivers)
    if is_stopped and len(world.drivers) == 1 and not world.was_restored:
        raise Violation("a driver alone is stopped, though nothing was restored")
    counted = [x for x in world.head.completed[: world.sink.counted] if _has_rows(x)]
    if any(x not in world.sink.shown for x in counted):
        raise Violation(f"the sink counts {world.sink.counted}, and shows {sorted(world.sink.shown)}")


def check_end(world: World, broken: str) -> None:
    """One more driver, alone; and a repair, alone."""
    if world.head.is_ended:
        return
    after, end = _run_alone(world, Driver(), broken)
    repaired, repair_end = _run_alone(world, Driver(step="repair"), broken)
    if repair_end != "done" or any(_has_rows(x) and x not in repaired.sink.shown for x in repaired.head.completed):
        raise Violation(f"a repair alone is {repair_end}, and shows {sorted(repaired.sink.shown)}")
    if repaired.head.committed != len(repaired.head.completed) or repaired.sink.prepared or repaired.sink.permits:
        raise Violation("a repair alone leaves something prepared, permitted or uncommitted")
    if end == "done":
        if gone(after) or any(_has_rows(x) and x not in after.sink.shown for x in after.head.completed):
            raise Violation(f"a driver alone finishes, and {sorted(after.head.completed)} are not all shown")
        if after.sink.prepared or after.sink.permits:
            raise Violation(f"a driver alone leaves {sorted(after.sink.prepared)}, {sorted(after.sink.permits)}")
    elif not gone(world):
        raise Violation(f"a driver alone is {end}, and nothing is gone")
    elif end == "refused" and (after.head, after.sink) != (world.head, world.sink):
        raise Violation("a refused start has changed something")


def _run_alone(world: World, driver: Driver, broken: str) -> tuple[World, str]:
    after = world._replace(drivers=(*world.drivers, driver), copy=None, was_restored=True)
    last = len(world.drivers)
    while after.drivers[last].step not in ENDS:
        after = advance(after, last, broken)
        check(after)
    return after, after.drivers[last].step


def explore(broken: str = "") -> tuple[int, str]:
    """States seen, and the first violation ('' if none)."""

    def look(world: World) -> None:
        check(world)
        if all(d.step in ENDS for d in world.drivers):
            check_end(world, broken)

    return reach(World(), look, lambda world: successors(world, broken))

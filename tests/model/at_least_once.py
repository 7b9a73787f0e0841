"""A sink that goes back in time after at-least-once checkpoints (H34): exhaustive model of drivers of either mode.

Up to DRIVERS drivers, one after the other, write CHECKPOINTS checkpoints in one sink, exactly-once or at-least-once.
Each may die between any two steps. Head keeps the newest record, and the newest record that the sink has counted. At
any moment a copy of the sink is taken, and at any later moment the copy replaces the sink. Drivers that run at once are
explored by `set_back`.

In every state: nothing that is decided is rolled back, the sink shows each exactly-once checkpoint that it counts, and
no driver decides an exactly-once checkpoint on a sink that lacked rows of an earlier one when the checkpoint was
permitted. Where all drivers have ended, one more driver of either mode shows the rows of each exactly-once decision, or
ends with an error: only where rows are gone, or where head's records cannot tell that none are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.model.reach import Violation, reach

DRIVERS = 3
CHECKPOINTS = (True, True, False)
"""Whether each checkpoint has rows, from checkpoint 1 on, if it is written exactly-once."""
ENDS = ("done", "fenced", "dead", "lost", "refused", "stopped")
VARIANTS = (  # each must be caught
    "at-least-once lets go of the record that a sink has counted (H34)",
    "a count wants the at-least-once checkpoint before (H34)",
    "what is left of an aborted try is kept where at-least-once came after (H34)",
    "catching up compares neither the claim nor the count",
)
Xid = tuple[int, int]  # (epoch, checkpoint)


class Head(NamedTuple):
    epoch: int = 0
    completed: tuple[Xid | None, ...] = ()  # completed[i] decides checkpoint i + 1; None: written at-least-once
    committed: int = 0
    records: frozenset[int] = frozenset()  # checkpoints whose records are kept


class Sink(NamedTuple):
    claimed: int = 0  # epoch
    permits: frozenset[Xid] = frozenset()
    prepared: frozenset[Xid] = frozenset()
    shown: frozenset[Xid] = frozenset()  # rows, each with its witness; at-least-once rows have none
    counted: int = 0


class Driver(NamedTuple):
    direct: bool = False  # at-least-once
    step: str = "read"
    head: Head = Head()  # what this driver believes head to be
    todo: tuple[Xid, ...] = ()
    counted: int = 0  # the sink is known to have counted this checkpoint
    permitted_over_a_hole: bool = False


class World(NamedTuple):
    head: Head = Head()
    sink: Sink = Sink()
    copy: Sink | None = None
    was_restored: bool = False
    driver: Driver = Driver(step="dead")
    started: int = 0  # drivers


def _has_rows(xid: Xid) -> bool:
    return CHECKPOINTS[xid[1] - 1]


def gone(world: World) -> list[Xid]:
    """Return the exactly-once decisions whose rows can never be shown."""
    there = world.sink.shown | world.sink.prepared
    return [x for x in world.head.completed if x is not None and _has_rows(x) and x not in there]


def newest_counted(head: Head, upto: int) -> int:
    """Return the newest checkpoint up to `upto` that the sink counts, by head's records; 0: none."""
    return max((n for n in head.records if n <= upto and head.completed[n - 1] is not None), default=0)


def _cannot_tell(head: Head, sink: Sink) -> bool:
    """Whether the sink has lost the count of a checkpoint of which no record and no witness tells what it lacks."""
    lacking = range(sink.counted + 1, newest_counted(head, head.committed) + 1)
    return any(n not in head.records or head.completed[n - 1] is None for n in lacking)


def _may_be_decided(head: Head, prepared: frozenset[Xid]) -> bool:
    """Whether one of these is of an exactly-once checkpoint that is completed, and of which head keeps no record."""
    return any(n not in head.records and n <= newest_counted(head, len(head.completed)) for _, n in prepared)


def _commit_up_to_newest(head: Head, broken: str) -> Head:
    """R9, with `retained: 1`. At-least-once the same swap notes the checkpoint."""
    newest = len(head.completed)
    keep = {newest, newest_counted(head, newest)}
    if broken == "at-least-once lets go of the record that a sink has counted (H34)":
        keep = {newest}
    return head._replace(committed=newest, records=head.records & keep)


def roll_back(sink: Sink, xids: frozenset[Xid], head: Head) -> Sink:
    if decided := xids & {*head.completed}:
        raise Violation(f"rolled back, and decided: {decided}")
    return sink._replace(prepared=sink.prepared - xids)


def advance(world: World, broken: str) -> World:
    """Return the world after the driver takes its next step."""
    me, sink = world.driver, world.sink
    head, mine = me.head, me.head.epoch
    number = len(head.completed) + 1
    sinks_count = newest_counted(head, len(head.completed))  # once what is decided is committed

    def go(step: str, world: World = world, **changes: Any) -> World:
        driver = Driver(step=step) if step in ENDS else me._replace(step=step, **changes)
        return world._replace(driver=driver)

    def done(step: str, after: Sink, **changes: Any) -> World:
        return go(step, world._replace(sink=after), **changes)

    def swap(step: str, after: Head, **changes: Any) -> World:
        if world.head != head:
            return go("fenced")
        return go(step, world._replace(head=after), head=after, **changes)

    match me.step:
        case "read":
            return go("compare", head=world.head)
        case "compare":  # R2: the sink's count, and what it holds of the exactly-once checkpoints above it
            known = newest_counted(head, head.committed)
            if _cannot_tell(head, sink):
                return go("refused")
            missing = tuple(x for x in head.completed[sink.counted : known] if x is not None)
            if any(_has_rows(x) and x not in sink.shown | sink.prepared for x in missing):
                return go("refused")
            return go("claim", todo=missing, counted=known)
        case "claim":  # R1
            if world.head != head:
                return go("read")
            decided = tuple(x for x in head.completed[head.committed :] if x is not None)
            return swap("recover", head._replace(epoch=mine + 1), todo=me.todo + decided)
        case "recover" | "commit":  # R3, first half, and R7
            if not me.todo:
                return go("raise" if me.step == "recover" else "close")
            xid = me.todo[0]
            if not _has_rows(xid):
                return go(f"count, {me.step}")
            if xid not in sink.shown | sink.prepared:
                return go("lost")
            return done(f"count, {me.step}", sink._replace(prepared=sink.prepared - {xid}, shown=sink.shown | {xid}))
        case "count, recover" | "count, commit":
            xid, before = me.todo[0], me.todo[0][1] - 1
            least = before
            if newest_counted(head, before) <= me.counted and not broken.startswith("a count wants"):
                least = min(before, me.counted)
            if sink.counted < least or (_has_rows(xid) and xid not in sink.shown):
                return go("stopped")
            counts = max(sink.counted, xid[1])
            step = me.step.removeprefix("count, ")
            return done(step, sink._replace(counted=counts), todo=me.todo[1:], counted=max(me.counted, xid[1]))
        case "raise":  # R3: no older epoch prepares from here on
            if sink.claimed > mine:
                return go("fenced")
            if sink.counted < sinks_count:
                return go("stopped")
            raised = sink._replace(claimed=mine, permits=frozenset(p for p in sink.permits if p[0] == mine))
            return done("leftovers", raised, counted=max(me.counted, sinks_count))
        case "leftovers":  # R3, second half, once head's records have been asked (H27)
            left = frozenset(x for x in sink.prepared if x[0] < mine)
            is_kept = broken.startswith("what is left") and any(n < number and n not in head.records for _, n in left)
            if is_kept or _may_be_decided(head, left):
                return go("refused")
            if any(head.completed[x[1] - 1] == x for x in left if x[1] in head.records):
                return go("stopped")
            return done("said", roll_back(sink, left, world.head))
        case "said":
            return swap("catch up", _commit_up_to_newest(head, broken))
        case "catch up":  # over at-least-once checkpoints, in one transaction with the comparison
            newest = len(head.completed)
            if not newest or head.completed[-1] is not None:
                return go("next")
            if sink.claimed != mine and not broken.startswith("catching up"):
                return go("fenced")
            if sink.counted < sinks_count and not broken.startswith("catching up"):
                return go("stopped")
            return done("next", sink._replace(counted=max(sink.counted, newest)), counted=newest)
        case "next" if number > len(CHECKPOINTS):
            return go("done")
        case "next" if me.direct:  # its tasks have committed: one swap notes the checkpoint
            record = head._replace(completed=(*head.completed, None), records=head.records | {number})
            return swap("next", _commit_up_to_newest(record, broken))
        case "next":  # R5
            if sink.claimed != mine:
                return go("fenced")
            if sink.counted < me.counted:
                return go("stopped")
            permitted = sink._replace(permits=sink.permits | {(mine, number)})
            return done("prepare", permitted, permitted_over_a_hole=bool(gone(world)))
        case "prepare":
            if (mine, number) not in sink.permits:
                return go("stopped")
            rows = {(mine, number)} if _has_rows((mine, number)) else set()
            return done("decide", sink._replace(prepared=sink.prepared | rows))
        case "decide":  # R6
            if world.head == head and me.permitted_over_a_hole:
                raise Violation(f"checkpoint {number} is decided over a hole: {gone(world)} are gone")
            completed = (*head.completed, (mine, number))
            with_record = head._replace(completed=completed, records=head.records | {number})
            return swap("commit", with_record, todo=((mine, number),))
        case "close":  # R9
            if sink.counted < number - 1:
                return go("stopped")
            return done("say", sink._replace(permits=sink.permits - {(mine, number - 1)}))
        case "say":
            return swap("next", _commit_up_to_newest(head, broken))
    raise AssertionError(me.step)


def successors(world: World, broken: str) -> Iterator[World]:
    """Return every next world."""
    if world.driver.step not in ENDS:
        yield advance(world, broken)
        yield world._replace(driver=Driver(step="dead"))
    elif world.started < DRIVERS:
        yield from (_start(world, direct) for direct in (False, True))
    if world.copy is None:
        yield world._replace(copy=world.sink)
    elif not world.was_restored and world.copy != world.sink:
        yield world._replace(sink=world.copy, was_restored=True)


def _start(world: World, direct: bool) -> World:
    return world._replace(driver=Driver(direct), started=world.started + 1)


def check(world: World) -> None:
    """Raise Violation for a state that no history may reach."""
    decided = {x for x in world.head.completed if x is not None}
    if world.sink.shown - decided:
        raise Violation(f"shown, and not decided: {sorted(world.sink.shown)}")
    counted = [x for x in world.head.completed[: world.sink.counted] if x is not None and _has_rows(x)]
    if any(x not in world.sink.shown for x in counted):
        raise Violation(f"the sink counts {world.sink.counted}, and shows {sorted(world.sink.shown)}")
    if world.driver.step in ("lost", "refused", "stopped") and not world.was_restored:
        raise Violation(f"a driver is {world.driver.step}, though nothing was restored")


def check_end(world: World, broken: str) -> None:
    """Start one more driver of either mode, alone."""
    for direct in (False, True):
        after = _start(world, direct)
        while after.driver.step not in ENDS:
            after = advance(after, broken)
            check(after)
        end = after.driver.step
        if end == "done":
            shown = {x for x in after.head.completed if x is not None and _has_rows(x)}
            if after.sink.shown != shown or after.sink.prepared or after.sink.permits:
                raise Violation(f"a driver alone finishes with {after.sink}, and head has {after.head}")
            continue
        is_told = not _cannot_tell(world.head, world.sink) and not _may_be_decided(world.head, world.sink.prepared)
        if is_told and not gone(world):
            raise Violation(f"a driver alone is {end}, and nothing is gone")


def explore(broken: str = "") -> tuple[int, str]:
    """Return how many states were seen, and the first violation ('' if none)."""

    def look(world: World) -> None:
        check(world)
        if world.started == DRIVERS and world.driver.step in ENDS:
            check_end(world, broken)

    return reach(World(), look, lambda world: successors(world, broken))

"""Starts while a sink with a log is away (H32): exhaustive model.

A sink applies a log, in as many slots as its start says; each slot holds a share of the tasks. While the server of the
sink cannot be reached, a driver may start without it: the driver writes the rows into the log, and head decides. When
the server is back, the sink joins the running driver: it is compared with head, claimed, brought forward checkpoint
by checkpoint, and relieved of what older epochs have left.

In every state each row is shown once, in order, and only if it was decided; head calls committed only what is shown;
nothing decided is lost; no more checkpoints wait than may; and no driver changes the sink after a newer one has joined
it. At the end one more driver, alone and with the sink, finishes the work.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.model.reach import Violation, reach

CHECKPOINTS, TASKS, OUTAGES, COPIES = 2, 2, 1, 1
ENDS = ("done", "dead", "fenced", "refused", "set back", "away")
VARIANTS = (  # each must be caught
    "a sink joins without a claim (H32)",
    "a joining sink is not compared (H32)",
    "a start without a sink takes any number of slots (H32)",
    "the slots that are kept are those of the start alone (H32)",
    "an older start keeps its slots over those of a newer one (H32)",
    "who has kept its slots does not look at head again (H32)",
    "a sink that joins gets its slots as at a start (H32)",
    "what waited before the start is not counted (H32)",
    "a joining sink is given the newest checkpoints first (H32)",
    "a join rolls back what its own epoch writes (H32)",
    "head calls committed what an absent sink lacks (H32)",
    "a pipeline begins without a sink (H32)",
)
OTHER = -1
"""Claim of another incarnation, which has a head of its own."""


class Decision(NamedTuple):
    epoch: int
    slots: int


class Driver(NamedTuple):
    step: str = "look"
    slots: int = 1
    epoch: int = 0
    completed: tuple[Decision, ...] = ()  # as this driver knows head; completed[i] decides checkpoint i + 1
    committed: int = 0
    link: str = "away"  # to the sink: away, claim, abort, then owner
    before: int = 0  # checkpoints that were completed before it started
    shared: bool = False  # it has set the number of slots


class World(NamedTuple):
    epoch: int = 0  # of head, as the next two
    completed: tuple[Decision, ...] = ()
    committed: int = 0
    sealed: frozenset[tuple[int, int]] = frozenset()  # epoch and checkpoint: in the log
    up: bool = True
    claim: int = 0
    counts: tuple[int, ...] = ()  # by slot
    shown: frozenset[tuple[int, int]] = frozenset()  # checkpoint and task
    kept: tuple[int, frozenset[int]] | None = None
    """At the checkpoint location: the newest epoch that has opened the sink, and the numbers of slots it may have."""
    joined: int = 0  # the newest epoch that has claimed the sink
    copy: tuple[tuple[int, ...], frozenset[tuple[int, int]]] | None = None  # of the sink
    outages: int = OUTAGES
    copies: int = COPIES
    set_back: bool = False
    drivers_left: int = 3
    limit: int = 1  # checkpoints that may wait while the next one is written
    drivers: tuple[Driver, ...] = ()


def put(world: World, index: int, me: Driver) -> World:
    if me.step in ENDS:
        me = Driver(me.step)  # nothing else of it matters any more
    return world._replace(drivers=(*world.drivers[:index], me, *world.drivers[index + 1 :]))


def applied(world: World) -> int:
    return min(world.counts, default=0)


def swapped(world: World, index: int, me: Driver, *, completed: tuple[Decision, ...], committed: int) -> World:
    """A swap of head; both threads of one driver see it."""
    if world.epoch != me.epoch:
        return put(world, index, me._replace(step="fenced"))
    after = me._replace(completed=completed, committed=committed)
    return put(world._replace(completed=completed, committed=committed), index, after)


def apply(world: World, me: Driver, number: int, slot: int) -> World:
    """One transaction of a slot, with its share of a decided checkpoint. What is applied is collected."""
    decision = me.completed[number - 1]
    if len(world.counts) != decision.slots:
        raise Violation(f"stuck: checkpoint {number} is of {decision.slots} slots, the sink has {len(world.counts)}")
    if world.counts[slot] != number - 1:
        raise Violation(f"stuck: slot {slot} is at {world.counts[slot]}, and is to apply checkpoint {number}")
    if (decision.epoch, number) not in world.sealed:
        raise Violation(f"lost: checkpoint {number} is no longer in the log")
    if me.epoch < world.joined and me.link != "recover":  # a start applies what is decided before it claims
        raise Violation("a driver changes the sink after a newer one has joined it")
    rows = frozenset((number, task) for task in range(TASKS) if task % decision.slots == slot)
    if rows & world.shown:
        raise Violation(f"doubled: {sorted(rows & world.shown)}")
    counts = (*world.counts[:slot], number, *world.counts[slot + 1 :])
    sealed = frozenset(each for each in world.sealed if each[1] > min(counts))
    return world._replace(counts=counts, shown=world.shown | rows, sealed=sealed)


def aborted(world: World, me: Driver, below: int) -> World:
    """The log without what epochs below this one have left undecided."""
    decided = {(each.epoch, number) for number, each in enumerate(me.completed, 1)}
    return world._replace(sealed=frozenset(x for x in world.sealed if x[0] >= below or x in decided))


def fits(world: World, me: Driver, broken: str) -> bool:
    """Whether the sink has as many slots as this start is to write for, for certain."""
    is_any = broken in (
        "a start without a sink takes any number of slots (H32)",
        "a pipeline begins without a sink (H32)",
    )
    return is_any or (world.kept is not None and world.kept[1] == {me.slots})


def advance(world: World, index: int, broken: str) -> World | None:
    """The world after the main thread of a driver takes its next step; None: it waits."""
    me = world.drivers[index]
    number = len(me.completed) + 1
    match me.step:
        case "look":  # R2
            me = me._replace(epoch=world.epoch, completed=world.completed, committed=world.committed)
            if not world.up:
                begins = world.kept is None and broken != "a pipeline begins without a sink (H32)"
                step = "away" if begins else "claim"
                # its slots are those of the sink, and stay so when the sink joins
                shared = broken != "a sink that joins gets its slots as at a start (H32)"
                return put(world, index, me._replace(step=step, link="compare", shared=shared))
            if world.claim == OTHER:
                return put(world, index, me._replace(step="refused"))
            step = "set back" if applied(world) < me.committed else "claim"
            return put(world, index, me._replace(step=step, link="recover", shared=False))
        case "claim":  # R1
            if (world.epoch, world.completed, world.committed) != (me.epoch, me.completed, me.committed):
                return put(world, index, me._replace(step="look"))
            me = me._replace(epoch=me.epoch + 1, before=len(me.completed))
            step = "recover" if me.link == "recover" else "fit"
            return put(world._replace(epoch=me.epoch), index, me._replace(step=step))
        case "fit":  # after the claim: who has opened the sink before it has kept its number, or is fenced
            return put(world, index, me._replace(step="recover" if fits(world, me, broken) else "away"))
        case "recover":  # R3, first half
            if me.link != "recover":
                return put(world, index, me._replace(step="plan"))
            if not world.up:
                return put(world, index, me._replace(step="away"))
            if applied(world) < len(me.completed):
                return apply_next(world, index, me)
            return put(world, index, me._replace(step="raise"))
        case "raise":  # R3: claim, and roll back what is left
            if not world.up:
                return put(world, index, me._replace(step="away"))
            if world.claim > me.epoch:
                return put(world, index, me._replace(step="fenced"))
            counts = world.counts or (len(me.completed),)
            world = aborted(world._replace(claim=me.epoch, joined=me.epoch, counts=counts), me, me.epoch)
            return put(world, index, me._replace(step="said"))
        case "said":
            after = swapped(world, index, me, completed=me.completed, committed=len(me.completed))
            mine = after.drivers[index]
            return after if mine.step == "fenced" else put(after, index, mine._replace(step="open", link="owner"))
        case "open":  # what is known of the sink is kept, before its slots may change
            if not world.up:
                return put(world, index, me._replace(step="away"))
            alone = broken == "the slots that are kept are those of the start alone (H32)"
            kept = (me.epoch, frozenset({me.slots} if alone else {me.slots, len(world.counts)}))
            over = broken == "an older start keeps its slots over those of a newer one (H32)"
            if over or world.kept is None or world.kept[0] <= me.epoch:
                world = world._replace(kept=kept)
            return put(world, index, me._replace(step="look again"))
        case "look again":
            unseen = broken == "who has kept its slots does not look at head again (H32)"
            step = "plan" if world.epoch == me.epoch or unseen else "fenced"
            return put(world, index, me._replace(step=step))
        case "plan":
            if len(me.completed) == CHECKPOINTS:
                return put(world, index, me._replace(step="done")) if me.committed == CHECKPOINTS else None
            # what is applied, as its own thread knows it; a driver that is not linked knows what head says
            done = max(me.committed, applied(world)) if me.link == "owner" else me.committed
            if broken == "what waited before the start is not counted (H32)":
                done = max(done, me.before)
            return None if number - 1 - done > world.limit else put(world, index, me._replace(step="permit"))
        case "permit":  # R5; a log needs none, but for the number of its slots
            if me.link == "owner" and not me.shared:
                if not world.up:
                    return put(world, index, me._replace(step="away"))
                if world.claim != me.epoch:
                    return put(world, index, me._replace(step="fenced"))
                if set(world.counts) != {number - 1}:  # another driver has applied more
                    return put(world, index, me._replace(step="refused"))
                world = world._replace(counts=(number - 1,) * me.slots)
            return put(world, index, me._replace(step="seal", shared=True))
        case "seal":
            sealed = world.sealed | {(me.epoch, number)}
            return put(world._replace(sealed=sealed), index, me._replace(step="decide"))
        case "decide":  # R6
            completed = (*me.completed, Decision(me.epoch, me.slots))
            after = swapped(world, index, me, completed=completed, committed=me.committed)
            mine = after.drivers[index]
            return after if mine.step == "fenced" else put(after, index, mine._replace(step="plan"))
    raise AssertionError(me.step)


def apply_next(world: World, index: int, me: Driver) -> World:
    """The next slot of the oldest checkpoint that is not applied."""
    number = applied(world) + 1
    epoch, slots = me.completed[number - 1]
    if world.set_back and ((epoch, number) not in world.sealed or slots != len(world.counts)):  # the driver says so
        return put(world, index, me._replace(step="set back"))
    slot = next((n for n, count in enumerate(world.counts) if count < number), 0)
    return put(apply(world, me, number, slot), index, me)


def follow(world: World, index: int, broken: str) -> World | None:
    """The world after the thread that commits at the sink takes its next step."""
    me = world.drivers[index]
    if me.step in ("look", "claim", "recover", "fit", "raise", "said", "open", "look again") or not world.up:
        return None
    if me.link == "compare":  # before anything is changed
        if world.claim == OTHER:
            raise Violation("decided for a sink that is another's")
        if applied(world) < me.committed:
            if broken != "a joining sink is not compared (H32)":
                return put(world, index, me._replace(step="set back"))
            raise Violation("a sink that went back in time is claimed")
        return put(world, index, me._replace(link="claim"))
    if me.link == "claim":
        if world.claim > me.epoch:
            return put(world, index, me._replace(step="fenced"))
        if broken != "a sink joins without a claim (H32)":
            world = world._replace(claim=me.epoch)
        return put(world._replace(joined=max(me.epoch, world.joined)), index, me._replace(link="abort"))
    if me.link == "abort":
        own = broken == "a join rolls back what its own epoch writes (H32)"
        return put(aborted(world, me, me.epoch + own), index, me._replace(link="owner"))
    if me.link != "owner" or applied(world) >= len(me.completed):
        return None
    if world.claim != me.epoch and broken != "a sink joins without a claim (H32)":
        return put(world, index, me._replace(step="fenced"))
    if broken == "a joining sink is given the newest checkpoints first (H32)" and len(me.completed) > me.before:
        return put(apply(world, me, len(me.completed), 0), index, me)
    return apply_next(world, index, me)


def say(world: World, index: int, broken: str) -> World | None:
    """R9: every sink has committed these."""
    me = world.drivers[index]
    if me.step not in ("plan", "permit", "seal", "decide"):
        return None
    absent = broken == "head calls committed what an absent sink lacks (H32)" and me.link != "owner"
    done = len(me.completed) if absent else min(applied(world), len(me.completed)) if me.link == "owner" else 0
    return None if done <= me.committed else swapped(world, index, me, completed=me.completed, committed=done)


def ordered(world: World) -> World:
    """The same world: drivers have no names."""
    return world._replace(drivers=tuple(sorted(world.drivers)))


def successors(world: World, broken: str) -> Iterator[World]:
    for index, driver in enumerate(world.drivers):
        if driver.step in ENDS:
            continue
        for after in (advance(world, index, broken), follow(world, index, broken), say(world, index, broken)):
            if after is not None:
                yield ordered(after)
        yield ordered(put(world, index, driver._replace(step="dead")))
    alive = sum(driver.step not in ENDS for driver in world.drivers)
    if world.drivers_left and alive < 2:
        for slots in (1, 2):
            drivers = (*world.drivers, Driver(slots=slots))
            yield ordered(world._replace(drivers=drivers, drivers_left=world.drivers_left - 1))
    if world.up and world.outages:
        yield world._replace(up=False, outages=world.outages - 1)
    if not world.up:
        yield world._replace(up=True)
        if world.copy is not None and (world.counts, world.shown) != world.copy:
            counts, shown = world.copy
            yield world._replace(counts=counts, shown=shown, copy=None, set_back=True)
    if world.copies and world.up and world.committed:
        yield world._replace(copy=(world.counts, world.shown), copies=world.copies - 1)


def check(world: World) -> None:
    decided = range(1, len(world.completed) + 1)
    if early := {number for number, _ in world.shown} - {*decided}:
        raise Violation(f"shown before it was decided: {early}")
    for number, decision in enumerate(world.completed, 1):
        rows = {(number, task) for task in range(TASKS)}
        if not rows <= world.shown and not world.set_back:
            if number <= world.committed:
                raise Violation(f"head calls checkpoint {number} committed, and it is not shown")
            if number <= applied(world):
                raise Violation(f"the sink counts checkpoint {number}, and does not show it")
            if (decision.epoch, number) not in world.sealed:
                raise Violation(f"lost: checkpoint {number}")
    if len(world.completed) - max(applied(world), world.committed) > world.limit + 1 and not world.set_back:
        raise Violation("more checkpoints wait than may")


def check_end(world: World, broken: str) -> None:
    """One more driver, alone and with the sink, finishes the work."""
    alone = world._replace(drivers=(*world.drivers, Driver(slots=2)), up=True, outages=0, copies=0, copy=None)
    index = len(world.drivers)
    for _ in range(200):
        if alone.drivers[-1].step in ENDS:
            break
        moves = (move(alone, index, broken) for move in (follow, say, advance))
        after = next((each for each in moves if each is not None), None)
        if after is None:
            raise Violation("a driver alone waits for ever")
        alone = after
        check(alone)
    step = alone.drivers[-1].step
    if step != "done" and not (step == "set back" and world.set_back) and world.claim != OTHER:
        raise Violation(f"a driver alone ends as {step}")


def explore(broken: str = "") -> tuple[int, str, set[str]]:
    """States seen, the first violation ('' if none), and how drivers have ended."""
    ends = set[str]()

    def look(world: World) -> None:
        check(world)
        if all(driver.step in ENDS for driver in world.drivers):
            ends.update(driver.step for driver in world.drivers)
            if not world.set_back:
                check_end(world, broken)

    seen, violation = 0, ""
    for first in (World(drivers_left=2), World(limit=0, copies=0), World(claim=OTHER)):
        states, violation = reach(first, look, lambda world: successors(world, broken))
        seen += states
        if violation:
            break
    return seen, violation, ends

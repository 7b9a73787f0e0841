"""Rows that a constraint refuses only when the log is applied: exhaustive model of their way to dead letters elsewhere.

Dead letters in the database of the table need none of this: they are written in the transaction that moves the slot.
No code follows this model yet: where the dead letters are elsewhere, the pipeline stops at such a row.

A sink with a log has SLOTS slots. Each slot's share of each checkpoint has one bad row. The transaction that moves the
slot leaves the bad row out, and keeps it in a table beside the log, under the checkpoint's number. A later checkpoint
takes such rows as its dead letters: it reads the kept rows of the checkpoints that every slot has applied and head has
not taken yet, prepares them in the sink of the dead letters, and the swap that decides the checkpoint also moves the
cursor `taken` in head. The cursor is all that says what is taken; the kept rows below it are deleted at any time.

Up to DRIVERS drivers; each may die between any two steps, or stop for as long as it likes. Slots may be behind the
decision (`max_backlog`). A checkpoint may be aborted once, and is tried again.
In every state no row is two dead letters, and none is one that the sink has not refused. Where a driver has finished
CHECKPOINTS checkpoints, one more driver, alone, makes a dead letter of each refused row by one more checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.model.reach import Violation, reach

DRIVERS, CHECKPOINTS, SLOTS = 2, 3, 2
VARIANTS = (  # each must be caught
    "a slot moves before its refused rows are kept",
    "rows are taken of a checkpoint that not every slot has applied",
    "rows are deleted when they are prepared as dead letters",
    "the cursor moves by a swap after the decision",
    "an aborted try has moved the cursor",
    "rows are deleted up to what the sink has applied",
    "swap without compare",
)
ENDS = ("done", "fenced", "dead")
Row = tuple[int, int]  # checkpoint, slot
Xid = tuple[int, int, int]  # epoch, checkpoint, try


class Head(NamedTuple):
    epoch: int = 0
    completed: tuple[Xid, ...] = ()  # completed[i] decides checkpoint i + 1
    taken: int = 0  # refused rows up to this checkpoint are dead letters of a completed one


class Driver(NamedTuple):
    step: str = "read"
    head: Head = Head()  # what this driver believes head to be
    attempt: int = 1
    rows: frozenset[Row] = frozenset()  # what its checkpoint under way has read
    up_to: int = 0  # the cursor that goes with them


class World(NamedTuple):
    head: Head = Head()
    applied: tuple[int, ...] = (0,) * SLOTS  # by slot
    unkept: frozenset[Row] = frozenset()  # of the first variant: left out, and not kept yet
    kept: frozenset[Row] = frozenset()
    refused: frozenset[Row] = frozenset()  # all that ever were
    claimed: int = 0  # the epoch in the claim row of the dead letters' sink
    prepared: frozenset[tuple[Xid, frozenset[Row]]] = frozenset()
    committed: frozenset[tuple[Xid, frozenset[Row]]] = frozenset()
    aborts: int = 1  # how many more there may be
    drivers: tuple[Driver, ...] = (Driver(),)


def _put(world: World, index: int, **changes: object) -> World:
    drivers = list(world.drivers)
    drivers[index] = drivers[index]._replace(**changes)  # type: ignore[arg-type]
    return world._replace(drivers=tuple(drivers))


def _apply(world: World, slot: int, broken: str) -> World:
    """One transaction: nobody else can move the slot meanwhile, and whoever comes second finds it moved."""
    number = world.applied[slot] + 1
    applied = (*world.applied[:slot], number, *world.applied[slot + 1 :])
    row = frozenset({(number, slot)})
    after = world._replace(applied=applied, refused=world.refused | row)
    if broken == "a slot moves before its refused rows are kept":
        return after._replace(unkept=world.unkept | row)
    return after._replace(kept=world.kept | row)


def _commit(world: World, xid: Xid) -> World:
    """The dead letters of a decided checkpoint; an empty transaction is one, too."""
    mine = frozenset(each for each in world.prepared if each[0] == xid)
    world = world._replace(prepared=world.prepared - mine, committed=world.committed | mine)
    if xid not in {found for found, _ in world.committed}:
        raise Violation(f"lost: {xid} is decided, and its dead letters were rolled back")
    return world


def advance(world: World, index: int, broken: str) -> World:
    """The world after the next step of this driver."""
    me = world.drivers[index]
    epoch = me.head.epoch
    if me.step == "read":
        return _put(world, index, step="claim", head=world.head)
    if me.step == "claim":  # R1
        if world.head != me.head:
            return _put(world, index, step="read")
        head = world.head._replace(epoch=world.head.epoch + 1)
        return _put(world._replace(head=head), index, step="recover", head=head)
    if me.step == "recover":  # R3: what is decided is committed, the sink claimed, and what is left rolled back
        for slot in range(SLOTS):
            if world.applied[slot] < len(me.head.completed):
                return _apply(world, slot, broken)
        for xid in me.head.completed:
            world = _commit(world, xid)
        if world.claimed > epoch:
            return _put(world, index, step="fenced")
        left = frozenset(each for each in world.prepared if each[0][0] >= epoch)
        return _put(world._replace(claimed=epoch, prepared=left), index, step="take")
    number = len(me.head.completed) + 1
    if me.step == "take":
        if number > CHECKPOINTS + (len(world.drivers) > DRIVERS):  # one more of the last driver, which is alone
            return _put(world, index, step="done")
        of = max if broken == "rows are taken of a checkpoint that not every slot has applied" else min
        up_to = of(world.applied)
        first = me.up_to if broken == "an aborted try has moved the cursor" and me.attempt > 1 else me.head.taken
        rows = frozenset(row for row in world.kept if first < row[0] <= up_to)
        return _put(world, index, step="prepare", rows=rows, up_to=max(up_to, me.head.taken))
    if me.step == "prepare":  # R5
        if world.claimed != epoch:
            return _put(world, index, step="fenced")
        prepared = world.prepared | {((epoch, number, me.attempt), me.rows)}
        if broken == "rows are deleted when they are prepared as dead letters":
            world = world._replace(kept=world.kept - me.rows)
        return _put(world._replace(prepared=prepared), index, step="decide")
    if me.step == "decide":  # R6: the decision and the cursor in one swap
        if world.head != me.head and broken != "swap without compare":
            return _put(world, index, step="fenced")
        taken = me.head.taken if broken == "the cursor moves by a swap after the decision" else me.up_to
        head = Head(epoch, (*me.head.completed, (epoch, number, me.attempt)), taken)
        return _put(world._replace(head=head), index, step="commit", head=head, attempt=1)
    if me.step == "abort":  # R8: the try's number says that its swap was defeated
        if world.head != me.head:
            return _put(world, index, step="fenced")
        left = frozenset(p for p in world.prepared if p[0] != (epoch, number, me.attempt))
        return _put(world._replace(prepared=left), index, step="take", attempt=me.attempt + 1)
    if me.step == "commit":  # R7, of the dead letters; slots are moved by threads of their own
        after = _commit(world, me.head.completed[-1])
        return _put(after, index, step="move" if broken == "the cursor moves by a swap after the decision" else "take")
    if me.step == "move":
        if world.head != me.head:
            return _put(world, index, step="fenced")
        head = me.head._replace(taken=me.up_to)
        return _put(world._replace(head=head), index, step="take", head=head)
    raise AssertionError(me.step)


def _threads(world: World, index: int, broken: str) -> Iterator[World]:
    """What a driver that has claimed does beside its steps: it applies what is decided, and deletes what is taken."""
    me = world.drivers[index]
    if me.step in ("read", "claim", "recover"):
        return
    for slot in range(SLOTS):
        if world.applied[slot] < len(me.head.completed):
            yield _apply(world, slot, broken)
    if world.unkept:
        yield world._replace(unkept=frozenset(), kept=world.kept | world.unkept)
    below = min(world.applied) if broken == "rows are deleted up to what the sink has applied" else me.head.taken
    yield world._replace(kept=frozenset(row for row in world.kept if row[0] > below))


def successors(world: World, broken: str) -> Iterator[World]:
    """Every next world. A driver that takes no step has stopped for a while."""
    for index, driver in enumerate(world.drivers):
        if driver.step in ENDS:
            continue
        yield advance(world, index, broken)
        yield from _threads(world, index, broken)
        if driver.step == "decide" and world.aborts:
            yield _put(world._replace(aborts=world.aborts - 1), index, step="abort")
        dead = _put(world, index, step="dead")
        yield dead._replace(unkept=frozenset()) if broken == VARIANTS[0] else dead
    if len(world.drivers) < DRIVERS:
        yield world._replace(drivers=(*world.drivers, Driver()))


def check(world: World) -> None:
    """No row is a dead letter twice, or without having been refused."""
    letters = [row for _, rows in world.committed for row in rows]
    if len(letters) != len(set(letters)):
        raise Violation(f"doubled: {sorted(letters)}")
    if not world.refused.issuperset(letters):
        raise Violation(f"never refused: {sorted(set(letters) - world.refused)}")


def check_final(world: World, broken: str) -> None:
    """Start one more driver, alone: after its checkpoint every row that was refused before it is a dead letter."""
    if len(world.head.completed) < CHECKPOINTS:
        return  # every driver has died before
    after = world._replace(drivers=(*world.drivers, Driver()))
    last = len(after.drivers) - 1
    while after.drivers[last].step not in ENDS:
        after = advance(after, last, broken)
    check(after)
    letters = {row for _, rows in after.committed for row in rows}
    wanted = {(number, slot) for number in range(1, CHECKPOINTS + 1) for slot in range(SLOTS)}
    if letters != wanted or after.prepared:
        raise Violation(f"finished with the dead letters {sorted(letters)}, and {sorted(after.prepared)} prepared")


def explore(broken: str = "") -> tuple[int, str]:
    """States seen, and the first violation ('' if none)."""

    def look(world: World) -> None:
        check(world)
        if len(world.drivers) == DRIVERS and all(each.step in ENDS for each in world.drivers):
            check_final(world, broken)

    return reach(World(), look, lambda world: successors(world, broken))

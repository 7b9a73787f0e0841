"""Spark's job of one checkpoint: the attempts of its tasks, and which of them are accepted (H1)."""

from __future__ import annotations

from tests.model.state import Bounds, Moves, Process, World, Xid, enter


def job(world: World, index: int, me: Process, bounds: Bounds, broken: str) -> Moves:
    """R5: each attempt opens its transaction under the permit, prepares it, and is accepted or not."""
    if not me.todo:
        step = "commit" if broken == "commit before decide" else "decide"
        yield (index, "job ends"), enter(world, index, step, me, bounds)
        return
    yield from _attempt(world, index, me, bounds, broken)
    if world.failures:
        failed = world._replace(failures=world.failures - 1)
        yield (index, "job fails"), enter(failed, index, "abort", me, bounds)


def _attempt(world: World, index: int, me: Process, bounds: Bounds, broken: str) -> Moves:
    (sink, task, run, opened), rest = me.todo[0], me.todo[1:]
    epoch = 0 if broken == "no epoch in the id" else me.head.epoch
    xid = Xid(epoch, me.number, me.attempt, sink, task, run)
    permit = (sink, me.head.epoch, me.number, me.attempt)
    if not opened:
        if permit not in world.permits and broken != "no permit":
            yield (index, "open", xid), enter(world, index, "abort", me, bounds)
            return
        prepared = world.prepared
        if run and broken == "a retry rolls its sibling back (H1)":
            prepared -= {xid._replace(run=0)}
        after = world._replace(open=world.open | {xid}, prepared=prepared)
        yield (index, "open", xid), after.put(index, todo=((sink, task, run, True), *rest))
        return
    if xid not in world.open:
        yield (index, "prepare", xid), enter(world, index, "abort", me, bounds)
        return
    ready = world._replace(open=world.open - {xid}, prepared=world.prepared | {xid})

    def accept(after: World, which: Xid) -> World:
        taken = xid if broken == "the newest attempt is committed, not the accepted one (H1)" else which
        return after.put(index, todo=rest, accepted=me.accepted | {taken}, old=None, heard=False)

    yield (index, "prepare", xid), accept(ready, xid)
    if me.old is not None and me.heard:
        yield (index, "accept old", me.old), accept(world, me.old)
        yield (index, "prepare, accept old", xid), accept(ready, me.old)
    if not run and world.repeats:
        again = ((sink, task, 1, False), *rest)
        yield (index, "hang", xid), world._replace(repeats=world.repeats - 1).put(index, todo=again, old=xid)
        yield (
            (index, "prepare, run again", xid),
            ready._replace(repeats=world.repeats - 1).put(index, todo=again, old=xid, heard=True),
        )

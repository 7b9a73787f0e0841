"""What each process does next, one atomic step at a time: (label, world after it). `broken` names the rule left out.

A label is (process, what, which): a trace of them can be followed by the simulation of the real coordinator.
"""

from __future__ import annotations

from tests.model.state import ENDS, Bounds, Label, Moves, Process, World, enter
from tests.model.swaps import SWAPS, look, swap
from tests.model.tasks import job


def moves(world: World, index: int, bounds: Bounds, broken: str) -> Moves:
    """All that one process may do next."""
    me = world.processes[index]
    if is_waiting(world, index, bounds, broken):
        return
    if me.step in SWAPS:
        yield from swap(world, index, me, bounds, broken)
    elif me.step == "task":
        yield from job(world, index, me, bounds, broken)
    else:
        yield _plain(world, index, me, bounds, broken)


def is_waiting(world: World, index: int, bounds: Bounds, broken: str) -> bool:
    """A driver is so many checkpoints ahead of its threads at most; these take their turns (R7)."""
    me = world.processes[index]
    if me.leader >= 0:
        older = [each for each in world.processes[:index] if each.leader == me.leader and each.step not in ENDS]
        return bool(older) and broken != "checkpoints are committed out of order (R7)"
    behind = sum(each.leader == index and each.step not in ENDS for each in world.processes)
    if me.step == "next":  # all are waited for at the end
        return behind > 0 and world.done >= bounds.checkpoints
    return me.step == "mark" and behind > bounds.behind


def _has_a_failed_thread(world: World, index: int) -> bool:
    return any(each.leader == index and each.step in ENDS and each.step != "ended" for each in world.processes)


def _plain(world: World, index: int, me: Process, bounds: Bounds, broken: str) -> tuple[Label, World]:
    label: Label = (index, me.step)
    match me.step:
        case "read":
            return label, world.put(index, step="claim", head=world.head)
        case "look":
            return label, look(world, index, me, bounds, broken)
        case "recover-commit" | "commit":  # R3, R7
            if me.todo:
                return (index, "commit", me.todo[0]), _commit(world, index, me, broken)
            after = _after_commits(me, broken) if me.step == "commit" else _after_recovery(me, broken)
            return label, enter(world, index, after, me, bounds)
        case "raise":  # R3: nobody older prepares from here on
            return _raise(world, index, me, bounds, broken)
        case "list" | "close-list":
            return (index, "list"), _list(world, index, me, broken)
        case "roll-back" | "close":
            if me.todo:
                rest = world._replace(prepared=world.prepared - {me.todo[0]})
                return (index, "roll back", me.todo[0]), rest.put(index, todo=me.todo[1:])
            after = _after_close(me, broken) if me.step == "close" else "recovered"
            return label, enter(world, index, after, me, bounds)
        case "recovered":
            behind = me.head.committed < len(me.head.completed)
            return label, world.put(index, step="said" if behind else "next", number=len(me.head.completed), attempt=0)
        case "next":
            return label, _next(world, index, me, bounds, broken)
        case "permit":  # R5
            return _permit(world, index, me, bounds, broken)
        case "revoke":  # R9
            sink = me.todo[0]
            gone = frozenset(
                p for p in world.permits if p[:3] == (sink, me.head.epoch, me.number) and p[3] <= me.attempt
            )
            rest = world.without_permits(gone)
            step = "revoke" if me.todo[1:] else _after_revoke(me, broken)
            return (index, "revoke", sink), rest.put(index, step=step, todo=me.todo[1:])
        case "prune":
            kept = frozenset(x for x in world.witnesses if x.number >= me.number)
            what = "prune" if kept != world.witnesses else "nothing to prune"
            return (index, what), world._replace(witnesses=kept).put(index, step="mark")
        case "mark" if me.leader >= 0:  # its driver does that
            return label, world.put(index, step="ended")
        case "mark":
            step = "failed" if _has_a_failed_thread(world, index) else "next"
            done = max(world.done, me.number) if step == "next" else world.done
            return label, world._replace(done=done).put(index, step=step)
    raise AssertionError(me.step)


def _after_recovery(me: Process, broken: str) -> str:
    return "list" if broken == "the sinks are not claimed (R3)" else "raise"


def _after_commits(me: Process, broken: str) -> str:
    if broken == "commit before decide" and len(me.head.completed) < me.number:
        return "decide"
    if broken == "nothing is closed (R9)":
        return "said"
    if broken == "committed is said before the close (R9)":
        return "said"
    return "close-list" if broken == "listed before the permits are gone (R9)" else "revoke"


def _after_revoke(me: Process, broken: str) -> str:
    return _after_all(me, broken) if broken == "listed before the permits are gone (R9)" else "close-list"


def _after_close(me: Process, broken: str) -> str:
    return "revoke" if broken == "listed before the permits are gone (R9)" else _after_all(me, broken)


def _after_all(me: Process, broken: str) -> str:
    if me.is_aborter:
        return "ended"
    if len(me.head.completed) >= me.number:
        return "prune" if broken == "committed is said before the close (R9)" else "said"
    if broken == "an abort returns to Spark (H13)":
        return "mark"
    return "next" if me.tries else "failed"


def _commit(world: World, index: int, me: Process, broken: str) -> World:
    xid, rest = me.todo[0], me.todo[1:]
    if xid in world.prepared:
        visible = world._replace(
            prepared=world.prepared - {xid}, committed=world.committed | {xid}, witnesses=world.witnesses | {xid}
        )
        return visible.put(index, todo=rest)
    if xid in world.witnesses:
        return world.put(index, todo=rest)
    if world.head.epoch != me.head.epoch and broken != "lost is said without a look at head (H12)":
        return world.put(index, step="fenced")
    return world.put(index, step="lost")


def _raise(world: World, index: int, me: Process, bounds: Bounds, broken: str) -> tuple[Label, World]:
    sink = me.todo[0]
    if world.claims[sink] > me.head.epoch:
        return (index, "raise", sink), world.put(index, step="fenced")
    claims = (*world.claims[:sink], me.head.epoch, *world.claims[sink + 1 :])
    world = world._replace(claims=claims)
    if broken != "the claim leaves older permits (H7)":
        world = world.without_permits(frozenset(p for p in world.permits if p[0] == sink and p[1] < me.head.epoch))
    last = not me.todo[1:]
    step = "recovered" if last and broken == "leftovers stay (R3)" else "list" if last else "raise"
    return (index, "raise", sink), world.put(index, step=step, todo=me.todo[1:])


def _list(world: World, index: int, me: Process, broken: str) -> World:
    if me.step == "list":  # R3
        if any(x.epoch > me.head.epoch for x in world.prepared) and broken != "abort any epoch":
            return world.put(index, step="fenced")
        found = {x for x in world.prepared if x.epoch < me.head.epoch or broken == "abort any epoch"}
        if broken == "abort before commit":
            return world._replace(prepared=world.prepared - found).put(index, step="recovered", todo=())
        return world.put(index, step="roll-back", todo=tuple(sorted(found)))
    found = {x for x in world.prepared if (x.epoch, x.number) == (me.head.epoch, me.number)}
    if broken == "a close takes in what is newer (R9)":
        found = {x for x in world.prepared if x.epoch == me.head.epoch}
    if broken == "an aborted try is not closed (R8)":
        found = {x for x in found if x.attempt == me.attempt}
    return world.put(index, step="close", todo=tuple(sorted(found)))


def _next(world: World, index: int, me: Process, bounds: Bounds, broken: str) -> World:
    if _has_a_failed_thread(world, index):
        return world.put(index, step="failed")
    number = world.done + 1
    if number > bounds.checkpoints:
        return world.put(index, step="done")
    if number <= len(me.head.completed):  # R4: the decision exists, and it is committed
        return world.put(index, step="mark", number=number)
    fresh = number != me.number
    attempt, tries = (1, bounds.tries) if fresh else (me.attempt + 1, me.tries)
    world = world.put(
        index, number=number, attempt=attempt, tries=tries - 1, accepted=frozenset(), old=None, heard=False
    )
    return enter(world, index, "permit", world.processes[index], bounds)


def _permit(world: World, index: int, me: Process, bounds: Bounds, broken: str) -> tuple[Label, World]:
    sink = me.todo[0]
    if world.claims[sink] != me.head.epoch and broken != "permit without claim":
        return (index, "permit", sink), world.put(index, step="fenced")
    after = world._replace(permits=world.permits | {(sink, me.head.epoch, me.number, me.attempt)})
    after = after.put(index, todo=me.todo[1:])
    if not me.todo[1:]:
        after = enter(after, index, "task", me, bounds)
    return (index, "permit", sink), after

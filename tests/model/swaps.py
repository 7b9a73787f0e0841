"""The swaps of head: what each changes, what may become of its answer, and what a process does about that."""

from __future__ import annotations

from typing import Any

from tests.model.state import Bounds, Head, Moves, Process, World

SWAPS = {"claim": "recover-commit", "decide": "commit", "abort": "revoke", "said": "prune"}
"""Swaps of head, and the step after each."""


def _changed(me: Process, index: int, point: str) -> Head:
    head = me.head
    nonces = (*head.nonces, (index, me.swaps))
    match point:
        case "claim":
            return head._replace(epoch=head.epoch + 1, aborted=(0, 0), nonces=((index, me.swaps),))
        case "decide":
            return head._replace(completed=(*head.completed, me.accepted), aborted=(0, 0), nonces=nonces)
        case "abort":
            return head._replace(aborted=(me.number, me.attempt), nonces=nonces)
    return head._replace(committed=max(head.committed, me.number), nonces=nonces)


def swap(world: World, index: int, me: Process, bounds: Bounds, broken: str) -> Moves:
    """R6: one swap of head, answered, or landed without an answer, or still on the wire."""
    point = me.step
    new = _changed(me, index, point)
    if point == "abort" and broken == "abort without a swap of its own (H2)":
        yield (index, "skip"), landed(world, index, me.head, point, bounds, broken)
        return
    matches = world.head == me.head or broken == "swap without compare"
    looks = {"step": "look", "swapping": (point, "")}
    if matches:
        yield (index, point), landed(world._replace(head=new, wire=frozenset()), index, new, point, bounds, broken)
    else:
        yield (index, point), world.put(index, **looks)
    if world.unanswered and point != "claim":
        spent = world._replace(unanswered=world.unanswered - 1)
        believes = broken == "an unanswered swap is taken for landed"
        late = spent._replace(wire=spent.wire | {(me.head, new)})
        gone = spent._replace(head=new, wire=frozenset())
        for what, after in (("late", late), *((("unanswered", gone),) if matches else ())):
            went = landed(after, index, new, point, bounds, broken) if believes else after.put(index, **looks)
            yield (index, point, what), went


def landed(world: World, index: int, head: Head, point: str, bounds: Bounds, broken: str) -> World:
    """The process has seen that its swap landed."""
    me = world.processes[index]
    step = SWAPS[point]
    todo: tuple[Any, ...] = ()
    if point == "claim":
        pending = head.completed[head.committed :]
        if broken == "a start commits only the newest decision (R3)":
            pending = pending[-1:]
        todo = tuple(sorted(x for decided in pending for x in decided))
        if broken == "abort before commit":
            stale = frozenset(x for x in world.prepared if x.epoch < head.epoch)
            world = world._replace(prepared=world.prepared - stale)
    elif point == "decide":
        todo = () if broken == "commit before decide" else tuple(sorted(me.accepted))
        if bounds.behind:
            world, step, todo = _left_to_a_thread(world, index, head, todo), "mark", ()
    elif point == "abort":
        todo = tuple(range(len(world.claims)))
        if broken == "an aborted try is not closed (R8)":
            step, todo = ("next" if me.tries else "failed"), ()
    elif not me.attempt:  # in recovery
        step = "next"
    elif broken == "committed is said before the close (R9)":
        step, todo = "revoke", tuple(range(len(world.claims)))
    return world.put(index, step=step, head=head, todo=todo, swaps=me.swaps + 1)


def look(world: World, index: int, me: Process, bounds: Bounds, broken: str) -> World:
    """After a swap that was refused or not answered: read head again."""
    point, seen = me.swapping[0], world.head
    if point == "claim":
        return world.put(index, step="read", swaps=me.swaps + 1)
    found = (index, me.swaps) in seen.nonces and broken != "an unanswered swap is taken for refused (H20)"
    if seen.epoch != me.head.epoch and broken != "a fenced driver decides on the head that it finds (H5)":
        return world.put(index, step="fenced")
    if found:
        return landed(world, index, seen, point, bounds, broken)
    forgiving = broken in (
        "a decision of an aborted try lands by merge and retry (H2)",
        "a fenced driver decides on the head that it finds (H5)",
    )
    if point == "decide" and seen.aborted == (me.number, me.attempt) and not forgiving:
        return world.put(index, step="failed")
    if point in ("decide", "abort") and len(seen.completed) >= me.number:
        return world.put(index, step="ended" if me.is_aborter else "stopped")
    return world.put(index, step=point, head=seen)


def _left_to_a_thread(world: World, index: int, head: Head, todo: tuple[Any, ...]) -> World:
    """The driver goes on, and a thread of its own commits what it has decided."""
    me = world.processes[index]
    thread = Process("commit", head, todo, me.number, me.attempt, me.accepted, leader=index)
    return world._replace(processes=(*world.processes, thread))

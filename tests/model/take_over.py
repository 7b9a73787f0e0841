"""A sink with a log that another incarnation takes over (H28): exhaustive model of the locks of appliers and claims.

Each applier is one transaction: it locks the claim row shared and checks it, locks the row of its slot, and commits
its rows. A claim locks the claim row exclusively, and raises it. Any of them may freeze between two steps: it then
keeps its locks, and never goes on. Whoever waits may end the transactions that it waits for.
In every state no rows of an older incarnation become visible after a claim, and each share is applied once; and while a
process is not frozen, some process can go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.model.reach import Violation, reach

VARIANTS = (  # each must be caught
    "a claim does not wait for who applies (H28)",
    "a claim ends only the appliers of its own slots",
    "an applier ends no frozen claim",
)
ENDS = ("done", "fenced", "ended")
Share = tuple[str, int]  # incarnation, slot


class Process(NamedTuple):
    """A transaction, which is tried again when it was ended."""

    claims: bool
    incarnation: str
    slot: int = 0
    step: str = "begin"
    frozen: bool = False

    @property
    def share(self) -> Share:
        """What an applier applies."""
        return self.incarnation, self.slot


class World(NamedTuple):
    """The claim row, the slots, the rows, and who works on them."""

    owner: str
    processes: tuple[Process, ...]
    applied: frozenset[Share] = frozenset()  # where the rows of the slots are
    visible: tuple[Share, ...] = ()  # in the order in which they were committed


FIRST = World(
    "old",
    (
        Process(claims=False, incarnation="old", slot=0),
        Process(claims=False, incarnation="old", slot=1),
        Process(claims=False, incarnation="old", slot=0),  # of a start, which applies what is decided before its claim
        Process(claims=True, incarnation="new"),
        Process(claims=False, incarnation="new", step="unborn"),  # after the claim; the new incarnation has one slot
        Process(claims=True, incarnation="newest"),
        Process(claims=False, incarnation="newest", step="unborn"),
    ),
)


def blockers(world: World, index: int, broken: str) -> list[int]:
    """The transactions whose locks the next step of a process waits for."""
    me = world.processes[index]
    others = [(n, each) for n, each in enumerate(world.processes) if n != index]
    waits = broken != "a claim does not wait for who applies (H28)"
    if me.claims and me.step == "begin":
        shared = [n for n, each in others if waits and each.step in ("checked", "holds its slot")]
        return [*shared, *(n for n, each in others if each.step == "holds the claim")]
    if me.step == "begin" and waits:
        return [n for n, each in others if each.step == "holds the claim"]
    if me.step == "checked":
        return [n for n, each in others if each.step == "holds its slot" and each.share == me.share]
    return []


def _may_end(me: Process, other: Process, broken: str) -> bool:
    """Whether the connection of `other` has a mark that `me` looks for."""
    if me.claims and broken == "a claim ends only the appliers of its own slots":
        return other.claims or other.slot == 0
    return not (other.claims and broken == "an applier ends no frozen claim") or me.claims


def advance(world: World, index: int) -> World:
    """The world after the next step of a process that waits for nobody."""
    me = world.processes[index]
    if me.step == "begin" and me.claims:
        return _put(world, index, step="holds the claim")
    if me.step == "holds the claim":
        applier = index + 1
        return _put(_put(world._replace(owner=me.incarnation), index, step="done"), applier, step="begin")
    if me.step == "begin":
        return _put(world, index, step="checked" if world.owner == me.incarnation else "fenced")
    if me.step == "checked":
        return _put(world, index, step="done" if me.share in world.applied else "holds its slot")
    if world.owner != me.incarnation:
        raise Violation(f"{world.owner} owns the sink, and rows of {me.share} become visible")
    after = world._replace(applied=world.applied | {me.share}, visible=(*world.visible, me.share))
    return _put(after, index, step="done")


def _put(world: World, index: int, **changes: object) -> World:
    processes = list(world.processes)
    processes[index] = processes[index]._replace(**changes)  # type: ignore[arg-type]
    return world._replace(processes=tuple(processes))


def successors(world: World, broken: str) -> Iterator[World]:
    """Raises Violation where somebody waits for ever."""
    can_go_on, waits = False, False
    for index, me in enumerate(world.processes):
        if me.frozen or me.step in ENDS or me.step == "unborn":
            continue
        yield _put(world, index, frozen=True)
        waiting_for = blockers(world, index, broken)
        if not waiting_for:
            can_go_on = True
            yield advance(world, index)
            continue
        waits = True
        for other in waiting_for:
            if _may_end(me, world.processes[other], broken):
                can_go_on = True
                frozen = world.processes[other].frozen
                yield _put(world, other, step="ended" if frozen else "begin", frozen=False)
    if waits and not can_go_on:
        raise Violation(f"somebody waits for ever: {world.processes}")


def check(world: World) -> None:
    """Each share is visible once, and the newest owner's rows came last."""
    if len(world.visible) != len(set(world.visible)):
        raise Violation(f"doubled: {world.visible}")
    own = [share for share in world.visible if share[0] == world.owner]
    if own and world.visible[-1][0] != world.owner:
        raise Violation(f"stale rows came last: {world.visible}")


def explore(broken: str = "") -> tuple[int, str]:
    """States seen, and the first violation ('' if none)."""
    return reach(FIRST, check, lambda world: successors(world, broken))

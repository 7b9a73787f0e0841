"""A schema registry that goes back in time (H35): exhaustive model.

A backup of the registry is put back. It lacks its newest schema, and gives the same id to another one. Records of the
topic name their schema by id alone, so a task that asks from then on decodes them with the wrong one. The model has one
registry, one topic whose records have one id, two tasks, and drivers of one incarnation, each of which may die between
any two steps. A task remembers a schema as long as its process lives. A checkpoint may be read once more after its
decision: a repair writes again what a sink has lost.

In every state all that is decided, and all that is written once more, was decoded with one schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.model.reach import Violation, reach

CHECKPOINTS, SET_BACKS = 3, 2
_ALONE = "schemas are kept by a driver alone (H35)"
_UNCOMPARED = "a decision does not compare schemas (H35)"
_TASKS = "a decision does not compare the schemas of two tasks (H35)"
_REPAIR = "a repair does not compare schemas (H35)"
VARIANTS = (_ALONE, _UNCOMPARED, _TASKS, _REPAIR)  # each must be caught
_NEW = (None, None)


class World(NamedTuple):
    registry: int = 0  # the schema that has the id now
    pinned: int | None = None  # in head: the schema that the id had when a decision first named it
    own: int | None = None  # the same, as this driver alone remembers it
    decided: tuple[frozenset[int], ...] = ()  # of each checkpoint, the schemas that its records were decoded with
    written_again: frozenset[int] = frozenset()  # schemas with which decided checkpoints were read once more
    remembered: tuple[int | None, ...] = _NEW  # by the process of each task
    prepared: frozenset[int] = frozenset()  # schemas of the checkpoint after those decided
    stopped: bool = False
    set_backs: int = SET_BACKS


def successors(world: World, broken: str) -> Iterator[World]:
    if world.set_backs:
        yield world._replace(registry=world.registry + 1, set_backs=world.set_backs - 1)
    yield world._replace(remembered=_NEW, prepared=frozenset(), own=None, stopped=False)  # another driver starts
    for each in range(len(_NEW)):  # the process of a task dies
        yield world._replace(remembered=tuple(None if at == each else s for at, s in enumerate(world.remembered)))
    if world.stopped:
        return
    remembered = tuple(world.registry if each is None else each for each in world.remembered)
    decoded = frozenset(remembered)
    pinned = world.own if broken == _ALONE else world.pinned
    if world.prepared:  # R6
        yield decide(world, pinned, broken)
    elif len(world.decided) < CHECKPOINTS:  # R5
        yield world._replace(remembered=remembered, prepared=decoded)
    if world.decided and not world.prepared:  # R7
        if broken != _REPAIR and decoded != {pinned} and not (broken == _ALONE and pinned is None):
            yield world._replace(remembered=remembered, stopped=True)
        else:
            yield world._replace(remembered=remembered, written_again=world.written_again | decoded)


def decide(world: World, pinned: int | None, broken: str) -> World:
    is_one = len(world.prepared) == 1 or broken == _TASKS
    is_known = pinned is None or pinned in world.prepared or broken == _UNCOMPARED
    if not (is_one and is_known):
        return world._replace(prepared=frozenset(), stopped=True)
    first = min(world.prepared) if pinned is None else pinned
    decided = (*world.decided, world.prepared)
    return world._replace(decided=decided, prepared=frozenset(), own=first, pinned=first)


def check(world: World) -> None:
    if len(found := world.written_again.union(*world.decided)) > 1:
        raise Violation(f"decoded with {len(found)} schemas: {world}")


def explore(broken: str = "") -> tuple[int, str, bool]:
    """States seen, the first violation ('' if none), and whether every checkpoint can be decided."""
    done = False

    def look(world: World) -> None:
        nonlocal done
        check(world)
        done = done or len(world.decided) == CHECKPOINTS

    return *reach(World(), look, lambda world: successors(world, broken)), done

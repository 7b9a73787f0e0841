"""Every order in which starts from a savepoint put an incarnation, and its state, into an object store.

Spark's folder of a new incarnation may be lost with its machine. So the state of its first checkpoint is kept in the
store before head has the incarnation (`spark_jobs.operations.from_savepoint`). A start that dies before that leaves
objects, which a later start deletes: it knows them by the notes that each start leaves before it sends anything.

Each request to the store is one move, and so is each swap of head. A start that never moves again has died. Looked at
in every world: the state of head's incarnation is in the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

STARTS: Final = 3

MUTANTS: Final = (
    "swaps before the state is kept",
    "leaves its note before it reads head",
    "lists the notes after its swap",
    "deletes before its swap",
    "claims a head that it has not read",
)


_STEPS: Final = ("read", "list", "note", "keep", "claim", "swap", "delete", "delete note")
_MOVED: Final = {
    "swaps before the state is kept": ("keep", 5),
    "leaves its note before it reads head": ("note", 0),
    "lists the notes after its swap": ("list", 5),
    "deletes before its swap": ("delete", 4),
}
"""Mutants with a step in another place."""


class Violation(Exception):
    """Head has an incarnation whose state is not in the store."""


@dataclass(frozen=True, slots=True)
class Start:
    """One start from the savepoint, between two requests. Its incarnation has its number."""

    number: int
    done: int = 0  # steps
    expected: int = 0  # incarnation in head, as it was read
    claimed: int = 0  # version of head after its claim
    listed: frozenset[int] = frozenset()  # incarnations with a note


@dataclass(frozen=True, slots=True)
class Store:
    """Head, the notes, and the incarnations whose state is there. Incarnation 0 was there before."""

    incarnation: int = 0
    version: int = 1
    notes: frozenset[int] = frozenset()
    states: frozenset[int] = frozenset({0})
    starts: tuple[Start, ...] = tuple(Start(number + 1) for number in range(STARTS))


def explore(mutant: str = "") -> int:
    """Look at every world; return their number. Raises Violation."""
    first = Store()
    seen, stack = {first}, [first]
    while stack:
        store = stack.pop()
        if store.incarnation not in store.states:
            raise Violation(f"the state of incarnation {store.incarnation} is gone")
        for after in moves(store, mutant):
            if after not in seen:
                seen.add(after)
                stack.append(after)
    return len(seen)


def moves(store: Store, mutant: str) -> Iterator[Store]:
    """Each start's next request."""
    for index, start in enumerate(store.starts):
        if (after := _move(store, start, mutant)) is not None:
            changed, now = after
            yield replace(changed, starts=(*store.starts[:index], now, *store.starts[index + 1 :]))


def _steps(mutant: str) -> Sequence[str]:
    if mutant not in _MOVED:
        return _STEPS
    step, index = _MOVED[mutant]
    others = [each for each in _STEPS if each != step]
    return [*others[:index], step, *others[index:]]


def _move(store: Store, start: Start, mutant: str) -> tuple[Store, Start] | None:
    """None: the start has ended, or is refused."""
    steps = _steps(mutant)
    if start.done == len(steps):
        return None
    after = _effect(store, start, steps[start.done], mutant)
    return (after[0], replace(after[1], done=start.done + 1)) if after is not None else None


def _effect(store: Store, start: Start, step: str, mutant: str) -> tuple[Store, Start] | None:
    number = start.number
    match step:
        case "read":
            return store, replace(start, expected=store.incarnation)
        case "list":
            return store, replace(start, listed=store.notes)
        case "note":
            return replace(store, notes=store.notes | {number}), start
        case "keep":
            return replace(store, states=store.states | {number}), start
        case "claim" if store.incarnation == start.expected or mutant == "claims a head that it has not read":
            version = store.version + 1
            return replace(store, version=version), replace(start, claimed=version)
        case "swap" if store.version == start.claimed:
            version = store.version + 1
            return replace(store, version=version, incarnation=number), start
        case "delete":  # what the notes name, and the incarnation that it has ended
            deleted = (start.listed | {start.expected}) - {number}
            return replace(store, states=store.states - deleted, notes=store.notes - deleted), start
        case "delete note":
            return replace(store, notes=store.notes - {number}), start
    return None

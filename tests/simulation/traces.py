"""Follows a history that the model has found, with the real coordinator: the same choices, in the same order.

A label of the model (`tests.model.steps`) names a process and a moment of it. The process is led there by its plain
steps and then goes the way that the label says; a process that never comes there, since the code rightly does
something else, goes to its end. Every rule is checked after every step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.model.state import Xid
from tests.simulation.config import Budget, Config
from tests.simulation.explore import finish
from tests.simulation.moves import Moves
from tests.simulation.operations import MarkDone
from tests.simulation.rules import check, check_end
from tests.simulation.world import World, first_world, parse
from twophase import messages
from twophase.ids import sink_key

PLENTY = Budget(switches=99, swaps=99, retries=99, failures=99, aborters=99)

_JOB = {
    "open": ("opens", "finds no permit"),
    "prepare": ("prepares", "was ended"),
    "prepare, accept old": ("prepares",),
    "accept old": ("accepted is",),
    "hang": ("hangs, is run again",),
    "prepare, run again": ("prepares, is run again",),
}
_OPERATIONS = {"raise": "revoke older", "permit": "permit", "revoke": "revoke"}
_SWAPS = {"claim": "claim", "decide": "decide", "abort": "abort", "said": "committed"}
_ANSWERS = {"late": "late swap", "unanswered": "lost answer"}
_BEGINS = (messages.Permit, messages.Discard, MarkDone)
_STEPS = 300

Wanted = Callable[[str, tuple[Any, ...]], bool]


def follow(trace: Sequence[tuple[Any, ...]], config: Config) -> World:
    """Go the whole way, then let a fresh driver finish it. Raises Violation."""
    moves = Moves(config)
    world = moves.start(first_world(config))
    for label in trace:
        world = _go(moves, world, label)
    if isinstance(trace[-1][0], int):
        world = reach(moves, world, trace[-1][0], lambda _kind, _parts: False)
    check_end(_all_dead(world), config)
    finish(moves, world)
    return world


def _go(moves: Moves, world: World, label: tuple[Any, ...]) -> World:
    if label[0] in ("deliver", "straggler"):
        for kind, parts, after in moves.environment(world):
            if kind == label[0] and (kind == "deliver" or _is(label[1], parts[1], moves.config)):
                check(after, moves.config)
                return after
        return world
    index, what = label[:2]
    if what == "starts":
        return moves.start(world)
    if what == "dies":
        return world.with_process(index, node=0, partial=(), job=None, status="dead")
    if what == "next":
        return _before_the_next_checkpoint(moves, world, index)
    wanted = _wanted(label, moves.config)
    return reach(moves, world, index, wanted) if wanted else world


def _before_the_next_checkpoint(moves: Moves, world: World, index: int) -> World:
    """Past what a driver does between checkpoints and the model leaves out: positions, Spark's plan, the query's id."""
    for _ in range(_STEPS):
        process = world.processes[index]
        if process.status != "live" or isinstance(moves.processes[process.node].action, _BEGINS):
            return world
        world = next(after for kind, _, after in moves.step(world._replace(current=index), index) if kind == "step")
        check(world, moves.config)
    raise AssertionError("a process never ends")


def reach(moves: Moves, world: World, index: int, wanted: Wanted) -> World:
    """The world after the first move of this process that is wanted, or at its end. Raises Violation."""
    for _ in range(_STEPS):
        if index >= len(world.processes) or world.processes[index].status != "live":
            return world
        plain = None
        for kind, parts, after in moves.step(world._replace(current=index), index):
            if wanted(kind, parts):
                check(after, moves.config)
                return after
            if plain is None and kind == "step":
                plain = after
        assert plain is not None
        check(plain, moves.config)
        world = plain
    raise AssertionError("a process never ends")


def _wanted(label: tuple[Any, ...], config: Config) -> Wanted | None:
    """None: a step of the model that is none of the code's own."""
    what, which = label[1], label[2] if len(label) > 2 else None
    if what in _SWAPS:
        kind_of_answer = _ANSWERS.get(str(which), "step")
        return lambda kind, parts: kind == kind_of_answer and _SWAPS[what] in (parts[1], _operation(parts)[-1])
    if what == "is to be aborted":
        return lambda kind, _: kind == "aborter"
    if what == "job fails":
        return lambda _, parts: parts[1] == "job fails"
    if what == "read":  # and compare: from then on a start relies on what it has seen
        return lambda _, parts: _operation(parts)[0] == "spark"
    if what == "look":
        return lambda _, parts: isinstance(_operation(parts)[0], messages.ReadHead)
    if what == "mark":
        return lambda _, parts: isinstance(_operation(parts)[0], MarkDone)
    if what == "list":
        return lambda _, parts: _operation(parts)[:2] == ("list", config.sinks - 1)
    if what == "prune":
        return lambda _, parts: _operation(parts)[:2] == ("prune", config.sinks - 1)
    if what in _OPERATIONS:
        return lambda _, parts: _operation(parts)[:2] == (_OPERATIONS[what], which)
    if what in ("commit", "roll back") and which is not None:
        name = "commit" if what == "commit" else "abort"
        return lambda _, parts: _operation(parts)[0] == name and _is(which, parts[1][2], config)
    if what in _JOB:
        size = 4 if what == "prepare, accept old" else 2
        return lambda _, parts: _is_job(parts[1], _JOB[what], size, which, config)
    return None


def _operation(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    operation = parts[1] if len(parts) > 1 else None
    return operation if isinstance(operation, tuple) and operation else (operation,)


def _is_job(what: Any, names: tuple[str, ...], size: int, which: Any, config: Config) -> bool:
    return isinstance(what, tuple) and what[0] in names and len(what) == size and _is(which, what[1], config)


def _is(xid: Any, text: object, config: Config) -> bool:
    """Whether the model's transaction is this one of the simulation."""
    assert isinstance(xid, Xid)
    assert isinstance(text, str)
    found = parse(text)
    if found is None:
        return False
    same = (found.scope.checkpoint_id + 1, found.scope.epoch, found.scope.attempt, found.task)
    return (
        same == (xid.number, xid.epoch, xid.attempt, xid.task)
        and found.sink == sink_key(config.names[xid.sink])
        and found.task_attempt % 2 == xid.run
    )


def _all_dead(world: World) -> World:
    return world._replace(
        processes=tuple(p._replace(status="dead") if p.status == "live" else p for p in world.processes)
    )

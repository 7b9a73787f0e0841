"""Spark's job of one checkpoint: each task opens a transaction, prepares it and acknowledges; some are run twice (H1).
At-least-once it commits instead. In the job of a repair only what is lost is written, and everything else counted.

A job is (unit, attempt, phase, accepted, acked): a unit is one task of one sink; the phase is "open", or the id of the
transaction that is open; `acked` says that the first of two
attempts has acknowledged, so that Spark may take its word instead. What is accepted is (sink, transaction, whether its
rows are others than those of before). Attempts that nobody waits for any more live on in
their sink: `moves` lets them prepare at any later moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from tests.simulation import sinks
from tests.simulation.config import Config
from tests.simulation.world import World
from twophase import messages
from twophase.ids import Scope, TransactionId, sink_key
from twophase.values import origin

_ATTEMPTS = 1_000  # more than one memory gives ids to

BEGUN: tuple[Any, ...] = (0, 0, "open", (), False)


def transaction(world: World, index: int, scope: Scope, config: Config, attempt: int | None = None) -> str:
    """The id of an attempt of the unit under way."""
    process = world.processes[index]
    unit, current, phase = (process.job or BEGUN)[:3]
    if phase != "open" and attempt is None:
        return str(phase)
    sink, task = divmod(unit, config.tasks)
    number = unit * 2 + (current if attempt is None else attempt)
    if config.broken != "ids are given out again":
        number += _ATTEMPTS * process.resumed
    if config.broken == "no epoch in the id":
        scope = replace(scope, epoch=0)
    return str(TransactionId(scope, sink_key(config.names[sink]), task, number))


Job = messages.RunWriters | messages.RewriteMissing


def step(world: World, index: int, action: Job, config: Config) -> Iterator[tuple[Any, World, Any]]:
    """What the job may do next: (what, world, result), with a result when the job has ended."""
    scope, job = action.scope, world.processes[index].job or BEGUN
    if job[0] == config.sinks * config.tasks:
        yield "job ends", world, ("acknowledged", job[3])
        return
    if isinstance(action, messages.RewriteMissing):
        yield from _again(world, index, action, job, config)
    else:
        do = _commit if action.direct else _open if job[2] == "open" else _prepare
        yield from do(world, index, scope, job, config)
    if world.budget.failures:
        yield "job fails", world.spend("failures"), ("failed", "a task failed")


def _again(
    world: World, index: int, action: messages.RewriteMissing, job: Any, config: Config
) -> Iterator[tuple[Any, World, Any]]:
    unit, _, phase, accepted, _ = job
    number, task = divmod(unit, config.tasks)
    gone = {each.transaction.task: str(origin(each)) for each in action.lost.get(config.names[number], ())}
    text, sink = transaction(world, index, action.scope, config), world.sinks[number]
    if phase == "open":
        held = frozenset[tuple[str, str]]() if "not held" in config.broken else {(text, gone.get(task, text))}
        for drifted in (False, True) if world.budget.drifts else (False,):
            other = world.spend("drifts") if drifted else world
            if task not in gone:
                counted = (unit + 1, 0, "open", (*accepted, (number, text, drifted)), False)
                yield ("counts", text, drifted), other.with_process(index, job=counted), None
                continue
            other = other.with_sink(number, instead=sink.instead | held)
            if drifted:
                other = other.with_sink(number, drifted=sink.drifted | {text})
            yield from _open(other, index, action.scope, job, config)
    elif config.evicts and sinks.is_hindered(sink, text):
        yield ("waits for the witness in vain", text), world, ("failed", "the witness is held")
    else:
        yield from _prepare(world, index, action.scope, job, config)


def _open(world: World, index: int, scope: Scope, job: Any, config: Config) -> Iterator[tuple[Any, World, Any]]:
    unit, attempt, _, accepted, acked = job
    number = unit // config.tasks
    sink, text = world.sinks[number], transaction(world, index, scope, config)
    is_resumed = world.processes[index].resumed > 0
    if not sinks.is_permitted(sink, scope, config, is_resumed=is_resumed) and not config.broken.startswith("no permit"):
        yield ("finds no permit", text), world, ("failed", "no permit")
        return
    if is_resumed and (text in sink.held or (config.evicts and text in sink.witnesses)):
        yield ("finds its id taken", text), world, ("failed", "the id is taken")
        return
    kept = sink.prepared
    if config.broken == "retry rolls its sibling back" and attempt:
        kept -= {transaction(world, index, scope, config, 0)}
    twice = sink.twice | ({text} & sink.committed)
    opened = world.with_sink(number, open=sink.open | {text}, prepared=kept, twice=twice)
    yield ("opens", text), opened.with_process(index, job=(unit, attempt, text, accepted, acked)), None


def _prepare(world: World, index: int, scope: Scope, job: Any, config: Config) -> Iterator[tuple[Any, World, Any]]:
    unit, attempt, _, accepted, acked = job
    number = unit // config.tasks
    sink, text = world.sinks[number], transaction(world, index, scope, config)
    if text not in sink.open:
        yield ("was ended", text), world, ("failed", "ended")
        return
    ready = world.with_sink(number, open=sink.open - {text}, prepared=sink.prepared | {text})

    def accept(after: World, which: str) -> World:
        taken = text if config.broken == "the newest attempt is committed" else which
        drifted = taken in after.sinks[number].drifted
        return after.with_process(index, job=(unit + 1, 0, "open", (*accepted, (number, taken, drifted)), False))

    yield ("prepares", text), accept(ready, text), None
    if attempt:
        if acked:
            older = transaction(world, index, scope, config, 0)
            yield ("prepares", text, "accepted is", older), accept(ready, older), None
            yield ("accepted is", older), accept(world, older), None
    elif world.budget.retries:
        hanging, late = (unit, 1, "open", accepted, False), (unit, 1, "open", accepted, True)
        yield ("hangs, is run again", text), world.spend("retries").with_process(index, job=hanging), None
        yield ("prepares, is run again", text), ready.spend("retries").with_process(index, job=late), None


def _commit(world: World, index: int, scope: Scope, job: Any, config: Config) -> Iterator[tuple[Any, World, Any]]:
    unit, attempt, _, accepted, acked = job
    number = unit // config.tasks
    text = transaction(world, index, scope, config)
    done = world.with_sink(number, direct=world.sinks[number].direct | {text})
    taken = done.with_process(index, job=(unit + 1, 0, "open", (*accepted, (number, text, False)), False))
    yield ("commits", text), taken, None
    if not attempt and world.budget.retries:
        for before, what in ((done, "commits, is run again"), (world, "fails, is run again")):
            again = before.spend("retries").with_process(index, job=(unit, 1, "open", accepted, acked))
            yield (what, text), again, None


def acknowledge(world: World, text: str, scopes: Sequence[Scope | None], config: Config) -> World:
    """A straggler has prepared: the job that runs its task again hears of it."""
    for index, (process, scope) in enumerate(zip(world.processes, scopes, strict=True)):
        if scope is None or process.job is None or not process.job[1]:
            continue
        if transaction(world, index, scope, config, 0) == text:
            return world.with_process(index, job=(*process.job[:4], True))
    return world

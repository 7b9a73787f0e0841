"""What the simulated processes do around the protocol: a run, with Spark; `eos reset`; a process that aborts."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

from eos.errors import ConnectorError, IdentityError, PrepareError
from tests.simulation.answers import offsets_log
from tests.simulation.config import FIRST_OFFSET, PIPELINE, SOURCE, SPLIT, Config
from tests.simulation.operations import FOLLOWS, AwaitBack, IsBack, Keep, MarkDone, Plan, ReadKept, ReadSpark, said
from tests.simulation.world import Spark, ends_from, head_of
from twophase.messages import BatchStart, HeadSnapshot, ReadHead
from twophase.values import CheckpointRecord, StartingPoint

Steps = Generator[Any, Any, None]


class RefusedError(Exception):
    """A start that was refused, as against a driver that is stopped later."""


def run(config: Config, number: int) -> Steps:
    """A run: one driver after another, while a restart may cure what ended the one before."""
    held = None
    for restart in range(config.restarts + 1):
        session = f"d{number}.{restart}{FOLLOWS if held is not None else ''}"
        try:
            owned = yield from _start(config, session, _incarnation(number), held)
            try:
                yield from _checkpoints(config, owned, direct=number in config.direct)
            finally:
                held = owned.held()
            return
        except ConnectorError as error:
            if not error.retriable or restart == config.restarts:
                raise


def _incarnation(number: int) -> str:
    return f"incarnation{number:09d}"


def _start(config: Config, session: str, incarnation: str, held: HeadSnapshot | None) -> Generator[Any, Any, Any]:
    start = config.coordinator.startup.start
    names = PIPELINE, config.names, session, incarnation, config.retained, held
    try:
        if not config.absent:
            return (yield from start(*names))
        kept: str = yield ReadKept()
        owned = yield from start(*names, known={config.names[0]: [kept]})
    except IdentityError as error:
        raise RefusedError(str(error)) from error
    if not owned.away:
        yield Keep(owned.head.incarnation)
    return owned


def rescale(config: Config, number: int, state_partitions: int) -> Steps:
    """`eos rescale`."""
    session, incarnation = f"s{number}.0", _incarnation(number)
    protocol, direct = config.coordinator.rescale.rescale, number in config.direct
    try:
        yield from protocol(
            PIPELINE, config.names, session, incarnation, config.retained, state_partitions, direct=direct
        )
    except IdentityError as error:
        raise RefusedError(str(error)) from error


def repair(config: Config, number: int) -> Steps:
    """`eos repair`."""
    protocol, incarnation = config.coordinator.repair.repair, _incarnation(number)
    yield from protocol(PIPELINE, config.names, config.preparing, f"m{number}.0", incarnation, config.retained)


def reset(config: Config, number: int, abandon_lost: bool) -> Steps:
    """`eos reset`: the command reads head, the user agrees, and the reset begins."""
    seen: HeadSnapshot | None = yield ReadHead()
    yield from _reset(config, number, seen, None, abandon_lost=abandon_lost)


def reset_to(config: Config, number: int) -> Steps:
    """`eos reset --to completed`: the same; the new incarnation begins at the positions of the head that was read."""
    seen: HeadSnapshot | None = yield ReadHead()
    known = seen.head.position(SOURCE, SPLIT) if seen is not None else None
    begins = {SOURCE: StartingPoint({SPLIT: FIRST_OFFSET if known is None else known}, {})}
    yield from _reset(config, number, seen, begins, abandon_lost=False)


def _reset(
    config: Config,
    number: int,
    seen: HeadSnapshot | None,
    begins: dict[str, StartingPoint] | None,
    *,
    abandon_lost: bool,
) -> Steps:
    expected = seen.head if seen is not None else None
    protocol, names = config.coordinator.reset.reset, (PIPELINE, config.names, f"r{number}", _incarnation(number))
    try:
        yield from protocol(*names, expected=expected, abandon_lost=abandon_lost, begins=begins)
    except IdentityError as error:
        raise RefusedError(str(error)) from error


def restore(config: Config, number: int) -> Steps:
    """A start from a savepoint of checkpoint 0: somebody looks, agrees, and it begins."""
    seen: HeadSnapshot = yield ReadHead()
    modules = config.coordinator.restore
    begins = {SOURCE: StartingPoint({SPLIT: FIRST_OFFSET}, {})}
    seed = modules.Seed(said(seen.head), 0, "query", offsets_log(0), begins, {SOURCE: {SPLIT: 10}}, 1.0)
    steps = modules.restore(
        PIPELINE, config.names, f"s{number}", _incarnation(number), seed, expected=seen.head, take_over=False
    )
    try:
        yield from steps
    except IdentityError as error:
        raise RefusedError(str(error)) from error


def _checkpoints(config: Config, owned: Any, *, direct: bool) -> Steps:
    """What the runner and Spark do around the protocol, in one epoch."""
    protocol, incarnation = config.coordinator, owned.head.incarnation
    if SOURCE not in owned.head.initial:
        began = StartingPoint({SPLIT: FIRST_OFFSET}, {})
        yield from owned.swap(protocol.transitions.SetPositions(SOURCE, began), "positions")
    tries, waiting = config.tries, list[CheckpointRecord]()
    absent = list[CheckpointRecord](owned.waiting)
    older = len(absent)
    while True:
        if owned.away and (yield IsBack()):
            yield from _join(config, owned, absent, older)
        spark: Spark = yield ReadSpark(incarnation)
        if spark.committed >= config.last:
            if owned.away:
                yield AwaitBack()
                yield from _join(config, owned, absent, older)
            yield from _finish(config, owned, waiting, 0)
            return
        batch = spark.planned if spark.planned > spark.committed else spark.planned + 1
        yield Plan(incarnation, batch)
        if owned.head.query_id is None:
            yield from owned.swap(protocol.transitions.SetQuery("query"), "query")
        ends = {SOURCE: {SPLIT: ends_from(owned.head) + 10 * (batch + 1 - len(spark.rescales))}}
        begin = BatchStart(batch, ends, offsets_log(batch), at=0.0)
        try:
            if owned.away:
                known = owned.head.completed
                record = yield from protocol.checkpoint.decide(owned, begin, config.names)
                if record.checkpoint_id > known:
                    absent.append(record)
                    others = {n: group for n, group in record.committables.items() if n not in owned.away}
                    yield from protocol.checkpoint.show(owned, replace(record, committables=others))
            elif config.behind:
                known = owned.head.completed
                record = yield from protocol.checkpoint.decide(owned, begin, config.names)
                waiting += [record] if record.checkpoint_id > known else []
                yield from _finish(config, owned, waiting, config.behind)
            else:
                run_checkpoint = protocol.checkpoint.run_checkpoint
                yield from run_checkpoint(owned, begin, config.names, config.retained, direct=direct)
        except ConnectorError as error:
            tries -= 1
            if not (error.retriable and tries):
                raise
            continue
        yield MarkDone(incarnation, batch)


def _join(config: Config, owned: Any, absent: list[CheckpointRecord], older: int) -> Steps:
    """What the thread of sink 0 does once it is back: `absent` waits there, `older` of it from before this epoch."""
    protocol, name = config.coordinator, config.names[0]
    yield from protocol.joining.join(owned, name)
    for number, record in enumerate([*absent, None]):
        if number == older:
            yield from protocol.joining.settle(owned, name)
        if record is not None:
            here = replace(record, committables={name: record.committables[name]})
            yield from protocol.checkpoint.show(owned, here, own=number >= older)
            yield from protocol.checkpoint.say(owned, record, config.retained)
    absent.clear()
    yield Keep(owned.head.incarnation)


def _finish(config: Config, owned: Any, waiting: list[CheckpointRecord], behind: int) -> Steps:
    """What the threads of `twophase.backlog` do, at the latest possible moment: commit all but the newest `behind`."""
    while len(waiting) > behind:
        record = waiting.pop(0)
        yield from config.coordinator.checkpoint.show(owned, record)
        yield from config.coordinator.checkpoint.say(owned, record, config.retained)


def aborter(config: Config, version: int, head: bytes, scope: Any) -> Steps:
    """Another process of the same epoch that Spark asks to abort what this epoch is just deciding (H2)."""
    value = head_of(head)
    assert value is not None
    owned = config.coordinator.ownership.Ownership("aborter", version, value)
    yield from config.coordinator.checkpoint._abort(owned, scope, PrepareError("asked to abort"))

"""The answers of actions, as `twophase.messages` has them, from the results of their operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from eos.errors import HeadFormatError, PrepareError, SinkUnavailableError
from tests.simulation.config import Config
from tests.simulation.operations import IsBack, ReadKept, ReadSpark
from tests.simulation.sinks import ABSENT
from tests.simulation.world import Spark, head_of, parse, record_of
from twophase import messages
from twophase.messages import Acknowledged, Failed, HeadSnapshot, Inspected, StateRescaled
from twophase.participants import Prepared
from twophase.values import DIGEST_METHODS, Committable, SinkState, SparkState


def offsets_log(checkpoint_id: int) -> str:
    """Content of Spark's offsets/N."""
    return f"v1 batch {checkpoint_id}"


def answer(action: Any, results: Sequence[Any], config: Config) -> object:
    """The action's answer, from the results of its operations."""
    match action:
        case messages.ReadHead():
            version, content = results[0]
            head = head_of(content)
            return HeadSnapshot(version, head) if head is not None else None
        case messages.Inspect():
            found = dict(zip(_names(action.sinks, config), results[:-1], strict=True))
            states = {
                name: SinkState(*_claim(r[0]), r[1], _ids(r[2]), r[3] if config.counts else None)
                for name, r in found.items()
                if r != ABSENT
            }
            away = {name: SinkUnavailableError("the sink is away") for name, r in found.items() if r == ABSENT}
            return Inspected(_spark(results[-1]), states, away)
        case messages.ListPrepared():
            names = _names(action.sinks, config)
            return {name: tuple(map(_prepared, listed)) for name, listed in zip(names, results, strict=True)}
        case messages.Commit():
            outcomes = iter(results)
            return {name: [next(outcomes) for _ in group] for name, group in action.committables.items()}
        case messages.LoadRecord():
            return record_of(results[0]) if results[0] is not None else HeadFormatError("the record is gone")
        case messages.RunWriters() | messages.RewriteMissing():
            return _acknowledged(action, results[0], config)
        case messages.FindMissing():
            is_lost = iter(results)
            return {name: [c for c in group if next(is_lost)] for name, group in action.committables.items()}
        case messages.Discard() if config.stateful:
            tasks, number = range(config.tasks), action.checkpoint_id
            digests = [sum(_digest(number, task, method) for task in tasks) for method in action.digest_methods]
            return [dict.fromkeys(config.names, (config.tasks, each)) for each in digests]
        case messages.RescaleState():
            if False in results:
                return Failed(PrepareError("Spark has another plan of that batch, or has committed it"))
            return StateRescaled(offsets_log(action.checkpoint_id), started_at=0.0, at=1.0)
        case messages.Swap() | ReadSpark() | ReadKept() | IsBack():
            return results[0]
        case _:
            return None


def _names(sinks: tuple[str, ...] | None, config: Config) -> list[str]:
    return [name for name in config.names if sinks is None or name in sinks]


def _claim(claim: tuple[str, int] | None) -> tuple[str | None, int]:
    return claim if claim is not None else (None, 0)


def _ids(texts: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(parse(text) for text in texts)


def _spark(spark: Spark) -> SparkState:
    newest = {n: offsets_log(n) for n in range(max(spark.planned - 1, 0), spark.planned + 1)}
    partitions = {number: spark.state_partitions(number) for number in newest}
    return SparkState(spark.query, spark.planned, spark.committed, newest, partitions)


def _prepared(text: str) -> Prepared:
    return Prepared(parse(text), text)


def _acknowledged(
    action: messages.RunWriters | messages.RewriteMissing, result: tuple[str, ...], config: Config
) -> Acknowledged | Failed:
    scope = action.scope
    if result[0] == "failed":
        return Failed(PrepareError(result[1]), again=scope.attempt <= config.tolerated)
    by_sink: dict[str, list[Committable]] = {name: [] for name in config.names}
    if isinstance(action, messages.RewriteMissing):
        method = action.record.digest_methods[-1]
    else:
        method = DIGEST_METHODS[-2 if config.updated and scope.epoch == 1 else -1]
    for number, text, is_drifted in cast("tuple[tuple[int, str, bool], ...]", result[1]):
        transaction = parse(text)
        assert transaction is not None
        digest = _digest(scope.checkpoint_id, transaction.task, method) if config.stateful else 0
        rows, digest = (1, digest + is_drifted) if config.stateful else (1 + is_drifted, 0)
        by_sink[config.names[number]].append(Committable(transaction, rows, digest=digest))
    return Acknowledged({name: tuple(group) for name, group in by_sink.items()}, at=1.0, digest_method=method)


def _digest(checkpoint_id: int, task: int, method: int) -> int:
    """Return the digest, by this method, of the rows that a task has had, in whatever attempt."""
    return 1 + 10 * (100 * checkpoint_id + task) + 100_000 * method

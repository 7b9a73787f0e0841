"""The real coordinator as a process: what it does next follows from the answers that it was given, and nothing else.

A state is a node: the path of answers from its birth. A node is made once, by sending the last answer to the coroutine
of its parent, or to one that is run through the whole path again where that one has gone another way. Worlds that
differ in other things share it.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from tests.simulation.answers import answer, offsets_log
from tests.simulation.config import FIRST_OFFSET, PIPELINE, SOURCE, SPLIT, Config
from tests.simulation.operations import MarkDone, Operation, Plan, ReadSpark, operations
from tests.simulation.world import Process, Spark, head_of
from twophase.errors import ConnectorError, FencedError, HeadFormatError, IdentityError, LostCommittableError
from twophase.messages import Begin
from twophase.values import StartingPoint

Make = tuple[Any, ...]
Path = tuple[tuple[Any, ...], ...]
Steps = Generator[Any, Any, None]


class RefusedError(Exception):
    """A start that was refused, as against a driver that is stopped later."""


@dataclass(frozen=True)
class Node:
    """A process after some answers."""

    make: Make
    path: Path
    action: Any  # what it does next; None at its end
    operations: tuple[Operation, ...]
    end: str  # "" while it lives
    reason: str = ""


class Processes:
    """All processes of one exploration."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._nodes: list[Node] = []
        self._roots: dict[Make, int] = {}
        self._children: dict[tuple[int, tuple[Any, ...]], int] = {}
        self._running: dict[int, Steps] = {}  # by node: coroutines that stand there

    def __getitem__(self, node: int) -> Node:
        return self._nodes[node]

    def begin(self, make: Make) -> Process:
        """A new process: ("driver", number) or ("aborter", version, head, scope)."""
        if make not in self._roots:
            self._roots[make] = len(self._nodes)
            self._add(make, (), self._born(make), None)
        return Process(make, self._roots[make])

    def follow(self, process: Process, results: tuple[Any, ...]) -> Process:
        """The process after its action was answered."""
        key = (process.node, results)
        if key not in self._children:
            node = self._nodes[process.node]
            self._children[key] = len(self._nodes)
            steps = self._running.pop(process.node, None) or self._replay(node)
            self._add(node.make, (*node.path, results), steps, answer(node.action, results, self._config))
        number = self._children[key]
        end = self._nodes[number].end
        return Process(process.make, 0, (), None, end) if end else Process(process.make, number)

    def reason(self, process: Process, results: tuple[Any, ...]) -> str:
        """Why following these results ended the process."""
        return self._nodes[self._children[process.node, results]].reason

    def _add(self, make: Make, path: Path, steps: Steps, last: object) -> None:
        number = len(self._nodes)
        if path and path[-1] and isinstance(path[-1][-1], tuple) and path[-1][-1][:1] == ("raise",):
            self._nodes.append(Node(make, path, None, (), path[-1][-1][1]))
            return
        try:
            action = steps.send(last)
        except StopIteration:
            self._nodes.append(Node(make, path, None, (), "done"))
        except (ConnectorError, RefusedError) as error:
            self._nodes.append(Node(make, path, None, (), _end(error), str(error)))
        else:
            self._nodes.append(Node(make, path, action, operations(action, self._config), ""))
            self._running[number] = steps

    def _born(self, make: Make) -> Steps:
        return _aborter(self._config, *make[1:]) if make[0] == "aborter" else _driver(self._config, make[1])

    def _replay(self, node: Node) -> Steps:
        steps = self._born(node.make)
        action = next(steps)
        for results in node.path:
            action = steps.send(answer(action, results, self._config))
        return steps


def _end(error: Exception) -> str:
    kinds = {
        RefusedError: "refused",
        FencedError: "fenced",
        LostCommittableError: "lost",
        HeadFormatError: "damaged",
        IdentityError: "stopped",
    }
    return next((name for kind, name in kinds.items() if isinstance(error, kind)), "failed")


def _driver(config: Config, number: int) -> Steps:
    """What the runner and Spark do around the protocol."""
    protocol = config.coordinator
    incarnation = f"incarnation{number:09d}"
    try:
        owned = yield from protocol.startup.start(PIPELINE, config.names, f"d{number}", incarnation, config.retained)
    except IdentityError as error:
        raise RefusedError(str(error)) from error
    if SOURCE not in owned.head.initial:
        began = StartingPoint({SPLIT: FIRST_OFFSET}, {})
        yield from owned.swap(protocol.transitions.SetPositions(SOURCE, began), "positions")
    tries = config.tries
    while True:
        spark: Spark = yield ReadSpark()
        if spark.committed >= config.last:
            return
        batch = spark.planned if spark.planned > spark.committed else spark.planned + 1
        yield Plan(batch)
        if owned.head.query_id is None:
            yield from owned.swap(protocol.transitions.SetQuery("query"), "query")
        ends = {SOURCE: {SPLIT: 10 * (batch + 1)}}
        begin = Begin(batch, ends, offsets_log(batch), at=0.0)
        try:
            yield from protocol.checkpoint.run_checkpoint(owned, begin, config.names, config.retained)
        except ConnectorError as error:
            tries -= 1
            if not (error.retriable and tries):
                raise
            continue
        yield MarkDone(batch)


def _aborter(config: Config, version: int, head: bytes, scope: Any) -> Steps:
    """Another process of the same epoch that Spark asks to abort what this epoch is just deciding (H2)."""
    value = head_of(head)
    assert value is not None
    owned = config.coordinator.ownership.Ownership("aborter", version, value)
    yield from config.coordinator.checkpoint._abort(owned, scope)

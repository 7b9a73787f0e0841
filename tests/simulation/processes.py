"""The real coordinator as a process: what it does next follows from the answers that it was given, and nothing else.

A state is a node: the path of answers from its birth. A node is made once, by sending the last answer to the coroutine
of its parent, or to one that is run through the whole path again where that one has gone another way. Worlds that
differ in other things share it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from eos.errors import (
    ConnectorError,
    FencedError,
    HeadFormatError,
    IdentityError,
    LostCommittableError,
    ReplayMismatchError,
    SetBackError,
    SinkUnavailableError,
)
from tests.simulation import runs
from tests.simulation.answers import answer
from tests.simulation.config import Config
from tests.simulation.operations import Operation, operations
from tests.simulation.sinks import AWAY, SET_BACK
from tests.simulation.world import Process
from twophase import messages

Make = tuple[Any, ...]
Path = tuple[tuple[Any, ...], ...]
Steps = Generator[Any, Any, None]

RESUMED: tuple[Any, ...] = ("resumed",)
"""No answer: in the path of a process that goes on from a snapshot of its memory."""


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
        """A new process: ("driver", number), ("reset", number, abandon_lost), ("reset to", number),
        ("restore", number), ("repair", number), ("rescale", number, state partitions) or
        ("aborter", version, head, scope)."""
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
            self._add(node.make, (*node.path, results), steps, node.action)
        number = self._children[key]
        end = self._nodes[number].end
        if end:
            return Process(process.make, 0, (), None, end, process.resumed)
        return Process(process.make, number, resumed=process.resumed)

    def resume(self, process: Process) -> Process:
        """The process as it goes on from a snapshot of its memory: what it draws from now on is new (H33)."""
        key = (process.node, RESUMED)
        if key not in self._children:
            node = self._nodes[process.node]
            self._children[key] = len(self._nodes)
            self._nodes.append(Node(node.make, (*node.path, RESUMED), node.action, node.operations, ""))
        return process._replace(node=self._children[key], resumed=process.resumed + 1)

    def reasons(self, make: Make) -> set[str]:
        """The errors that have ended processes of this birth."""
        return {node.reason for node in self._nodes if node.make == make and node.reason}

    def _add(self, make: Make, path: Path, steps: Steps, last: Any) -> None:
        number = len(self._nodes)
        raised = _raised(path[-1]) if path else None
        if raised is not None and raised not in (AWAY[1], SET_BACK[1]):
            self._nodes.append(Node(make, path, None, (), raised))
            return
        try:
            action = self._go_on(steps, last, path) if path else _after_news(steps, next(steps), path)
        except StopIteration:
            self._nodes.append(Node(make, path, None, (), "done"))
        except (ConnectorError, runs.RefusedError) as error:
            self._nodes.append(Node(make, path, None, (), _end(error), str(error)))
        else:
            self._nodes.append(Node(make, path, action, operations(action, self._config), ""))
            self._running[number] = steps

    def _go_on(self, steps: Steps, action: Any, path: Path) -> Any:
        results = path[-1]
        raised = _raised(results)
        if raised == SET_BACK[1]:
            error = SetBackError("the sink went back in time")
            if isinstance(action, messages.Count):
                return _after_news(steps, steps.send(error), path)
            return steps.throw(error)
        if raised is not None:
            return steps.throw(SinkUnavailableError("the sink is away"))
        return _after_news(steps, steps.send(answer(action, results, self._config)), path)

    def _born(self, make: Make) -> Steps:
        kinds: dict[str, Callable[..., Steps]] = {
            "aborter": runs.aborter,
            "driver": runs.run,
            "repair": runs.repair,
            "rescale": runs.rescale,
            "reset": runs.reset,
            "reset to": runs.reset_to,
            "restore": runs.restore,
        }
        return kinds[make[0]](self._config, *make[1:])

    def _replay(self, node: Node) -> Steps:
        steps = self._born(node.make)
        action = _after_news(steps, next(steps), ())
        for number, results in enumerate(node.path, start=1):
            if results != RESUMED:
                action = self._go_on(steps, action, node.path[:number])
        return steps


def _after_news(steps: Steps, action: Any, path: Path) -> Any:
    """What is only told changes nothing, so that dying before and after it is the same; nor does a draw."""
    while isinstance(action, messages.Emit | messages.DrawNonce):
        action = steps.send(str(path.count(RESUMED)) if isinstance(action, messages.DrawNonce) else None)
    return action


def _raised(results: tuple[Any, ...]) -> str | None:
    """How the last operation ended the action, if it did."""
    last = results[-1] if results else None
    return str(last[1]) if isinstance(last, tuple) and last[:1] == ("raise",) else None


def _end(error: Exception) -> str:
    kinds = {
        runs.RefusedError: "refused",
        FencedError: "fenced",
        LostCommittableError: "lost",
        HeadFormatError: "damaged",
        IdentityError: "stopped",
        SetBackError: "set back",
        ReplayMismatchError: "other rows",
    }
    return next((name for kind, name in kinds.items() if isinstance(error, kind)), "failed")

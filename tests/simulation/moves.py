"""What may happen next in a world. The plain move of a process is of the kind "step"; trouble costs budget."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation import jobs
from tests.simulation.config import Config
from tests.simulation.operations import execute, swap
from tests.simulation.processes import Processes
from tests.simulation.sinks import AWAY
from tests.simulation.world import FOREIGN, World, head_of, record_of
from twophase import messages
from twophase.ids import Scope
from twophase.values import CommitOutcome

ASKED = frozenset({"inspect", "claim", "revoke older", "permit", "revoke", "list", "commit", "abort", "prune"})
"""Operations of sinks."""

Move = tuple[str, tuple[object, ...], World]
"""Kind, what happened (in parts: few are ever read), and the world after it."""


def has_savepoint(world: World) -> bool:
    """Checkpoint 0 is committed and done: one may have been taken."""
    head = head_of(world.head)
    return head is not None and min(head.committed, world.spark.committed) >= 0


class Moves:
    """The moves of one exploration."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.processes = Processes(config)

    def all(self, world: World) -> Iterator[Move]:
        """Everything that may happen."""
        return (move for move in self._all(world) if move[0] not in self.config.without)

    def _all(self, world: World) -> Iterator[Move]:
        yield from self.environment(world)
        live = [n for n, each in enumerate(world.processes) if each.status == "live"]
        free = world.current not in live or self.blocked(world, world.current)
        for index in live:
            if index == world.current:
                yield from self.step(world, index)
                yield "crash", (index, "dies"), self._die(world, index)
            elif free or world.budget.switches:
                after = world if free else world.spend("switches")
                yield "switch", (index, "goes on"), after._replace(current=index)
        drivers = sum(each.make[0] == "driver" for each in world.processes)
        if drivers < self.config.drivers and (free or world.budget.switches):
            yield "start", (len(world.processes), "starts"), self.start(world if free else world.spend("switches"))
        resets = sum(each.make[0] == "reset" for each in world.processes)
        if world.version and resets < self.config.resets and (free or world.budget.switches):
            born = self.reset(world if free else world.spend("switches"), len(world.processes))
            yield "reset", (len(world.processes), "resets"), born
        restores = sum(each.make[0] == "restore" for each in world.processes)
        if has_savepoint(world) and restores < self.config.restores and (free or world.budget.switches):
            born = self.restore(world if free else world.spend("switches"), len(world.processes))
            yield "restore", (len(world.processes), "starts from a savepoint"), born

        yield from self._rescales(world, free=free)

    def _rescales(self, world: World, *, free: bool) -> Iterator[Move]:
        """One at a time, by a lock. To one more, to the number of one that has not ended, or back."""
        made = [each.status for each in world.processes if each.make[0] == "rescale"]
        known = len(made) < self.config.rescales and "live" not in made and world.decided
        if known and (free or world.budget.switches):
            now = world.spark.state_partitions(len(world.decided) - 1)
            back = {now} if world.spark.unfinished is not None else set[int]()
            for wanted in sorted({now + 1} | back):
                number = len(world.processes)
                born = self.rescale(world if free else world.spend("switches"), number, wanted)
                yield "rescale", (number, "rescales to", wanted), born

    def rescale(self, world: World, number: int, state_partitions: int) -> World:
        """One more `eos rescale`."""
        return self._begin(world, ("rescale", number, state_partitions))

    def start(self, world: World, number: int | None = None) -> World:
        """One more run, with its first driver."""
        return self._begin(world, ("driver", len(world.processes) if number is None else number))

    def reset(self, world: World, number: int, *, abandon_lost: bool = False) -> World:
        """One more `eos reset`."""
        return self._begin(world, ("reset", number, abandon_lost))

    def restore(self, world: World, number: int) -> World:
        """One more start from a savepoint."""
        return self._begin(world, ("restore", number))

    def _begin(self, world: World, make: tuple[object, ...]) -> World:
        born = self.processes.begin(make)
        return world._replace(processes=(*world.processes, born), current=len(world.processes))

    def _die(self, world: World, index: int) -> World:
        return world.with_process(index, node=0, partial=(), job=None, status="dead")

    def blocked(self, world: World, index: int) -> bool:
        """It waits for a commit of somebody else that takes its time."""
        waits = any(sink.committing for sink in world.sinks) and world.processes[index].status == "live"
        return waits and not any(self.step(world, index))

    def step(self, world: World, index: int) -> Iterator[Move]:
        """What one process may do."""
        process = world.processes[index]
        action = self.processes[process.node].action
        if isinstance(action, messages.RunWriters):
            for what, after, result in jobs.step(world, index, action, self.config):
                moved = after if result is None else self._answered(after, index, (result,))
                yield "step", (index, what), moved
            return
        whole = self.processes[process.node].operations
        if not whole:
            yield "step", (index, action), self._answered(world, index, ())
            return
        operation = whole[len(process.partial)]
        if (
            world.budget.outages
            and process.make[0] == "driver"
            and isinstance(operation[0], str)
            and operation[0] in ASKED
        ):
            yield "outage", (index, operation, "is not answered"), self._result(world.spend("outages"), index, AWAY)
        if operation[0] == "commit":
            yield from self._commit(world, index, operation)
            return
        result, after = execute(world, operation, self.config.broken)
        if isinstance(action, messages.Swap):
            yield from self._trouble_with_swap(world, index, action, operation[2])
        yield "step", (index, operation, result), self._result(after, index, result)

    def _commit(self, world: World, index: int, operation: tuple[object, ...]) -> Iterator[Move]:
        _, number, transaction, repeated = operation
        assert isinstance(number, int)
        assert isinstance(transaction, str)
        assert isinstance(repeated, int)
        sink = world.sinks[number]
        mine = (transaction, index)
        if mine in sink.committing:
            world = self._committed(world, number, mine)
        elif world.budget.commits and transaction in sink.prepared:
            begun = world.with_sink(number, prepared=sink.prepared - {transaction}, committing=sink.committing | {mine})
            yield "slow commit", (index, "sends commit of", transaction), begun.spend("commits")
        result, after = execute(world, operation, self.config.broken)
        if result is CommitOutcome.RETRY_LATER and repeated:
            return  # has asked once; asking for ever is left out
        yield "step", (index, operation, result), self._result(after, index, result)

    def _committed(self, world: World, number: int, entry: tuple[str, int]) -> World:
        sink = world.sinks[number]
        return world.with_sink(
            number,
            committing=sink.committing - {entry},
            committed=sink.committed | {entry[0]},
            witnesses=sink.witnesses | {entry[0]},
        )

    def _trouble_with_swap(self, world: World, index: int, action: messages.Swap, value: bytes) -> Iterator[Move]:
        what = (index, action.point, "at", action.version)
        if world.budget.aborters and action.point == "decide" and world.version == action.version:
            scope = record_of(action.value.records[-1].name).scope
            born = self.processes.begin(("aborter", world.version, world.head, scope))
            asked = world.spend("aborters")._replace(processes=(*world.processes, born))
            yield "aborter", (index, "is to be aborted"), asked
        if world.budget.swaps:
            landed, after = swap(world, action.version, value, self.config.broken)
            if landed:
                yield "lost answer", (*what, "landed, no answer"), self._result(after.spend("swaps"), index, None)
            late = world.spend("swaps")._replace(wire=world.wire | {(action.version, value)})
            yield "late swap", (*what, "on the wire, no answer"), self._result(late, index, None)

    def _result(self, world: World, index: int, result: object) -> World:
        process = world.processes[index]
        results = (*process.partial, result)
        ended = isinstance(result, tuple) and result[:1] == ("raise",)
        if ended or len(results) == len(self.processes[process.node].operations):
            return self._answered(world, index, results)
        return world.with_process(index, partial=results)

    def _answered(self, world: World, index: int, results: tuple[object, ...]) -> World:
        processes = list(world.processes)
        processes[index] = self.processes.follow(processes[index], results)
        return world._replace(processes=tuple(processes))

    def environment(self, world: World) -> Iterator[Move]:
        """What happens by itself: late swaps land, stragglers prepare, slow commits end."""
        for sent in sorted(world.wire):
            landed, after = swap(world._replace(wire=world.wire - {sent}), *sent, self.config.broken)
            if landed:
                yield "deliver", ("a late swap lands at", sent[0]), after
        awaited = self._awaited(world)
        for number, sink in enumerate(world.sinks):
            for text in sorted(sink.open - awaited):
                ready = world.with_sink(number, open=sink.open - {text}, prepared=sink.prepared | {text})
                heard = jobs.acknowledge(ready, text, self._scopes(world), self.config)
                yield "straggler", ("straggler prepares", text), heard
            for entry in sorted(sink.committing):
                yield "finish", ("a commit ends", *entry), self._committed(world, number, entry)
                undone = world.with_sink(
                    number, committing=sink.committing - {entry}, prepared=sink.prepared | {entry[0]}
                )
                yield "undo", ("the server dies before the commit of", *entry), undone
            if world.budget.vandals:
                for text in sorted(sink.prepared - {FOREIGN}):
                    gone = world.with_sink(number, prepared=sink.prepared - {text}).spend("vandals")
                    yield "vandal", ("somebody rolls back", text), gone._replace(vandalised=True)

    def _awaited(self, world: World) -> set[str]:
        """Attempts that a job still waits for."""
        return {
            jobs.transaction(scope, process.job, self.config)
            for scope, process in zip(self._scopes(world), world.processes, strict=True)
            if scope is not None and process.job is not None and process.job[2] == "prepare"
        }

    def _scopes(self, world: World) -> list[Scope | None]:
        """By process: the run whose job is under way."""
        actions = [self.processes[each.node].action if each.job is not None else None for each in world.processes]
        return [action.scope if action is not None else None for action in actions]

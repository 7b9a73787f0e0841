"""What may happen next in a world. The plain move of a process is of the kind "step"; trouble costs budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.simulation import jobs, sinks
from tests.simulation.config import Config
from tests.simulation.operations import AwaitBack, execute, set_head_back, swap
from tests.simulation.processes import Processes
from tests.simulation.resumed import resumes
from tests.simulation.set_back import set_backs
from tests.simulation.sinks import ABSENT, AWAY, FENCED
from tests.simulation.world import FOREIGN, World, head_of, record_of
from twophase import messages
from twophase.ids import Scope
from twophase.values import CommitOutcome

ASKED = frozenset({"inspect", "claim", "revoke older", "permit", "revoke", "list", "commit", "count", "abort", "prune"})
"""Operations of sinks."""

Move = tuple[str, tuple[object, ...], World]
"""Kind, what happened (in parts: few are ever read), and the world after it."""


def has_savepoint(world: World) -> bool:
    """Checkpoint 0 is committed and done: one may have been taken."""
    head = head_of(world.head)
    return head is not None and min(head.committed, world.spark.committed) >= 0


def _rescales(world: World) -> list[int]:
    """To one more, to the number of one that has not ended, or back."""
    now = world.spark.state_partitions(len(world.decided) - 1)
    is_half = world.spark.planned >= len(world.decided) and world.spark.planned in world.spark.rescales
    return [now, now + 1] if is_half else [now + 1]


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
        if free or world.budget.switches:
            yield from self._births(world if free else world.spend("switches"))

    def _births(self, world: World) -> Iterator[Move]:
        """Who may come."""
        config, number = self.config, len(world.processes)
        made = Counter(each.make[0] for each in world.processes)
        if made["driver"] < config.drivers:
            yield "start", (number, "starts"), self.start(world)
        if world.version and made["repair"] < config.repairs:
            yield "repair", (number, "repairs"), self.repair(world, number)
        if world.version and made["reset"] < config.resets:
            yield "reset", (number, "resets"), self.reset(world, number)
        if made["reset to"] < config.resets_to:
            yield "reset to", (number, "resets to the positions of head"), self.reset_to(world, number)
        if has_savepoint(world) and made["restore"] < config.restores:
            yield "restore", (number, "starts from a savepoint"), self.restore(world, number)
        rescaling = any(each.make[0] == "rescale" and each.status == "live" for each in world.processes)
        if world.decided and made["rescale"] < config.rescales and not rescaling:  # one at a time, by a lock
            for wanted in _rescales(world):
                yield "rescale", (number, "rescales to", wanted), self.rescale(world, number, wanted)

    def rescale(self, world: World, number: int, state_partitions: int) -> World:
        """One more `eos rescale`."""
        return self._begin(world, ("rescale", number, state_partitions))

    def start(self, world: World, number: int | None = None) -> World:
        """One more run, with its first driver."""
        return self._begin(world, ("driver", len(world.processes) if number is None else number))

    def repair(self, world: World, number: int) -> World:
        """One more `eos repair`."""
        return self._begin(world, ("repair", number))

    def reset(self, world: World, number: int, *, abandon_lost: bool = False) -> World:
        """One more `eos reset`."""
        return self._begin(world, ("reset", number, abandon_lost))

    def reset_to(self, world: World, number: int) -> World:
        """One more `eos reset --to completed`."""
        return self._begin(world, ("reset to", number))

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
        waits = (world.away or any(sink.committing for sink in world.sinks)) and world.processes[index].status == "live"
        return waits and not any(self.step(world, index))

    def step(self, world: World, index: int) -> Iterator[Move]:
        """What one process may do."""
        process = world.processes[index]
        action = self.processes[process.node].action
        if isinstance(action, messages.RunWriters | messages.RewriteMissing):
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
        if world.away and isinstance(operation[0], str) and operation[0] in ASKED and operation[1] == 0:
            optional = isinstance(action, messages.Inspect) and self.config.names[0] in action.may_be_away
            result = ABSENT if optional else AWAY
            yield "step", (index, operation, "is not answered"), self._result(world, index, result)
            return
        if world.away and operation == (AwaitBack(),):
            return
        yield from self._forget(world, index, operation)
        if operation[0] == "commit":
            yield from self._commit(world, index, operation)
            return
        if operation[0] == "claim" and self._waits(world, operation[1]):
            return
        if operation[0] == "revoke older" and self.config.evicts:
            _, number, incarnation, epoch, *_ = operation
            if sinks.is_permit_held(world.sinks[number], incarnation, epoch, self.config.broken):
                return
        result, after = execute(world, operation, self.config.broken)
        if isinstance(action, messages.Swap):
            yield from self._trouble_with_swap(world, index, action, operation)
        yield "step", (index, operation, result), self._result(after, index, result)

    def _waits(self, world: World, number: object) -> bool:
        assert isinstance(number, int)
        return self.config.logs and sinks.is_claim_held(world.sinks[number], self.config.broken)

    def _forget(self, world: World, index: int, operation: tuple[object, ...]) -> Iterator[Move]:
        """The sink, which does not take its server's word, looks next whether it was done."""
        if not world.budget.forgets or operation[0] not in ("commit", "abort"):
            return
        kind, number, transaction = operation[:3]
        assert isinstance(number, int)
        assert isinstance(transaction, str)
        if transaction not in world.sinks[number].prepared:
            return
        forgotten = sinks.forget(world.sinks[number], transaction)
        after = world._replace(sinks=(*world.sinks[:number], forgotten, *world.sinks[number + 1 :])).spend("forgets")
        if self.config.broken == "the server is believed":
            after = self._result(after, index, CommitOutcome.COMMITTED if kind == "commit" else None)
        yield "forgotten", (index, "is told that it is done:", kind, transaction), after

    def _commit(self, world: World, index: int, operation: tuple[object, ...]) -> Iterator[Move]:
        _, number, transaction, repeated = operation[:4]
        assert isinstance(number, int)
        assert isinstance(transaction, str)
        assert isinstance(repeated, int)
        sink = world.sinks[number]
        mine = (transaction, index)
        if mine in sink.committing:
            world = self._committed(world, number, mine)
        elif self.config.logs and sinks.is_owned_by_another(sink, transaction):
            yield "step", (index, operation, FENCED), self._result(world, index, FENCED)
            return
        elif world.budget.commits and transaction in sink.prepared:
            begun = world.with_sink(number, prepared=sink.prepared - {transaction}, committing=sink.committing | {mine})
            yield "slow commit", (index, "sends commit of", transaction), begun.spend("commits")
        result, after = execute(world, operation, self.config.broken)
        if result is CommitOutcome.RETRY_LATER and repeated:
            return  # has asked once; asking for ever is left out
        yield "step", (index, operation, result), self._result(after, index, result)

    def _committed(self, world: World, number: int, entry: tuple[str, int]) -> World:
        sink = world.sinks[number]
        after = sinks.committed(sink._replace(committing=sink.committing - {entry}), entry[0])
        return world._replace(sinks=(*world.sinks[:number], after, *world.sinks[number + 1 :]))

    def _trouble_with_swap(self, world: World, index: int, action: messages.Swap, operation: Any) -> Iterator[Move]:
        value = operation[2]
        what = (index, action.point, "at", action.version)
        if world.budget.aborters and action.point == "decide" and world.version == action.version:
            scope = record_of(action.value.records[-1].name).scope
            born = self.processes.begin(("aborter", world.version, world.head, scope))
            asked = world.spend("aborters")._replace(processes=(*world.processes, born))
            yield "aborter", (index, "is to be aborted"), asked
        if world.budget.swaps:
            landed, after = swap(world, operation[1], value, self.config.broken)
            if landed:
                yield "lost answer", (*what, "landed, no answer"), self._result(after.spend("swaps"), index, None)
            late = world.spend("swaps")._replace(wire=world.wire | {(operation[1], value)})
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
                yield "deliver", ("a late swap lands at", sent[0][0]), after
        if world.budget.head_set_backs and world.trail:
            yield "head set back", ("to version", world.version - 1), set_head_back(world.spend("head_set_backs"))
        if world.away:
            yield "back", ("sink 0 is back",), world._replace(away=False)
        elif world.budget.absences:
            yield "absence", ("sink 0 is away",), world.spend("absences")._replace(away=True)
        awaited = self._awaited(world)
        yield from set_backs(world, self.config)
        yield from resumes(world, self.config, self.processes.resume)
        for number, sink in enumerate(world.sinks):
            for text in sorted(sink.open - awaited):
                if self.config.evicts and sinks.is_hindered(sink, text):
                    continue  # it waits for the witness until its permit is deleted
                ready = world.with_sink(number, open=sink.open - {text}, prepared=sink.prepared | {text})
                heard = jobs.acknowledge(ready, text, self._scopes(world), self.config)
                yield "straggler", ("straggler prepares", text), heard
            for entry in sorted(sink.committing):
                yield "finish", ("a commit ends", *entry), self._committed(world, number, entry)
                undone = world.with_sink(
                    number, committing=sink.committing - {entry}, prepared=sink.prepared | {entry[0]}
                )
                yield "undo", ("the server dies before the commit of", *entry), undone
            if world.budget.take_overs and sink.claim is not None and not self._waits(world, number):
                taken = world.with_sink(number, **sinks.take_over(sink)._asdict()).spend("take_overs")
                yield "take-over", ("another incarnation takes over sink", number), taken
            if world.budget.vandals:
                for text in sorted(sink.prepared - {FOREIGN}):
                    gone = world.with_sink(number, prepared=sink.prepared - {text}).spend("vandals")
                    yield "vandal", ("somebody rolls back", text), gone._replace(by_hand=world.by_hand | {text})

    def _awaited(self, world: World) -> set[str]:
        """Attempts that a job still waits for."""
        return {
            process.job[2]
            for scope, process in zip(self._scopes(world), world.processes, strict=True)
            if scope is not None and process.job is not None and process.job[2] != "open"
        }

    def _scopes(self, world: World) -> list[Scope | None]:
        """By process: the run whose job is under way."""
        actions = [self.processes[each.node].action if each.job is not None else None for each in world.processes]
        return [action.scope if action is not None else None for action in actions]

"""What an action of the protocol is made of: operations that happen at once, between any two of which one may die.

Mirrors `twophase.effects`. `operations` lists them, `execute` does one, `answer` makes the action's answer from all
results. RunWriters is not here: see `jobs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.simulation import sinks
from tests.simulation.config import FIRST_OFFSET, SOURCE, SPLIT, Config
from tests.simulation.world import FOREIGN, SHELF, Spark, World, head_of, is_repair
from twophase import messages
from twophase.codec import encode_head
from twophase.head_value import HeadValue
from twophase.ids import Scope

Operation = tuple[Any, ...]

_TRAIL = 4

FOLLOWS = "f"
"""Ends the session of a driver that was told what its run has held before."""


@dataclass(frozen=True)
class ReadSpark:
    """Not of the protocol: Spark looks into its checkpoint folder. Answer: Spark."""

    incarnation: str


@dataclass(frozen=True)
class Plan:
    """Not of the protocol: Spark writes offsets/N, or finds it there."""

    incarnation: str
    checkpoint_id: int


@dataclass(frozen=True)
class ReadKept:
    """Not of the protocol: which incarnation is known to have opened sink 0. Answer: str."""


@dataclass(frozen=True)
class Keep:
    """Not of the protocol: what has been learned of sink 0 is kept."""

    incarnation: str


@dataclass(frozen=True)
class IsBack:
    """Not of the protocol: a thread finds that sink 0 answers again, or not. Answer: bool."""


@dataclass(frozen=True)
class AwaitBack:
    """Not of the protocol: a thread waits for sink 0."""


@dataclass(frozen=True)
class MarkDone:
    """Not of the protocol: Spark writes commits/N."""

    incarnation: str
    checkpoint_id: int


def operations(action: Any, config: Config) -> tuple[Operation, ...]:
    """In the order in which `twophase.effects` does them."""
    every = range(config.sinks)
    match action:
        case messages.Inspect():
            expected = [tuple(str(c.transaction) for c in action.expected.get(name, ())) for name in config.names]
            asked = _among(action.sinks, config)
            return *(("inspect", n, action.incarnation, expected[n]) for n in asked), ("spark", action.incarnation)
        case messages.Swap():
            before = encode_head(action.expected.head) if action.expected is not None else b""
            return (("swap", (action.version, before), encode_head(action.value), action.point),)
        case messages.Claim():
            which = action.incarnation, action.epoch
            known, among = [_known(action, n, config) for n in every], _among(action.sinks, config)
            raise_ = (("claim", n, *which, action.begins, known[n], action.take_over) for n in among)
            revoke = (("revoke older", n, *which, known[n], config.evicts, config.slots) for n in among)
            return tuple(each for pair in zip(raise_, revoke, strict=True) for each in pair)
        case messages.Permit():
            without = [config.names.index(name) for name in action.away]
            present = [n for n in every if n not in without]
            permits = (("permit", n, action.scope, _known(action, n, config), True, config.evicts) for n in present)
            return *(("permit away", n, action.scope) for n in without), *permits
        case messages.Revoke():
            counted = action.counted and config.counts
            among = _among(action.sinks, config)
            return tuple(("revoke", n, action.scope, counted, config.evicts) for n in among)
        case messages.Count() if not config.counts:
            return ()
        case messages.AwaitState():  # what a lost machine leaves: `tampering.rebuild_spark`
            return ()
        case messages.Count():
            groups = [(config.names.index(name), group) for name, group in action.committables.items()]
            which = action.incarnation, action.checkpoint_id
            known = [action.known.get(config.names[n], action.checkpoint_id - 1) for n, _ in groups]
            return tuple(
                ("count", n, *which, tuple(str(c.transaction) for c in group), at, config.slots)
                for (n, group), at in zip(groups, known, strict=True)
            )
        case messages.FastForward():
            which = action.incarnation, action.checkpoint_id
            numbers = map(config.names.index, action.sinks)
            return tuple(("catch up", n, *which, _known(action, n, config)) for n in numbers)
        case messages.ListPrepared():
            return tuple(("list", n, action.incarnation, config.slots) for n in _among(action.sinks, config))
        case messages.PermitRewrite():
            numbers = map(config.names.index, action.sinks)
            return tuple(("permit", n, action.scope, -1, False, config.evicts) for n in numbers)
        case messages.FindMissing():
            return tuple(
                ("lost", config.names.index(name), str(c.transaction))
                for name, group in action.committables.items()
                for c in group
            )
        case messages.Commit():
            slot = config.slots, action.own
            least = {name: action.known.get(name, action.checkpoint_id - 1) for name in action.committables}
            return tuple(
                ("commit", config.names.index(name), str(c.transaction), action.repeated, *slot, least[name])
                for name, group in action.committables.items()
                for c in group
            )
        case messages.AbortPrepared():
            return tuple(
                ("abort", config.names.index(name), str(p.transaction) if p.transaction else FOREIGN)
                for name, group in action.prepared.items()
                for p in group
            )
        case messages.RescaleState():
            which = action.head.incarnation, action.checkpoint_id
            return ("plan a rescale", *which), ("commit a rescale", *which)
        case messages.Prune():
            forget = (("delete record", ref.name) for ref in action.records)
            return *forget, *(("prune", n, action.incarnation, action.below) for n in every)
        case _:
            return ((action,),)


def _among(sinks: tuple[str, ...] | None, config: Config) -> tuple[int, ...]:
    """Their numbers; None: all."""
    return tuple(n for n, name in enumerate(config.names) if sinks is None or name in sinks)


def _known(action: messages.Claim | messages.Permit | messages.FastForward, sink: int, config: Config) -> int:
    """What the action says that this sink has counted."""
    return action.counted.get(config.names[sink], -1) if config.counts else -1


def execute(world: World, operation: Operation, broken: str) -> tuple[Any, World]:
    """Do one operation: (result, world)."""
    match operation:
        case ("inspect", int(n), incarnation, expected):
            return _at(world, n, sinks.inspect(world.sinks[n], incarnation, expected))
        case ("claim", int(n), incarnation, epoch, begins, counted, take_over):
            sink = world.sinks[n]
            return _at(world, n, sinks.claim(sink, incarnation, epoch, begins, counted, broken, take_over=take_over))
        case ("revoke older", int(n), incarnation, epoch, counted, evicts, slots):
            revoked = sinks.revoke_older(world.sinks[n], incarnation, epoch, counted, broken, evicts=evicts)
            return _at(world, n, sinks.sweep(revoked, epoch) if slots else revoked)
        case ("permit", int(n), scope, counted, first, evicts):
            sink = world.sinks[n]
            return _at(world, n, sinks.permit(sink, scope, counted, broken, is_first=first, evicts=evicts))
        case ("permit away", int(n), scope):
            return _at(world, n, sinks.permit_log(world.sinks[n], scope))
        case ("revoke", int(n), scope, counted, evicts):
            return _at(world, n, sinks.revoke(world.sinks[n], scope, broken, counted=counted, evicts=evicts))
        case ("count", int(n), incarnation, number, expected, known, slots):
            sink = world.sinks[n]
            return _at(world, n, sinks.count(sink, incarnation, number, expected, known, broken, slots=slots))
        case ("catch up", int(n), incarnation, number, counted):
            return _at(world, n, sinks.catch_up(world.sinks[n], incarnation, number, counted, broken))
        case ("list", int(n), str(incarnation), slots):
            listed, after = _at(world, n, sinks.prepared(world.sinks[n], broken))
            if slots:
                listed = tuple(sorted(sinks.waiting(world.sinks[n], frozenset(listed))))
            return tuple(text for text in listed if text == FOREIGN or text.startswith(incarnation)), after
        case ("lost", int(n), transaction):
            return _at(world, n, sinks.lost(world.sinks[n], transaction, broken))
        case ("commit", int(n), transaction, _, slots, own, known):
            return _at(world, n, sinks.commit(world.sinks[n], transaction, known, broken, slots=slots, own=own))
        case ("abort", int(n), transaction):
            return _at(world, n, sinks.abort(world.sinks[n], transaction))
        case ("prune", int(n), incarnation, below):
            return _at(world, n, sinks.prune(world.sinks[n], incarnation, below))
        case ("swap", expected, value, _):
            return swap(world, expected, value, broken)
        case ("delete record", name):
            return None, world._replace(records=world.records - {name})
        case ("plan a rescale", incarnation, int(number)):
            spark = world.spark_of(incarnation)
            if spark.planned == number - 1 == spark.committed or broken == "a plan is written over another's":
                planned = spark._replace(planned=number, rescales=spark.rescales | {number})
                return True, world.with_spark(incarnation, planned)
            return number in spark.rescales, world
        case ("commit a rescale", incarnation, int(number)):
            spark = world.spark_of(incarnation)
            if spark.planned != number or number not in spark.rescales:
                return False, world
            return True, world.with_spark(incarnation, spark._replace(committed=number))
        case ("spark", incarnation):
            return world.spark_of(incarnation), world
        case (action,):
            return _execute_whole(world, action, broken)
    raise AssertionError(operation)


def _at(world: World, index: int, done: tuple[Any, Any]) -> tuple[Any, World]:
    result, sink = done
    if sink is world.sinks[index]:
        return result, world
    return result, world._replace(sinks=(*world.sinks[:index], sink, *world.sinks[index + 1 :]))


def _execute_whole(world: World, action: Any, broken: str) -> tuple[Any, World]:
    match action:
        case messages.ReadHead():
            return (world.version, world.head), world
        case messages.PutRecord():
            SHELF[action.ref.name] = action.content
            return None, world._replace(records=world.records | {action.ref.name})
        case messages.LoadRecord():
            return action.ref.name if action.ref.name in world.records else None, world
        case messages.Sweep():
            kept = {ref.name for ref in action.head.records}
            swept = {n for n in world.records if n not in kept and _epoch(n) < action.head.epoch}
            return None, world._replace(records=world.records - swept)
        case ReadKept():
            return world.kept, world
        case Keep():
            return None, world._replace(kept=action.incarnation)
        case IsBack():
            return not world.away, world
        case AwaitBack():
            return None, world
        case ReadSpark():
            return world.spark_of(action.incarnation), world
        case Plan():
            spark = world.spark_of(action.incarnation)
            if action.checkpoint_id in spark.rescales:
                return ("raise", "failed"), world  # Spark looks for it as well
            planned = spark._replace(planned=max(spark.planned, action.checkpoint_id), query="query")
            return None, world.with_spark(action.incarnation, planned)
        case messages.DropPlan():
            spark, number = world.spark_of(action.incarnation), action.checkpoint_id
            is_done = spark.unfinished is None and broken != "a plan is taken back though Spark has committed it"
            if number != spark.planned or number not in spark.rescales or is_done:
                return None, world
            dropped = spark._replace(planned=number - 1, rescales=spark.rescales - {number})
            return None, world.with_spark(action.incarnation, dropped)
        case MarkDone():
            spark = world.spark_of(action.incarnation)
            done = spark._replace(committed=max(spark.committed, action.checkpoint_id))
            return None, world.with_spark(action.incarnation, done)
        case messages.CommitBack() | messages.Discard() | messages.Abandon():
            return None, world
    raise AssertionError(action)


def swap(world: World, expected: tuple[int, bytes], value: bytes, broken: str) -> tuple[bool, World]:
    """The head register. Remembers every decision that lands, also of lives that have ended, and who has claimed."""
    alone = broken == "a swap compares the version alone"
    is_equal = world.version == expected[0] if alone else (world.version, world.head) == expected
    if not is_equal and broken != "swap without compare":
        return False, world
    head = head_of(value)
    assert head is not None
    world = _written(world, head)
    named = {ref.checkpoint_id: ref.name for ref in head.records}
    decided = tuple(_decided(name, named.get(n, name)) for n, name in enumerate(world.decided[: head.completed + 1]))
    decided += tuple(named.get(n, "") for n in range(len(decided), head.completed + 1))
    later = world.version
    wire = frozenset(entry for entry in world.wire if entry[0][0] > later or broken == "swap without compare")
    world = _claimed(world, head)
    before = head_of(world.head)
    if before is not None and before.incarnation != head.incarnation:
        ended = (*world.sparks, (before.incarnation, world.spark))
        world = world._replace(past=world.past + world.decided, sparks=ended, spark=Spark())
        decided = tuple(named.get(n, "") for n in range(head.completed + 1))
        if head.origin is not None:  # Spark's folder of that life was there before
            at = head.origin.checkpoint_id
            unsaid = head.origin.savepoint != said(before)
            world = world._replace(spark=Spark(at, at, head.query_id), unsaid=world.unsaid or unsaid)
        elif head.initial:  # a reset to the positions of the head that was looked at
            begins, ended_at = (each.position(SOURCE, SPLIT) for each in (head, before))
            unsaid = begins != (FIRST_OFFSET if ended_at is None else ended_at)
            world = world._replace(unsaid=world.unsaid or unsaid)
    return True, world._replace(version=world.version + 1, head=value, decided=decided, wire=wire)


def set_head_back(world: World) -> World:
    """The register loses its newest swap: a fail-over to a replica that lagged, or a backup that is put back (H29).

    Swaps on the wire end with the server. A decision that head lacks now may have become visible before.
    """
    head = head_of(world.head)
    assert head is not None
    before = head_of(world.trail[-1])
    completed = before.completed if before is not None else -1
    is_claim = before is None or before.epoch != head.epoch
    if before is not None and before.incarnation != head.incarnation:  # the incarnation before is back
        number = len(world.past) - before.completed - 1
        world = world._replace(
            past=world.past[:number],
            decided=world.past[number:],
            spark=world.spark_of(before.incarnation),
            sparks=tuple(each for each in world.sparks if each[0] != before.incarnation),
        )
    return world._replace(
        version=world.version - 1,
        head=world.trail[-1],
        trail=world.trail[:-1],
        wire=frozenset(),
        decided=world.decided[: completed + 1],
        taken=world.taken + world.decided[completed + 1 :],
        gone=world.gone | {head.nonces[-1]},
        unclaimed=world.unclaimed or is_claim,
    )


def _written(world: World, head: HeadValue) -> World:
    """What may go wrong with a register that goes back, where it may (H29)."""
    if not world.trail and not world.budget.head_set_backs:
        return world
    before = head_of(world.head)
    nonces = before.nonces if before is not None else ()
    session = head.nonces[-1].rpartition(".")[0]
    crossed = head.nonces[:-1] != nonces[-(len(head.nonces) - 1) :] if nonces else len(head.nonces) > 1
    lacking = any(each.rpartition(".")[0] == session and each not in head.nonces for each in world.gone)
    error = "a swap landed on another history" if crossed else "a driver wrote on without its own swaps"
    trail = (*world.trail, world.head)[-_TRAIL:]
    return world._replace(trail=trail, crossed=world.crossed or (error if crossed or lacking else ""))


def _decided(before: str, now: str) -> str:
    """A decision stands, but for a repair, which names other transactions for the rows of lost ones."""
    return now if before != now and is_repair(before, now) else before


def said(head: HeadValue) -> str:
    """What somebody is told who looks at this head before a start from a savepoint."""
    return f"seen {head.incarnation} at {head.completed}"


def _claimed(world: World, head: HeadValue) -> World:
    before = head_of(world.head)
    if before is not None and before.epoch == head.epoch:
        return world
    run, session, _ = f"{head.nonces[-1]}.".split(".", 2)
    usurps = session.endswith(FOLLOWS) and world.claimer != run
    return world._replace(claimer=run, usurped=world.usurped or usurps)


def _epoch(name: str) -> int:
    scope = Scope.parse(name.rsplit("-", 1)[0])
    assert scope is not None
    return scope.epoch

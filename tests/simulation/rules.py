"""What must hold in every world, and in one that has come to its end."""

from __future__ import annotations

from collections import Counter
from functools import cache

from tests.simulation import resumed
from tests.simulation.config import FIRST_OFFSET, SOURCE, SPLIT, Config
from tests.simulation.set_back import find_mistake
from tests.simulation.world import (
    FOREIGN,
    Sink,
    World,
    decided_transactions,
    ends_from,
    head_of,
    is_direct,
    parse,
    record_of,
)
from twophase.values import SparkState
from twophase.verify import may_be_under_way


class Violation(Exception):
    """A rule does not hold: what the exploration looks for."""


def check(world: World, config: Config) -> None:
    """In every state: nothing doubled, nothing early, nothing lost, and head says no more than is true."""
    head = head_of(world.head)
    committed = head.committed if head is not None else -1
    _check_decisions(world)
    if world.usurped:
        raise Violation("a run that was superseded has taken head back: two runs would do so for ever")
    if world.crossed:
        raise Violation(world.crossed)
    if world.unsaid:
        raise Violation("a new life has more come twice than was said")
    if world.erased is not None:
        _check_set_back(world, config)
        return
    if world.resumed:
        _check_resumed(world, config)
        return
    for name, sink in zip(config.names, world.sinks, strict=True):
        decided = [decided_transactions(record, name) for record in world.decided]
        of_past = (decided_transactions(record, name) for record in world.past if not is_direct(record))
        past = frozenset[str]().union(*of_past)
        taken = (decided_transactions(record, name) for record in world.taken)
        _check_rows(name, sink, past.union(*decided, *taken))
        if given_up := past - sink.committed - world.by_hand:
            raise Violation(f"a reset gave up what {name} was to show: {sorted(given_up)}")
        for number, transactions in enumerate(decided):
            direct = is_direct(world.decided[number])
            missing = transactions - (sink.direct if direct else sink.committed)
            if missing and direct:
                raise Violation(f"lost: head calls checkpoint {number} done, and no task committed {sorted(missing)}")
            done = -1 if config.absent and name == config.names[0] else world.spark.committed - config.behind
            said = max(committed, done)
            if missing and number <= said and not world.unclaimed:
                raise Violation(f"head or Spark calls checkpoint {number} done, {name} does not show {sorted(missing)}")
            ended = missing - sink.held - {text for text, _ in sink.committing} - world.by_hand
            if ended and not world.unclaimed:  # else a driver, or the next start, says that it is lost
                raise Violation(f"lost: {name} neither holds nor shows {sorted(ended)} of checkpoint {number}")
        if head is not None and not world.unclaimed:
            _check_closed(name, sink, head.epoch, committed)
        if head is not None:
            _check_ended(name, sink, head.incarnation)
    for process in world.processes:
        if process.status == "lost" and not world.by_hand and not world.unclaimed:
            raise Violation("a driver takes a committable for lost that is not")
        of_another = has_reset(world) or is_taken_over(world)  # its claim is met before the count can be compared
        if process.status == "set back" and not (world.unclaimed or of_another):
            raise Violation("a driver says of a sink that it went back in time, and it did not")
        if world.gone:
            continue  # a register that has gone back stops drivers and refuses starts
        alone = len(world.processes) == 1 and not is_taken_over(world)
        if process.status in ("stopped", "fenced") and alone:
            raise Violation(f"a driver that has never met another one is {process.status}")
        may_be_refused = has_reset(world) or config.rescales > 0 or is_taken_over(world)
        if process.status == "damaged" or (process.status == "refused" and not may_be_refused):
            raise Violation(f"a driver is refused though nothing was tampered with ({process.status})")


def _check_set_back(world: World, config: Config) -> None:
    """A sink went back in time: what is gone is gone, and nothing more may come of it."""
    for name, sink in zip(config.names, world.sinks, strict=True):
        records = (*world.past, *world.decided)
        _check_rows(name, sink, frozenset().union(*(decided_transactions(record, name) for record in records)))
    if mistake := find_mistake(world, config):
        raise Violation(mistake)


def _check_resumed(world: World, config: Config) -> None:
    """A process was set back with its memory: it may be stopped, and loses and doubles nothing without a word."""
    for name, sink in zip(config.names, world.sinks, strict=True):
        records = (*world.past, *world.decided, *world.taken)
        _check_rows(name, sink, frozenset().union(*(decided_transactions(record, name) for record in records)))
    if mistake := resumed.find_mistake(world, config):
        raise Violation(mistake)


def has_reset(world: World) -> bool:
    """A reset, or a start from a savepoint, under way or dead half way, has claimed some sinks and not others."""
    return any(process.make[0] in ("reset", "reset to", "restore") for process in world.processes)


def is_taken_over(world: World) -> bool:
    """Another incarnation, with a head of its own, owns a sink."""
    return any(sink.taken_with is not None for sink in world.sinks)


def _check_rows(name: str, sink: Sink, decided: frozenset[str]) -> None:
    early = sink.committed - decided
    if early:
        raise Violation(f"{name} shows {sorted(early)}, which no decision names")
    for task, times in _tasks(sink.committed).items():
        if times > 1:
            raise Violation(f"doubled: {name} shows (life, checkpoint, task) {task} {times} times")
    if other := sink.committed & sink.drifted:
        raise Violation(f"{name} shows other rows than were decided: {sorted(other)}")
    if sink.taken_with is not None and (late := sink.committed - sink.taken_with):
        raise Violation(f"another incarnation owns {name}, and {sorted(late)} became visible after its claim")
    if FOREIGN not in sink.prepared:
        raise Violation(f"a transaction of somebody else was ended in {name}")


@cache
def _tasks(transactions: frozenset[str]) -> Counter[tuple[str, int, int]]:
    ids = [parse(text) for text in transactions]
    return Counter((t.scope.incarnation, t.scope.checkpoint_id, t.task) for t in ids if t is not None)


def _check_closed(name: str, sink: Sink, epoch: int, committed: int) -> None:
    """R9: what this epoch calls committed it has closed: no permit, nothing open, nothing prepared."""
    for text in sink.left:
        scope = _scope(text)
        if scope[0] == epoch and scope[1] <= committed:
            raise Violation(f"{name} still holds {text}, and head calls checkpoint {scope[1]} committed")


def _check_ended(name: str, sink: Sink, incarnation: str) -> None:
    """R2: of a life that a reset has ended nothing is left that could still become visible or hold a lock."""
    left = [t for t in sink.left if not t.startswith(incarnation)]
    if left:
        raise Violation(f"a reset left {sorted(left)} in {name}")


@cache
def _scope(text: str) -> tuple[int, int]:
    _, epoch, checkpoint, _ = text.partition("/")[0].split("-")
    return int(epoch, 16), int(checkpoint, 16)


def _check_decisions(world: World) -> None:
    head = head_of(world.head)
    names = {ref.checkpoint_id: ref.name for ref in head.records} if head is not None else {}
    for number, record in enumerate(world.decided):
        if not record:
            raise Violation(f"head calls checkpoint {number} completed and has no record of it")
        if names.get(number, record) != record:
            raise Violation(f"checkpoint {number} was decided twice")
        is_rescale = record_of(record).state_partitions is not None
        if is_rescale != (number in world.spark.rescales):
            raise Violation(f"head takes checkpoint {number} for {'a' if is_rescale else 'no'} rescale, Spark does not")
        nth = number - sum(each < number for each in world.spark.rescales)
        for each in record_of(record).ranges.get(SOURCE, ()):
            base = ends_from(head) if head is not None else 0
            start = base + 10 * nth or FIRST_OFFSET
            if is_rescale or (each.split, each.start, each.end) != (SPLIT, start, base + 10 * (nth + 1)):
                raise Violation(f"checkpoint {number} was decided with {each}")
    if head is not None and head.completed + 1 < len(world.decided):
        raise Violation("a decision was taken back")
    for name in names.values():
        if name not in world.records and not world.gone:
            raise Violation(f"head points at {name}, which is gone")


def check_end(world: World, config: Config) -> None:
    """Nobody lives any more. Where one has finished, or a sink may be removed, nothing of ours is left prepared."""
    head = head_of(world.head)
    if world.erased is not None or world.resumed:
        return  # a driver that needed nothing more of the sink has ended without a look at it
    if world.unclaimed:
        return  # two drivers may have had one epoch: the next start ends what is left
    done = any(process.status == "done" and process.make[0] == "driver" for process in world.processes)
    said = min(head.committed, world.spark.committed) if head is not None else -1
    if done and said >= config.last:  # else a life that has ended, or one that its successor was to bring to its end
        left = [text for sink in world.sinks for text in sink.held - {FOREIGN}]
        if left:
            raise Violation(f"finished, and left prepared: {left}")
    spark = SparkState(world.spark.query, world.spark.planned, world.spark.committed)
    if head is not None and head.committed == head.completed and not may_be_under_way(head, spark):
        for name, sink in zip(config.names, world.sinks, strict=True):
            if sink.left:
                raise Violation(f"{name} may be taken out of the spec, and holds {sorted(sink.left)}")


def check_finished(world: World, status: str, config: Config) -> None:
    """A fresh driver has run alone: everything is visible once and nothing is left."""
    if status == "lost" and (world.by_hand or world.unclaimed):
        return
    if status in ("refused", "damaged") and world.gone:
        return
    if status != "done":
        raise Violation(f"a fresh driver alone ends as {status!r}")
    surplus = len(world.decided) - config.checkpoints
    if not 0 <= surplus <= len(world.spark.rescales) or world.spark.committed != len(world.decided) - 1:
        raise Violation(f"finished with {len(world.decided)} checkpoints")
    for name, sink in zip(config.names, world.sinks, strict=True):
        direct = [n for n, record in enumerate(world.decided) if is_direct(record) and n not in world.spark.rescales]
        without = {*direct, *world.spark.rescales}
        head = head_of(world.head)
        assert head is not None
        first = head.origin.checkpoint_id + 1 if head.origin is not None else 0
        own = [n for n in range(first, len(world.decided)) if n not in without]
        wanted = {(n, t): 1 for n in own for t in range(config.tasks)}
        shown = {(n, t): times for (life, n, t), times in _tasks(sink.committed).items() if life == head.incarnation}
        if shown != wanted:
            raise Violation(f"finished, and {name} shows {sorted(sink.committed)}")
        written = {(n, t) for _, n, t in _tasks(sink.direct)}
        promised = direct if world.erased is None else []  # no count tells of them where a sink went back
        if not written >= {(n, t) for n in promised for t in range(config.tasks)}:
            raise Violation(f"lost: finished, and of {direct} {name} shows {sorted(written)}")
        if sink.left:
            raise Violation(f"a fresh driver alone leaves {sorted(sink.left)} in {name}")

"""A sink that goes back in time (H26, H27): a copy of it is taken, and later replaces it while drivers run or rest."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.config import Config
from tests.simulation.world import Sink, World, decided_transactions, is_direct
from twophase.ids import Scope


def set_backs(world: World, config: Config) -> Iterator[tuple[str, tuple[object, ...], World]]:
    """The moves: a copy of one sink is taken; the copy takes the sink's place. A log with slots stays as it is."""
    if not world.budget.set_backs:
        return
    if world.copy is None:
        for number, sink in enumerate(world.sinks):
            yield "copy", (number, "is copied"), world._replace(copy=(number, _copy(sink)))
        return
    number, sink = world.copy
    now = world.sinks[number]
    if config.slots:
        sink = sink._replace(open=now.open, prepared=now.prepared)
    if sink != now:
        had = now.committed | now.held | now.open | {text for text, _ in now.committing}
        sinks = (*world.sinks[:number], sink, *world.sinks[number + 1 :])
        after = world.spend("set_backs")._replace(
            sinks=sinks, copy=None, erased=had - sink.committed - sink.held, decided_then=_permitted(world)
        )
        yield "set back", (number, "goes back in time"), after


def _copy(sink: Sink) -> Sink:
    """What a backup or a replica has: no open transaction; one whose commit is under way is prepared."""
    committing = {text for text, _ in sink.committing}
    return sink._replace(open=frozenset(), committing=frozenset(), prepared=sink.prepared | committing)


def _permitted(world: World) -> int:
    """How many checkpoints are decided, or may be without a further permit."""
    number = len(world.decided)
    scopes = [Scope.parse(text) for sink in world.sinks for text in sink.permits]
    return number + any(scope is not None and scope.checkpoint_id == number for scope in scopes)


def find_gone(record: str, name: str, sink: Sink) -> frozenset[str]:
    """Return what a decision names and this sink neither shows nor holds."""
    return decided_transactions(record, name) - sink.committed - sink.held - {text for text, _ in sink.committing}


def find_mistake(world: World, config: Config) -> str:
    """Return what is wrong in a world in which a sink went back; empty where nothing is."""
    assert world.erased is not None
    for name, sink in zip(config.names, world.sinks, strict=True):
        for record in (*world.past, *world.decided):
            rolled_back = find_gone(record, name, sink) - world.erased
            if rolled_back and not is_direct(record):
                return f"rolled back, and decided: {sorted(rolled_back)} of {name}"
        for number, record in enumerate(world.decided):
            missing = decided_transactions(record, name) - sink.committed - sink.held
            later = any(not is_direct(each) for each in world.decided[world.decided_then :])
            if missing and not is_direct(record) and number < world.decided_then and later:
                return f"decided over a hole: {name} lacks {sorted(missing)}"
    return ""

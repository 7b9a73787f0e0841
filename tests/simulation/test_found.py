"""What faults on real servers and reviews have found (docs/explanation/reliability.md), followed step by step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.config import Budget
from tests.simulation.coordinator import patched
from tests.simulation.explore import FRESH, finish, run_alone
from tests.simulation.moves import Moves
from tests.simulation.mutants import MUTANTS
from tests.simulation.rules import Violation, check, check_finished
from tests.simulation.scenarios import REPAIR, THEN_AT_LEAST_ONCE
from tests.simulation.traces import reach
from tests.simulation.world import World, first_world

STATE = replace(REPAIR, sinks=2, tasks=2, stateful=True)
INCARNATION = "incarnation000000000"
TAKEN_FOR_LOST = replace(REPAIR, budget=Budget(commits=1), broken="plain read of the witness")


def decided(moves: Moves) -> World:
    """A driver has decided its first checkpoint, and has committed nothing yet."""
    world = moves.start(first_world(moves.config))
    return reach(moves, world, 0, lambda _, parts: isinstance(parts[1], tuple) and parts[1][-1] == "decide")


def to_its_end(moves: Moves, world: World) -> list[World]:
    """Each step of the newest process on its plain way."""
    worlds = [world]
    while worlds[-1].processes[-1].status == "live":
        steps = moves.step(worlds[-1], len(world.processes) - 1)
        worlds.append(next(after for kind, _, after in steps if kind == "step"))
        check(worlds[-1], moves.config)
    return worlds


def lost_and_repaired(moves: Moves) -> list[World]:
    """Somebody rolls back one of what a dead driver has decided, and a start says which; each step of the repair."""
    (_, gone), world = next(each[1:] for each in moves.environment(decided(moves)) if each[0] == "vandal")
    world, status = run_alone(moves, world)
    (said,) = moves.processes.reasons(("driver", FRESH))
    assert (status, str(gone) in said) == ("lost", True)
    return to_its_end(moves, moves.repair(world._replace(processes=()), 1))


def test_r7_what_a_pipeline_with_state_has_lost_is_written_again() -> None:
    """The nemesis: "eos repair refused a pipeline whose steps keep state"."""
    moves = Moves(STATE)
    worlds = lost_and_repaired(moves)
    assert worlds[-1].processes[0].status == "done"
    assert [len(sink.committed) for sink in worlds[-1].sinks] == [STATE.tasks] * STATE.sinks
    after, status = run_alone(moves, worlds[-1])
    check_finished(after, status, STATE)  # Spark runs the batch again for its state: the digests are the same
    for world in worlds:
        finish(moves, world)  # it dies there, and another one comes
    assert len(worlds) > 40


def test_r7_it_fails_where_state_is_refused() -> None:
    mutant = MUTANTS["a pipeline whose steps keep state is not repaired (R7)"]
    worlds = lost_and_repaired(Moves(replace(STATE, coordinator=patched(mutant.patches))))
    assert worlds[-1].processes[0].status == "other rows"


def taken_for_lost(moves: Moves) -> World:
    """A driver's commit takes its time; a repair comes, reads past the lock, and is done; then the commit ends."""
    world = reach(moves, decided(moves), 0, lambda kind, _: kind == "slow commit")
    world = to_its_end(moves, moves.repair(world, 1))[-1]
    after = next(after for kind, _, after in moves.environment(world) if kind == "finish")
    check(after, moves.config)
    return after


def test_r7_what_is_wrongly_taken_for_lost_is_not_seen_twice() -> None:
    """What is prepared again holds the witness of the first one, whatever a repair believes of that (H4)."""
    world = taken_for_lost(Moves(TAKEN_FOR_LOST))
    assert world.processes[1].status == "failed"
    assert [len(sink.committed) for sink in world.sinks] == [1]
    with pytest.raises(Violation, match="which no decision names"):
        taken_for_lost(Moves(replace(TAKEN_FOR_LOST, broken=f"{TAKEN_FOR_LOST.broken}, and not held")))


def hidden_by_catching_up(moves: Moves) -> World:
    """Checkpoint 0, another one at-least-once, and a start: the sink goes back to before 0 as it is to catch up."""
    world = reach(moves, moves.start(first_world(moves.config)), 0, lambda _, parts: "prepares" in str(parts[1]))
    world = next(after for kind, _, after in moves.environment(world) if kind == "copy")
    for number in (0, 1):
        done = f"MarkDone(incarnation='{INCARNATION}', checkpoint_id={number})"
        world = reach(moves, world, number, lambda _, parts, done=done: done in str(parts[1]))  # type: ignore[misc]
        world = moves.start(world.with_process(number, status="dead"))
    world = reach(moves, world, 2, lambda _, parts: isinstance(parts[1], tuple) and parts[1][0] == "list")
    world = next(after for kind, _, after in moves.environment(world) if kind == "set back")
    world = reach(moves, world, 2, lambda _, parts: isinstance(parts[1], tuple) and parts[1][0] == "catch up")
    if world.processes[2].status == "live":
        world = world.with_process(2, status="dead")
    finish(moves, world)
    return world


def test_h34_catching_up_does_not_hide_that_a_sink_went_back() -> None:
    config = replace(THEN_AT_LEAST_ONCE, drivers=3)
    assert hidden_by_catching_up(Moves(config)).processes[2].status == "set back"
    with pytest.raises(Violation, match="rolled back, and decided"):
        hidden_by_catching_up(Moves(replace(config, broken="catching up does not compare the count")))

"""R2: a start on stores that do not tell one story is refused and changes nothing, or it is harmless and ends right."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import count

import pytest

from tests.simulation.config import Budget, Config
from tests.simulation.coordinator import REAL, Coordinator, Patch, patched
from tests.simulation.explore import run_alone
from tests.simulation.moves import Moves
from tests.simulation.rules import Violation, check_finished
from tests.simulation.tampering import TAMPERINGS, Predecessors
from tests.simulation.world import World, first_world

CONFIG = Config(drivers=1, tasks=1)
_EVERY = 7
_numbers = count()


@cache
def crashed() -> tuple[list[World], Predecessors]:
    """Worlds in which the last driver has died or finished: of one driver, and of a second one after the first."""
    moves = Moves(CONFIG)
    before: Predecessors = {}
    one = _walk(moves, first_world(CONFIG), before)
    two = [world for died in one[::_EVERY] for world in _walk(moves, died._replace(processes=()), before)]
    return list({world.core: world for world in [*one, *two]}.values()), before


def _walk(moves: Moves, world: World, before: Predecessors) -> list[World]:
    world = moves.start(world, next(_numbers))
    walked = [world]
    while world.processes[0].status == "live":
        after = next(after for kind, _, after in moves.step(world, 0) if kind == "step")
        if after.version != world.version:
            before[after.version, after.head] = world.head
        world = after
        walked.append(world)
    return walked


def tamper(name: str, coordinator: Coordinator = REAL) -> tuple[int, int]:
    """Do it to every world and start a driver: how many starts were refused, how many ended right."""
    tampering, _ = TAMPERINGS[name]
    worlds, before = crashed()
    moves = Moves(replace(CONFIG, coordinator=coordinator))
    refused = right = 0
    for world in worlds:
        for changed in tampering(world._replace(processes=(), budget=Budget()), before):
            after, status = run_alone(moves, changed)
            if status in ("refused", "damaged"):
                assert after.core == changed.core, "a refused start has changed something"
                refused += 1
            elif status == "lost":
                assert sum(len(s.committed) for s in after.sinks) <= CONFIG.sinks, "went on after a loss"
            else:
                check_finished(after, status, CONFIG)
                right += 1
    return refused, right


@pytest.mark.parametrize("name", TAMPERINGS)
def test_refused_or_right(name: str) -> None:
    refused, right = tamper(name)
    assert refused >= TAMPERINGS[name][1]
    assert refused + right >= 100


def test_a_deleted_commit_of_spark_is_always_harmless() -> None:
    refused, right = tamper("Spark's last commit is deleted")
    assert (refused, right) == (0, right)
    assert right > 20


def test_a_plan_that_is_lost_before_its_decision_is_always_harmless() -> None:
    """Also where its tasks have prepared: which they do not before it is synced, and what they have is rolled back."""
    refused, right = tamper("a plan that is not decided is lost")
    assert (refused, right) == (0, right)
    assert right > 20


def test_a_machine_that_is_lost_is_always_harmless() -> None:
    """Also where its driver has planned or prepared a checkpoint, or has left one decided and not committed."""
    refused, right = tamper("the driver's machine is lost")
    assert (refused, right) == (0, right)
    assert right > 100


def test_a_claim_of_another_incarnation_is_always_refused() -> None:
    worlds, _ = crashed()
    refused, right = tamper("another incarnation claims a sink")
    assert (refused, right) == (len(worlds) * CONFIG.sinks, 0)


CHECKS = {
    # what is left out: (the tampering that shows it, the texts that are taken out of `verify`)
    "the query id is not compared": ("Spark's checkpoint is wiped", ["if head.query_id is not None and"]),
    "planned batches are not compared": (
        "Spark's checkpoint is set back",
        ["if spark.newest_planned not in (last, last + 1):", "if newest is not None and"],
    ),
    "the highest witness is not compared": ("head is set back", ["if sink.highest_witness > head.completed:"]),
    "the claim's epoch is not compared": ("head is set back", ["if sink.claim_epoch > head.epoch:"]),
    "claims are not looked at": ("the spec is run from another folder", ["if sink.claim_incarnation is not None:"]),
    "another's claim is not looked at": (
        "another incarnation claims a sink",
        ["if sink.claim_incarnation not in (None, head.incarnation):"],
    ),
    "a sink that has forgotten is accepted": (
        "a sink is wiped",
        ["if sink.claim_incarnation is None and head.committed >= 0:", "if sink.missing:"],
    ),
}


@pytest.mark.parametrize("name", CHECKS)
def test_each_comparison_is_needed(name: str) -> None:
    tampering, texts = CHECKS[name]
    patches = [Patch("verify", old, "if False:" if old.endswith(":") else "if False and") for old in texts]
    try:
        refused, _ = tamper(tampering, patched(patches))
    except (Violation, AssertionError):
        return  # records were lost or doubled, or the driver claimed head before a sink stopped it
    assert refused < tamper(tampering)[0], "nothing notices that this comparison is gone"

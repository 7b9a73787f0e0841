"""Random longer histories: more drivers, checkpoints and trouble than an exhaustive search can hold."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.simulation.config import Budget, Config
from tests.simulation.explore import finish
from tests.simulation.moves import Moves
from tests.simulation.rules import check, check_end
from tests.simulation.world import World, first_world

MUCH = Budget(switches=99, swaps=20, retries=20, failures=4, commits=10, vandals=3, forgets=5, outages=5)
CONFIG = Config(drivers=8, checkpoints=5, retained=2, tries=3, restarts=2, resets=3, repairs=3, budget=MUCH)

_PLAIN = 0.9
"""How often a job goes the plain way."""
_UNTIL_DECIDED = 60
"""Steps after which a driver has decided another checkpoint, if it ever does."""
_TROUBLE = ("lost answer", "late swap", "deliver", "straggler", "slow commit", "finish", "undo", "outage", "forgotten")

seen: Counter[str] = Counter()
"""Over all histories: how much has happened at all."""


class Histories(RuleBasedStateMachine):
    """Each rule is one kind of event; the plain progress of a driver comes in runs, or nothing would ever get far."""

    def __init__(self) -> None:
        super().__init__()
        self.moves = Moves(CONFIG)
        self.world: World = first_world(CONFIG)

    @initialize()
    def first(self) -> None:
        self.world = self.moves.start(self.world)

    @rule(steps=st.integers(1, 80), choice=st.randoms(use_true_random=False))
    def runs(self, steps: int, choice: Any) -> None:
        for _ in range(steps):
            plain = self._of("step")
            if not plain:
                return
            self._go(plain[0] if choice.random() < _PLAIN else choice.choice(plain))

    @rule(which=st.integers(0, 99))
    def another_goes_on(self, which: int) -> None:
        self._go_if(self._of("switch"), which)

    @rule()
    def another_starts(self) -> None:
        self._go_if(self._of("start"), 0)

    @rule(steps=st.integers(10, 60))
    def somebody_resets(self, steps: int) -> None:
        self._go_if(self._of("reset"), 0)
        for _ in range(steps):
            self._go_if(self._of("step")[:1], 0)

    @rule(steps=st.integers(10, 60))
    def something_is_lost_and_repaired(self, steps: int) -> None:
        decisions = len(self.world.decided)
        for _ in range(_UNTIL_DECIDED):
            if len(self.world.decided) > decisions:
                break
            self._go_if(self._of("step")[:1], 0)
        self._go_if(self._of("vandal"), 0)
        self._go_if(self._of("repair"), 0)
        for _ in range(steps):
            self._go_if(self._of("step")[:1], 0)

    @rule()
    def dies(self) -> None:
        self._go_if(self._of("crash"), 0)

    @rule(which=st.integers(0, 99))
    def trouble(self, which: int) -> None:
        self._go_if(self._of(*_TROUBLE), which)

    def teardown(self) -> None:
        world = self.world._replace(
            processes=tuple(p._replace(status="dead") if p.status == "live" else p for p in self.world.processes)
        )
        check_end(world, CONFIG)
        finish(self.moves, world)

    def _of(self, *kinds: str) -> list[World]:
        return [after for kind, _, after in self.moves.all(self.world) if kind in kinds]

    def _go_if(self, worlds: list[World], which: int) -> None:
        if worlds:
            self._go(worlds[which % len(worlds)])

    def _go(self, world: World) -> None:
        seen["moves"] += 1
        seen["decisions"] += len(world.decided + world.past) - len(self.world.decided + self.world.past)
        seen["lives"] += world.sparks != self.world.sparks
        same_length = len(world.decided) == len(self.world.decided) and world.sparks == self.world.sparks
        seen["repaired"] += same_length and world.decided != self.world.decided
        self.world = world
        check(world, CONFIG)


@pytest.mark.search(20)
def test_random_longer_histories() -> None:
    run_state_machine_as_test(
        Histories,
        settings=settings(
            max_examples=60, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
    assert seen["moves"] > 1_500, "the histories were too short to show anything"
    assert seen["decisions"] > 10
    assert seen["lives"] > 0, "no reset was ever done"
    assert seen["repaired"] > 0, "nothing was ever repaired"

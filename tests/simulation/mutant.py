"""What a mutant is, and the explorations in which mutants are looked for."""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation import scenarios
from tests.simulation.config import Budget, Config
from tests.simulation.coordinator import Patch
from tests.simulation.scenarios import SCENARIOS

ONE = Config(sinks=1, tasks=1, drivers=1)
TWO = SCENARIOS["taking turns"][0]
RETRIES = Config(sinks=1, tasks=1, drivers=1, budget=Budget(retries=1))
SWAPS = Config(sinks=1, tasks=1, checkpoints=1, drivers=1, budget=Budget(swaps=2))
ABORTED = SCENARIOS["aborted by another process"][0]
SLOW = SCENARIOS["commits that take their time"][0]
RESET = SCENARIOS["a reset while others run"][0]
UPDATE = scenarios.UPDATE
RESCALE = SCENARIOS["two rescales"][0]
RESET_TO = SCENARIOS["a reset to positions while a driver runs"][0]
RESTORE = SCENARIOS["a start from a savepoint while a driver runs"][0]
REPAIR = scenarios.REPAIR
FORGETFUL = scenarios.FORGETFUL
TAKEN_OVER = scenarios.TAKEN_OVER
ABSENT = scenarios.ABSENT
REPAIRS = SCENARIOS["two repairs, and what they write is ended by hand"][0]
HEAD_SET_BACK = scenarios.HEAD_SET_BACK
HEAD_SET_BACK_TWICE = scenarios.HEAD_SET_BACK_TWICE
BEHIND = SCENARIOS["a driver goes on while others commit"][0]
SET_BACK = SCENARIOS["a sink that goes back in time"][0]
HEAD_SET_BACK_UNDER_A_RESET = SCENARIOS["head goes back before a reset, or under it (H29)"][0]
SET_BACK_UNDER_A_REPAIR = SCENARIOS["a repair of a sink that goes back in time"][0]
SET_BACK_UNDER_A_RESET = SCENARIOS["a sink goes back in time before a reset, or under it"][0]
SET_BACK_AFTER_AT_LEAST_ONCE = scenarios.SET_BACK_AFTER_AT_LEAST_ONCE
SET_BACK_AMONG_TWO = SCENARIOS["a sink goes back in time while drivers take over"][0]
THEN_AT_LEAST_ONCE = scenarios.THEN_AT_LEAST_ONCE
LOG_AFTER_AT_LEAST_ONCE = scenarios.LOG_AFTER_AT_LEAST_ONCE
RESCALE_AFTER_AT_LEAST_ONCE = scenarios.RESCALE_AFTER_AT_LEAST_ONCE
RESUMED = scenarios.RESUMED
RESUMED_LOG = scenarios.RESUMED_LOG
RESUMED_AFTER_A_RESCALE = scenarios.RESUMED_AFTER_A_RESCALE
MEMORY = scenarios.MEMORY
VANDAL = Config(sinks=1, tasks=1, drivers=1, counts=False, budget=Budget(vandals=1))
TOLERATED = SCENARIOS["failures that are tolerated"][0]
FAILING = Config(sinks=1, tasks=1, drivers=1, tries=2, budget=Budget(retries=1, failures=1))


@dataclass(frozen=True)
class Mutant:
    """One broken rule."""

    config: Config
    caught_as: str  # a part of the violation
    patches: tuple[Patch, ...] = ()
    broken: str = ""

"""Each broken variant is caught: the exploration looks at what it says it looks at."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tests.searches import marked
from tests.simulation.coordinator import patched
from tests.simulation.explore import explore
from tests.simulation.mutants import MUTANTS

_LONG_S: Final = {
    "a plan is written over another's": 17,
    "a reset has a sink count that was never claimed": 8,
    "a run that was superseded goes on (R1)": 7,
    "a start does not look again at the sinks (H29)": 5,
    "the epoch begins anew with the next life": 4,
    "a newer epoch's head is taken for one's own": 4,
    "a start rolls back without asking the records (H27)": 4,
    "a claim rolls back without a look at the count (H27)": 3,
    "a reset rolls back what head calls committed (H27)": 3,
    "a slot wants the at-least-once checkpoint before (H34)": 3,
    "head calls committed what an absent sink lacks (H32)": 3,
    "a start forgets what waits for an absent sink (H32)": 3,
    "a sink joins, and what older epochs have left stays (H32)": 3,
}
"""Seconds on an idle core of those that take long."""


@pytest.mark.parametrize("name", marked(MUTANTS, _LONG_S))
def test_a_broken_rule_is_caught(name: str) -> None:
    mutant = MUTANTS[name]
    found = explore(replace(mutant.config, coordinator=patched(mutant.patches), broken=mutant.broken))
    assert found.violation, f"not caught in {found.worlds} worlds"
    assert mutant.caught_as in found.violation


def test_those_that_take_long_are_mutants() -> None:
    assert _LONG_S.keys() <= MUTANTS.keys()

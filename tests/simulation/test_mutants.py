"""Each broken variant is caught: the exploration looks at what it says it looks at."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.coordinator import patched
from tests.simulation.explore import explore
from tests.simulation.mutants import MUTANTS


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_caught(name: str) -> None:
    mutant = MUTANTS[name]
    found = explore(replace(mutant.config, coordinator=patched(mutant.patches), broken=mutant.broken))
    assert found.violation, f"not caught in {found.worlds} worlds"
    assert mutant.caught_as in found.violation

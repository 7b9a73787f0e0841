"""The histories that break the model's variants, followed by the code: it holds, and breaks where it is broken too."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from tests.model.search import explore
from tests.model.variants import VARIANTS
from tests.simulation.config import Config
from tests.simulation.coordinator import patched
from tests.simulation.mutants import MUTANTS
from tests.simulation.rules import Violation
from tests.simulation.traces import PLENTY, follow


@cache
def _trace(name: str) -> list[tuple[Any, ...]]:
    return explore(VARIANTS[name], name).trace


def _config(name: str) -> Config:
    bounds = VARIANTS[name]
    return Config(
        checkpoints=bounds.checkpoints, sinks=bounds.sinks, tasks=bounds.tasks, tries=bounds.tries, budget=PLENTY
    )


@pytest.mark.parametrize("name", VARIANTS)
def test_the_code_holds_where_the_variant_breaks(name: str) -> None:
    follow(_trace(name), _config(name))


@pytest.mark.parametrize("name", VARIANTS)
def test_the_code_with_the_same_rule_broken_breaks_there(name: str) -> None:
    mutant = MUTANTS[name]
    broken = replace(_config(name), coordinator=patched(mutant.patches), broken=mutant.broken)
    with pytest.raises(Violation):
        follow(_trace(name), broken)

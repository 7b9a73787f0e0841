"""The protocol holds in every state of the model, and each variant with one rule broken is caught."""

from __future__ import annotations

import pytest

from tests.model.protocol import VARIANTS, explore
from tests.simulation.mutants import MUTANTS

STATES = 60_000
"""An exploration that sees fewer has lost its way."""


def test_the_protocol_holds() -> None:
    states, violation = explore()
    assert not violation
    assert states > STATES


@pytest.mark.parametrize("broken", VARIANTS)
def test_a_broken_variant_is_caught(broken: str) -> None:
    _, violation = explore(broken)
    assert violation


def test_the_simulation_breaks_the_same_rules() -> None:
    assert list(MUTANTS)[: len(VARIANTS)] == list(VARIANTS)

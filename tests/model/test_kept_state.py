"""Several drivers keep the state of one pipeline: every order of their requests, and rules broken one at a time."""

from __future__ import annotations

import pytest

from tests.model import kept_state


def test_a_start_finds_a_whole_state_in_every_world() -> None:
    assert kept_state.explore() > 10_000


@pytest.mark.parametrize(("drivers", "last"), kept_state.RESCALES)
def test_a_rescale_is_found_whole_or_not_at_all(drivers: int, last: int) -> None:
    assert kept_state.explore("", drivers, last, rescales=True) > 5_000


@pytest.mark.parametrize("mutant", kept_state.MUTANTS_OF_RESCALE)
def test_each_broken_rule_of_a_rescale_is_found(mutant: str) -> None:
    with pytest.raises(kept_state.Violation):  # noqa: PT012  # one of the two has the world
        for drivers, last in kept_state.RESCALES:
            kept_state.explore(mutant, drivers, last, rescales=True)


@pytest.mark.parametrize("mutant", kept_state.MUTANTS)
def test_each_broken_rule_is_found(mutant: str) -> None:
    with pytest.raises(kept_state.Violation):
        kept_state.explore(mutant)

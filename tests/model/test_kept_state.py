"""Several drivers keep the state of one pipeline: every order of their requests, and rules broken one at a time."""

from __future__ import annotations

import pytest

from tests.model import kept_state


def test_a_start_finds_a_whole_state_in_every_world() -> None:
    assert kept_state.explore() > 10_000


@pytest.mark.parametrize("mutant", kept_state.MUTANTS)
def test_each_broken_rule_is_found(mutant: str) -> None:
    with pytest.raises(kept_state.Violation):
        kept_state.explore(mutant)

"""Several starts from a savepoint into an object store: every order of their requests, and rules broken one by one."""

from __future__ import annotations

import pytest

from tests.model import births


def test_head_never_has_an_incarnation_without_its_state() -> None:
    assert births.explore() > 10_000


@pytest.mark.parametrize("mutant", births.MUTANTS)
def test_each_broken_rule_is_found(mutant: str) -> None:
    with pytest.raises(births.Violation):
        births.explore(mutant)

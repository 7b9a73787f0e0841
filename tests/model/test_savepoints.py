"""A savepoint in an object store: every order of its writer's and of users' requests, and rules broken one by one."""

from __future__ import annotations

import pytest

from tests.model import savepoints


def test_what_was_reported_is_whole_and_what_was_discarded_is_none() -> None:
    assert savepoints.explore() > 500


@pytest.mark.parametrize("mutant", savepoints.MUTANTS)
def test_each_broken_rule_is_found(mutant: str) -> None:
    with pytest.raises(savepoints.Violation):
        savepoints.explore(mutant)

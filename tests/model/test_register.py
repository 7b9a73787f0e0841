"""Several drivers swap one register in HDFS: every order of their requests, and rules broken one at a time."""

from __future__ import annotations

import pytest

from tests.model import register


def test_no_value_is_lost_and_each_driver_is_right_about_its_swap() -> None:
    assert register.explore() > 10_000


@pytest.mark.parametrize("mutant", register.MUTANTS)
def test_each_broken_rule_is_found(mutant: str) -> None:
    with pytest.raises(register.Violation):
        register.explore(mutant)

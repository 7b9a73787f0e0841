"""The protocol holds in every state of the models, and each variant with one rule broken is caught."""

from __future__ import annotations

import pytest

from tests.model import at_least_once, away, head_set_back, lives, repair, rescale, set_back, take_over
from tests.model.search import explore
from tests.model.variants import BEHIND, HOLDS, NOT_OF_THE_COORDINATOR, VARIANTS
from tests.simulation.mutants import MUTANTS

STATES = 60_000
"""An exploration of several lives that sees fewer has lost its way."""

REPAIR_STATES = 10_000
RESCALE_STATES = 200_000
SET_BACK_STATES = 50_000
AT_LEAST_ONCE_STATES = 40_000
HEAD_SET_BACK_STATES = 15_000
TAKE_OVER_STATES = 20_000
AWAY_STATES = 350_000


@pytest.mark.parametrize("name", HOLDS)
def test_the_protocol_holds(name: str) -> None:
    bounds, floor = HOLDS[name]
    found = explore(bounds)
    assert not found.violation, "\n".join([found.violation, *map(str, found.trace)])
    assert found.worlds >= floor
    assert found.ends["done"] > 0


@pytest.mark.parametrize("broken", VARIANTS)
def test_a_broken_variant_is_caught(broken: str) -> None:
    assert explore(VARIANTS[broken], broken).violation


@pytest.mark.parametrize("broken", BEHIND)
def test_a_broken_variant_of_commits_behind_is_caught(broken: str) -> None:
    assert explore(BEHIND[broken], broken).violation


def test_the_protocol_holds_over_several_lives() -> None:
    states, violation = lives.explore()
    assert not violation
    assert states > STATES


@pytest.mark.parametrize("broken", lives.VARIANTS)
def test_a_broken_variant_of_several_lives_is_caught(broken: str) -> None:
    _, violation = lives.explore(broken)
    assert violation


def test_the_protocol_holds_with_repairs() -> None:
    states, violation = repair.explore(drivers=2)
    assert not violation
    assert states > REPAIR_STATES


@pytest.mark.parametrize("broken", repair.VARIANTS)
def test_a_broken_variant_of_a_repair_is_caught(broken: str) -> None:
    _, violation = repair.explore(broken, drivers=2)
    assert violation


def test_the_protocol_holds_with_rescales() -> None:
    states, violation = rescale.explore()
    assert not violation
    assert states > RESCALE_STATES


@pytest.mark.parametrize("broken", rescale.VARIANTS)
def test_a_broken_variant_of_a_rescale_is_caught(broken: str) -> None:
    _, violation = rescale.explore(broken)
    assert violation


def test_the_protocol_holds_over_a_sink_that_goes_back_in_time() -> None:
    states, violation = set_back.explore()
    assert not violation
    assert states > SET_BACK_STATES


@pytest.mark.parametrize("broken", set_back.VARIANTS)
def test_a_broken_variant_of_a_sink_that_goes_back_is_caught(broken: str) -> None:
    _, violation = set_back.explore(broken)
    assert violation


def test_the_protocol_holds_with_take_overs() -> None:
    states, violation = take_over.explore()
    assert not violation
    assert states > TAKE_OVER_STATES


@pytest.mark.parametrize("broken", take_over.VARIANTS)
def test_a_broken_variant_of_a_take_over_is_caught(broken: str) -> None:
    _, violation = take_over.explore(broken)
    assert violation


def test_the_protocol_holds_with_a_head_that_goes_back() -> None:
    states, violation, ends = head_set_back.explore()
    assert not violation
    assert states > HEAD_SET_BACK_STATES
    assert ends == set(head_set_back.ENDS)


@pytest.mark.parametrize("broken", head_set_back.VARIANTS)
def test_a_broken_variant_of_a_head_that_goes_back_is_caught(broken: str) -> None:
    _, violation, _ = head_set_back.explore(broken)
    assert violation


def test_the_protocol_holds_over_starts_while_a_sink_is_away() -> None:
    states, violation, ends = away.explore()
    assert not violation
    assert states > AWAY_STATES
    assert ends == set(away.ENDS)


@pytest.mark.parametrize("broken", away.VARIANTS)
def test_a_broken_variant_of_a_start_without_a_sink_is_caught(broken: str) -> None:
    _, violation, _ = away.explore(broken)
    assert violation


def test_a_sink_that_goes_back_in_time_after_at_least_once_checkpoints() -> None:
    states, violation = at_least_once.explore()
    assert not violation
    assert states > AT_LEAST_ONCE_STATES


@pytest.mark.parametrize("broken", at_least_once.VARIANTS)
def test_a_broken_variant_of_at_least_once_checkpoints_before_a_set_back_is_caught(broken: str) -> None:
    _, violation = at_least_once.explore(broken)
    assert violation


def test_the_simulation_breaks_the_same_rules() -> None:
    smaller = {*lives.VARIANTS, *repair.VARIANTS, *rescale.VARIANTS, *set_back.VARIANTS, *take_over.VARIANTS}
    every = {*VARIANTS, *BEHIND, *smaller, *head_set_back.VARIANTS, *away.VARIANTS, *at_least_once.VARIANTS}
    assert every - set(MUTANTS) == set(NOT_OF_THE_COORDINATOR)

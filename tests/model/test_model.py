"""The protocol holds in every state of the models, and each variant with one rule broken is caught."""

from __future__ import annotations

from typing import Final

import pytest

from tests.model import at_least_once, away, head_set_back, lives, repair, rescale, schemas, set_back, take_over
from tests.model.search import explore
from tests.model.variants import BEHIND, HOLDS, NOT_OF_THE_COORDINATOR, VARIANTS
from tests.searches import marked
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
SCHEMAS_STATES = 1_000

_LONG_S: Final = {
    "commits behind, among two drivers": 4,
}
"""Seconds on an idle core of those that take long."""

_LONG_SET_BACK_S: Final = {
    "a reset rolls back what head calls committed (H27)": 7,
    "a reset rolls back without asking the records (H27)": 7,
    "a reset does not count what it commits (H27)": 7,
    "a reset claims without a look at the count (H27)": 6,
    "a reset takes over what is prepared (H27)": 6,
    "a repair claims without a look at the count (H31)": 3,
    "a repair does not count what it commits (H31)": 3,
}
"""See _LONG_S: variants of set_back."""

_LONG_AWAY_S: Final = {
    "an older start keeps its slots over those of a newer one (H32)": 38,
    "who has kept its slots does not look at head again (H32)": 30,
    "what waited before the start is not counted (H32)": 12,
    "a joining sink is not compared (H32)": 4,
    "a sink that joins gets its slots as at a start (H32)": 4,
    "a join rolls back what its own epoch writes (H32)": 4,
    "a sink joins without a claim (H32)": 3,
    "head calls committed what an absent sink lacks (H32)": 3,
}
"""See _LONG_S: variants of away."""


@pytest.mark.parametrize("name", marked(HOLDS, _LONG_S))
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


@pytest.mark.search(6)
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


@pytest.mark.search(15)
def test_the_protocol_holds_with_rescales() -> None:
    states, violation = rescale.explore()
    assert not violation
    assert states > RESCALE_STATES


@pytest.mark.parametrize("broken", rescale.VARIANTS)
def test_a_broken_variant_of_a_rescale_is_caught(broken: str) -> None:
    _, violation = rescale.explore(broken)
    assert violation


@pytest.mark.search(13)
def test_the_protocol_holds_over_a_sink_that_goes_back_in_time() -> None:
    states, violation = set_back.explore()
    assert not violation
    assert states > SET_BACK_STATES


@pytest.mark.parametrize("broken", marked(set_back.VARIANTS, _LONG_SET_BACK_S))
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


@pytest.mark.search(31)
def test_the_protocol_holds_over_starts_while_a_sink_is_away() -> None:
    states, violation, ends = away.explore()
    assert not violation
    assert states > AWAY_STATES
    assert ends == set(away.ENDS)


@pytest.mark.parametrize("broken", marked(away.VARIANTS, _LONG_AWAY_S))
def test_a_broken_variant_of_a_start_without_a_sink_is_caught(broken: str) -> None:
    _, violation, _ = away.explore(broken)
    assert violation


@pytest.mark.search(8)
def test_a_sink_that_goes_back_in_time_after_at_least_once_checkpoints() -> None:
    states, violation = at_least_once.explore()
    assert not violation
    assert states > AT_LEAST_ONCE_STATES


@pytest.mark.parametrize("broken", at_least_once.VARIANTS)
def test_a_broken_variant_of_at_least_once_checkpoints_before_a_set_back_is_caught(broken: str) -> None:
    _, violation = at_least_once.explore(broken)
    assert violation


def test_the_protocol_holds_with_a_schema_registry_that_goes_back() -> None:
    states, violation, done = schemas.explore()
    assert not violation
    assert states > SCHEMAS_STATES
    assert done


@pytest.mark.parametrize("broken", schemas.VARIANTS)
def test_a_broken_variant_of_a_schema_registry_that_goes_back_is_caught(broken: str) -> None:
    _, violation, _ = schemas.explore(broken)
    assert violation


def test_the_simulation_breaks_the_same_rules() -> None:
    smaller = {*lives.VARIANTS, *repair.VARIANTS, *rescale.VARIANTS, *set_back.VARIANTS, *take_over.VARIANTS}
    every = {*VARIANTS, *BEHIND, *smaller, *head_set_back.VARIANTS, *away.VARIANTS, *at_least_once.VARIANTS}
    every |= {*schemas.VARIANTS}
    assert every - set(MUTANTS) == set(NOT_OF_THE_COORDINATOR)


def test_those_that_take_long_are_there() -> None:
    assert _LONG_S.keys() <= HOLDS.keys()
    assert _LONG_SET_BACK_S.keys() <= {*set_back.VARIANTS}
    assert _LONG_AWAY_S.keys() <= {*away.VARIANTS}

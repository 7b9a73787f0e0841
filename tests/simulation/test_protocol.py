"""The real coordinator, explored: every rule holds in every world, and every kind of trouble did happen."""

from __future__ import annotations

from functools import cache

import pytest

from tests.simulation.explore import Found, explore
from tests.simulation.scenarios import SCENARIOS

TROUBLE = {
    "switches": {"switch"},
    "swaps": {"lost answer", "late swap", "deliver"},
    "retries": {"straggler"},
    "commits": {"slow commit", "finish", "undo"},
    "aborters": {"aborter"},
    "vandals": {"vandal"},
    "forgets": {"forgotten"},
    "take_overs": {"take-over"},
    "outages": {"outage"},
    "absences": {"absence", "back"},
    "set_backs": {"copy", "set back"},
    "head_set_backs": {"head set back"},
    "snapshots": {"snapshot", "resume"},
}
"""By budget: the moves that must have been seen, so that an exploration that skips them cannot pass."""


_OF_PERMITS = {"straggler"}
"""What does not happen where tasks hold no permit."""


@cache
def explored(name: str) -> Found:
    """A scenario's exploration, made once."""
    return explore(SCENARIOS[name][0])


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_rule_holds_in_every_world(name: str) -> None:
    config, floor = SCENARIOS[name]
    found = explored(name)
    assert not found.violation, "\n".join([found.violation, *found.history])
    assert found.worlds >= floor
    assert found.statuses["done"] > 0
    if "crash" not in config.without:
        assert found.statuses["dead"] > 0
    if config.drivers > 1 and config.budget.switches:
        assert found.statuses["fenced"] > 0
    if config.resets:
        assert "reset" in found.kinds
    if config.resets_to:
        assert "reset to" in found.kinds
    if config.repairs:
        assert "repair" in found.kinds
    if config.budget.drifts:
        assert found.statuses["other rows"] > 0
    if config.rescales:
        assert "rescale" in found.kinds
    for kind, moves in TROUBLE.items():
        if getattr(config.budget, kind):
            assert moves - (_OF_PERMITS if config.direct else set()) <= set(found.kinds), f"{kind} never happened"


def test_a_start_after_half_a_reset_is_refused() -> None:
    found = explored("a reset of two sinks")
    assert found.statuses["refused"] > 0


def test_somebody_who_rolls_back_by_hand_stops_the_pipeline() -> None:
    found = explored("transactions ended by hand")
    assert found.statuses["lost"] > 0

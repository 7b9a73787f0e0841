"""The real coordinator, explored: every rule holds in every world, and every kind of trouble did happen."""

from __future__ import annotations

from functools import cache
from typing import Final

import pytest

from tests.searches import marked
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

_LONG_S: Final = {
    "a reset while others run": 33,
    "a sink goes back in time while drivers take over": 29,
    "two resets": 24,
    "a start from a savepoint": 17,
    "a reset of two sinks": 16,
    "two drivers, two sinks, two tasks": 14,
    "a sink with a log is taken over by another incarnation": 14,
    "a repair while others run": 13,
    "taking turns": 12,
    "swaps lost or late, two drivers": 12,
    "at-least-once, swaps lost or late": 12,
    "a rescale while others run": 10,
    "a repair of a log that goes back in time": 10,
    "stragglers of an older driver": 9,
    "a sink goes back in time before a reset, or under it": 9,
    "tasks run twice, jobs that fail": 8,
    "a reset whose swaps are lost or late": 8,
    "a reset to positions, swaps lost or late": 8,
    "a repair of a sink that goes back in time": 8,
    "exactly-once, then at-least-once, and the sink goes back in time": 8,
    "starts of two drivers while a sink is away (H32)": 8,
    "two runs that restart": 8,
    "at-least-once, then exactly-once, and a sink with a log goes back in time": 7,
    "a machine is restored with its memory, and with a log": 7,
    "swaps lost or late, and a driver that wakes up": 6,
    "a rescale whose swaps are lost or late": 6,
    "exactly-once, then at-least-once, and a sink with a log goes back in time": 6,
    "at-least-once, then exactly-once, and the sink goes back in time": 6,
    "failures that are tolerated": 5,
    "commits that take their time": 5,
    "two repairs, and what they write is ended by hand": 5,
    "starts while a sink is away (H32)": 5,
    "head goes back over a claim (H29)": 5,
    "swaps lost or late, one driver": 4,
    "transactions ended by hand": 4,
    "a reset to positions while a driver runs": 4,
    "two rescales": 4,
    "a repair whose swaps are lost or late": 4,
    "a repair of state, of sinks that are behind": 4,
    "a machine is restored with its memory": 4,
    "a driver's memory alone goes back": 4,
    "a driver's memory alone goes back, of a sink with a log": 4,
    "a server that forgets, while drivers take over": 3,
    "transactions ended by hand before a reset": 3,
    "two repairs of sinks with logs": 3,
    "at-least-once, then exactly-once": 3,
    "exactly-once, then at-least-once": 3,
    "a driver's memory alone goes back, and jobs fail": 3,
    "a sink goes back in time after at-least-once": 3,
    "three drivers": 2,
    "a reset of a sink with a log, whose commits take their time": 2,
    "a rescale after at-least-once, and the sink goes back in time": 2,
    "a machine is restored with its memory, and jobs fail": 2,
}
"""Seconds on an idle core of those that take long."""


@cache
def explored(name: str) -> Found:
    """A scenario's exploration, made once."""
    return explore(SCENARIOS[name][0])


@pytest.mark.parametrize("name", marked(SCENARIOS, _LONG_S))
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


@pytest.mark.search(_LONG_S["a reset of two sinks"])
def test_a_start_after_half_a_reset_is_refused() -> None:
    found = explored("a reset of two sinks")
    assert found.statuses["refused"] > 0


@pytest.mark.search(_LONG_S["transactions ended by hand"])
def test_somebody_who_rolls_back_by_hand_stops_the_pipeline() -> None:
    found = explored("transactions ended by hand")
    assert found.statuses["lost"] > 0


def test_those_that_take_long_are_scenarios() -> None:
    assert _LONG_S.keys() <= SCENARIOS.keys()

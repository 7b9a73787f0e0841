"""The choice of kills: within a run every sink and every point, over many runs every pair."""

from __future__ import annotations

import pytest

from integration_tests.harness.rotation import rotated

POINTS = {"a": ("one", "two", "three"), "b": ("one", "two"), "c": ("two", "three", "four")}


def test_every_sink_and_every_point_in_each_run() -> None:
    for seed in range(200):
        chosen = rotated(POINTS, 2, seed)
        assert {name: len(some) for name, some in chosen.items()} == {"a": 2, "b": 2, "c": 2}
        assert {point for some in chosen.values() for point in some} == {"one", "two", "three", "four"}
        assert all(sorted(some, key=POINTS[name].index) == some for name, some in chosen.items())
        assert chosen == rotated(POINTS, 2, seed)


def test_every_pair_in_some_run() -> None:
    seen = {(name, point) for seed in range(200) for name, some in rotated(POINTS, 2, seed).items() for point in some}
    assert seen == {(name, point) for name, some in POINTS.items() for point in some}


def test_no_room() -> None:
    with pytest.raises(ValueError, match="no room for"):
        rotated({"a": ("one", "two", "three")}, 2, 0)

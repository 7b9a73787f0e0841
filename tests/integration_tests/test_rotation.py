"""The choice of kills: every run all pairs of sink and point, in one pipeline, and some in pipelines of one sink."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from integration_tests import test_matrix
from integration_tests.harness.rotation import SEED, left_out_cases, rotated
from integration_tests.harness.targets import (
    ALL,
    BUCKET,
    PLACES,
    TARGETS,
    case_id,
    places_of_run,
    points_of,
    points_of_run,
    stems,
    visible,
)
from twophase import faults

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


@pytest.mark.parametrize("seed", [None, *range(30)])
def test_each_run_kills_every_sink_at_each_of_its_points(seed: int | None) -> None:
    cases = points_of_run(seed)
    assert cases.keys() == {*TARGETS, ALL}
    assert all(set(cases[name]) <= set(points_of(name)) and cases[name] for name in TARGETS)
    assert {point for name in TARGETS for point in points_of(name)} == set(cases[ALL]) <= set(faults.POINTS)


def test_three_runs_in_containers_kill_all_sinks_at_every_point() -> None:
    parts = [points_of_run(seed, "docker")[ALL] for seed in (7, 8, 9)]
    assert sorted(point for part in parts for point in part) == sorted(points_of_run(None)[ALL])
    assert points_of_run(None, "docker") == points_of_run(None)


def test_each_run_chooses_a_place_for_each_case_and_all_runs_choose_each_place() -> None:
    assert all(set(places) == set(PLACES) for places in places_of_run(None).values())
    runs = [places_of_run(seed) for seed in range(100)]
    assert all(len(places) == 1 for run in runs for places in run.values())
    pairs = {
        (name, point, *places_of_run(seed)[name])
        for seed in range(300)
        for name, points in points_of_run(seed).items()
        for point in points
    }
    assert pairs == {(name, point, place) for name in (*TARGETS, ALL) for point in points_of(name) for place in PLACES}
    in_buckets = [sum(places == [BUCKET] for places in run.values()) for run in runs]
    assert 4 < sum(in_buckets) / len(runs) < 6
    assert runs[7] == places_of_run(7)


def test_a_run_takes_a_third_of_many_cases_and_each_has_its_turn() -> None:
    many, few = [f"many-{number}" for number in range(10)], [f"few-{number}" for number in range(5)]
    runs = [{*many, *few} - left_out_cases({"many": many, "few": few}, str(seed)) for seed in range(50)]
    assert all(len(ran & {*many}) == 4 and ran >= {*few} for ran in runs)
    assert set.union(*runs) >= {*many}
    assert runs[0] == {*many, *few} - left_out_cases({"many": many[::-1], "few": few}, "0")


def test_the_case_of_all_sinks_takes_no_turns() -> None:
    root = Path(test_matrix.__file__).parents[1]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--in-turns", "-m", "not in_turns"]
    environment = {**os.environ, SEED: "1", "CI": ""}
    (place,) = places_of_run(1)[ALL]
    ended = subprocess.run(
        [*command, test_matrix.__file__], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert f"test_killed[{case_id(ALL, place)}]" in ended.stdout, ended.stdout + ended.stderr


def test_rows_are_visible_after_their_decision() -> None:
    assert [visible(point, 3) for point in points_of("upsert")] == [(3, 3)] * 4 + [(3, 4)] * 2 + [(4, 4)] * 2


def test_a_point_of_each_sink_is_armed_for_each_sink() -> None:
    assert len(set(stems("applying", 4, ["one", "other"]))) == 2
    assert stems("before-decide", 3, ["one", "other"]) == ["before-decide@3"]

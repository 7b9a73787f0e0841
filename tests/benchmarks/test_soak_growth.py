"""The verdict of the soak: a leak is found, and neither a plateau nor noise is taken for one."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import fields

import pytest

from benchmarks.soak.growth import FEWEST_SAMPLES, LIMITS, Growth, TooFewSamplesError, flat_means, growths
from benchmarks.soak.sampled import Sample

EVERY = 50  # checkpoints between two samples
SAMPLES = 100
LEVEL = 300.0

each_quantity = pytest.mark.parametrize("name", LIMITS)


def limit_of(name: str) -> float:
    part, least = LIMITS[name]
    return max(part * LEVEL, least)


def found(name: str, value: Callable[[float], float], samples: int = SAMPLES) -> Growth:
    """Where this quantity is so much at a part of the run, from 0 to 1, and all others are flat."""
    taken = []
    for number in range(samples):
        facts = {each.name: LEVEL for each in fields(Sample)}
        facts |= {"checkpoints": number * EVERY, name: value(number / max(1, samples - 1))}
        taken.append(Sample(**facts))  # type: ignore[arg-type]
    by_name = {each.name: each for each in growths(taken)}
    assert by_name.keys() == LIMITS.keys()
    assert all(each.within for each in by_name.values() if each.name != name)
    return by_name[name]


def noise(name: str) -> Callable[[], float]:
    """Up and down by half of what the quantity may grow."""
    chance, height = random.Random(7), limit_of(name) / 2
    return lambda: chance.uniform(-height, height)


@each_quantity
def test_a_slow_leak_is_found_in_noise_at_its_full_size(name: str) -> None:
    up_and_down, whole = noise(name), 2 * limit_of(name)
    growth = found(name, lambda at: LEVEL + whole * at + up_and_down())
    assert not growth.within
    assert growth.grew == pytest.approx(whole * 0.75, rel=0.2)
    assert growth.limit == pytest.approx(limit_of(name), rel=0.1)
    assert growth.checkpoints == 74 * EVERY
    assert str(growth).startswith(f"{name} grew by ")


@each_quantity
def test_a_leak_without_noise_is_measured_exactly(name: str) -> None:
    growth = found(name, lambda at: LEVEL + (SAMPLES - 1) * at)  # one between two samples
    assert growth.was == pytest.approx(LEVEL + 25)
    assert growth.grew == pytest.approx(74)


@each_quantity
def test_a_plateau_after_warming_up_is_flat_whatever_the_noise(name: str) -> None:
    up_and_down, climb = noise(name), 20 * limit_of(name)
    growth = found(name, lambda at: LEVEL + climb * min(0.0, at - 0.25) + up_and_down())
    assert growth.within, growth
    assert abs(growth.grew) < growth.limit / 2


@each_quantity
def test_what_shrinks_is_flat(name: str) -> None:
    growth = found(name, lambda at: LEVEL * (2 - at))
    assert growth.within
    assert growth.grew < 0


@each_quantity
def test_a_step_that_is_higher_than_the_limit_is_found_whenever_it_comes(name: str) -> None:
    for late in (0.4, 0.6, 0.8):
        assert not found(name, lambda at, late=late: LEVEL + 2 * limit_of(name) * (at > late)).within  # type: ignore[misc]


def test_the_fewest_samples_are_judged_and_fewer_are_an_error() -> None:
    assert not found("files", lambda at: LEVEL + 1000 * at, FEWEST_SAMPLES).within
    for samples in range(FEWEST_SAMPLES):
        with pytest.raises(TooFewSamplesError, match=f"{samples} samples say nothing .* run more checkpoints"):
            found("files", lambda _at: LEVEL, samples)


def test_every_quantity_has_its_limit_and_the_help_names_it() -> None:
    assert {each.name for each in fields(Sample)} - {"checkpoints", "elapsed_s"} == LIMITS.keys()
    assert "driver_mb: 10% of what it was, or 16\n" in flat_means()
    assert "connections: 4\n" in flat_means()

"""Medians over rounds, ratios within each round, and shares of many values."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence

from benchmarks.bench.comparison.results import Result


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that no fewer than this share of all are at or below."""
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def medians(results: Iterable[Result]) -> dict[str, dict[str, float]]:
    """By system and name of the value; runs that failed have none."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        for name, value in result.values.items():
            found[result.system][name].append(value)
    return {
        system: {name: statistics.median(each) for name, each in values.items()} for system, values in found.items()
    }


def ratios(results: Sequence[Result], name: str, base: str, base_name: str = "") -> dict[str, float]:
    """By system, the median of its value divided by that of `base` in the same round: a shared machine is faster at one
    time than at another. `base_name`: another value of the base. Systems without such a round are left out."""
    of = base_name or name
    bases = {result.round: result.values[of] for result in results if result.system == base and of in result.values}
    found: dict[str, list[float]] = defaultdict(list)
    for result in results:
        if name in result.values and result.round in bases:
            found[result.system].append(result.values[name] / bases[result.round])
    return {system: statistics.median(each) for system, each in found.items()}

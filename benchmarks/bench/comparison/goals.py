"""What this project wants to reach beside others, and what a comparison has found of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from benchmarks.bench.comparison import ours
from benchmarks.bench.comparison.latency import RATE
from benchmarks.bench.comparison.raw_limit import NAME as RAW
from benchmarks.bench.comparison.results import LATENCY, Result
from benchmarks.bench.comparison.statistics import medians, ratios

_OURS, _AT_LEAST_ONCE, _FLINK_XA = "eos-two-phase", "eos-alo", "flink-xa"
_START, _FIRST_READ = "rows_per_s_from_start", "rows_per_s_from_first_read"
_VISIBLE, _WARM = "rows_per_s_first_to_all_visible", "rows_per_s_warm"
_WARM_VISIBLE = "rows_per_s_warm_first_to_all_visible"
_CPU, _CPU_START = "cpu_s_per_million_system", "cpu_s_start"

_Found = Callable[[Sequence[Result]], float | None]  # in the runs of one size, or in those of latency


@dataclass(frozen=True, slots=True)
class Goal:
    """One, in one measure."""

    wanted: str
    measure: str
    found: _Found
    reached: Callable[[float], bool]
    rows: int | None = None  # it is about this size alone
    of_latency: bool = False


def lines(results: Sequence[Result]) -> list[list[str]]:
    """The head of a table and its rows, of what was measured; what is reached is bold."""
    waits = [result for result in results if result.kind == LATENCY]
    sized = [result for result in results if result.kind != LATENCY]
    of_size = {size: [each for each in sized if each.rows == size] for size in sorted({each.rows for each in sized})}
    head = ["goal", "measure", *(f"{size:,} records" for size in of_size), f"{RATE:,} records a second"]
    found = []
    for goal in _GOALS:
        asked = () if goal.of_latency else of_size if goal.rows is None else (goal.rows,)
        cells = [_cell(goal, runs) if size in asked else "" for size, runs in of_size.items()]
        cells.append(_cell(goal, waits) if goal.of_latency else "")
        if any(cells):
            found.append([goal.wanted, goal.measure, *cells])
    return [head, *found] if found else []


def _cell(goal: Goal, results: Sequence[Result]) -> str:
    value = goal.found(results)
    if value is None:
        return ""
    text = f"{value:.0f} ms" if goal.of_latency else f"{value:.2f}"
    return f"**{text}**" if goal.reached(value) else text


def _ratio(name: str, base: str, base_name: str, results: Sequence[Result]) -> float | None:
    return ratios(results, name, base, base_name).get(_OURS)


def _beside(base: str, name: str, base_name: str = "") -> _Found:
    return partial(_ratio, name, base, base_name or name)


def _median(name: str, results: Sequence[Result]) -> float | None:
    return medians(results).get(_OURS, {}).get(name)


def _beside_each_other(name: str, results: Sequence[Result]) -> float | None:
    """The greatest ratio to one that is not ours."""
    others = {result.system for result in results} - {RAW, *(system.name for system in ours.systems())}
    found = [_ratio(name, other, name, results) for other in others]
    return max((each for each in found if each is not None), default=None)


def _with_start(found: _Found) -> _Found:
    """The same of the whole process, its start included."""

    def of(results: Sequence[Result]) -> float | None:
        starts = [each for each in results if _CPU_START in each.values]
        whole = [each.values[_CPU] + each.values[_CPU_START] * 1e6 / each.rows for each in starts]
        return found([replace(each, values={_CPU: cpu}) for each, cpu in zip(starts, whole, strict=True)])

    return of


def _at_least(bound: float) -> Callable[[float], bool]:
    return lambda value: value >= bound


def _less_than(bound: float) -> Callable[[float], bool]:
    return lambda value: value < bound


_LIMIT, _LIMIT_ROWS, _SAME = "0.9 of the limit", 3_000_000, "0.97 of at-least-once"
_GOALS: Final = (
    Goal(_LIMIT, "from the first record read", _beside(RAW, _FIRST_READ), _at_least(0.9), _LIMIT_ROWS),
    Goal(_LIMIT, "from the first to all visible", _beside(RAW, _VISIBLE), _at_least(0.9), _LIMIT_ROWS),
    Goal(
        _LIMIT,
        "warm, in one checkpoint, from the first record read",
        _beside(RAW, _WARM, _FIRST_READ),
        _at_least(0.9),
        _LIMIT_ROWS,
    ),
    Goal(
        _LIMIT,
        "the same, the limit from its first to all visible",
        _beside(RAW, _WARM, _VISIBLE),
        _at_least(0.9),
        _LIMIT_ROWS,
    ),
    Goal(
        _LIMIT,
        "warm, in several, from the first to all visible",
        _beside(RAW, _WARM_VISIBLE, _VISIBLE),
        _at_least(0.9),
        _LIMIT_ROWS,
    ),
    Goal("1.5 of Flink, XA", "from the first to all visible", _beside(_FLINK_XA, _VISIBLE), _at_least(1.5)),
    Goal("no less than Flink, XA", "from the process's start", _beside(_FLINK_XA, _START), _at_least(1.0)),
    Goal("290 ms", "latency, p50", partial(_median, "ms_p50"), _less_than(290.5), of_latency=True),
    Goal("530 ms", "latency, p99", partial(_median, "ms_p99"), _less_than(530.5), of_latency=True),
    Goal(_SAME, "from the first record read", _beside(_AT_LEAST_ONCE, _FIRST_READ), _at_least(0.97)),
    Goal(_SAME, "from the first to all visible", _beside(_AT_LEAST_ONCE, _VISIBLE), _at_least(0.97)),
    Goal(_SAME, "warm", _beside(_AT_LEAST_ONCE, _WARM), _at_least(0.97)),
    Goal(
        "less CPU than each of the others",
        "the system's own per million records, by that of the nearest",
        partial(_beside_each_other, _CPU),
        _less_than(1.0),
    ),
    Goal(
        "less CPU than each of the others",
        "the same with its start",
        _with_start(partial(_beside_each_other, _CPU)),
        _less_than(1.0),
    ),
)

"""The comparison as tables of Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.bench.comparison.goals import lines
from benchmarks.bench.comparison.raw_limit import NAME as RAW
from benchmarks.bench.comparison.results import COLD, LATENCY, Machine, Result
from benchmarks.bench.comparison.statistics import medians, ratios
from benchmarks.bench.comparison.work import System

_NONE = ""
_GOALS = "Of `eos, two-phase`: ratios within a round, and the median of these. What is reached is bold."


@dataclass(frozen=True, slots=True)
class Column:
    """One of a table; `shown` makes a cell of the medians of a system."""

    title: str
    shown: Callable[[Mapping[str, float]], str]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def page(systems: Mapping[str, System], machines: Sequence[Machine], results: Sequence[Result]) -> str:
    """Everything that a file of results tells, a section for each size."""
    parts = [place(machine) for machine in dict.fromkeys(machines)]
    sizes = sorted({result.rows for result in results if result.kind != LATENCY})
    for rows in sizes:
        parts += _throughput(systems, [result for result in results if result.rows == rows])
    waits = [result for result in results if result.kind == LATENCY]
    if waits:
        parts += [f"### Latency, {rounds(waits)}", "", _of(systems, waits, _LATENCY), ""]
    head, *goals = lines(results) or [[]]
    if goals:
        parts += ["### Goals", "", _GOALS, "", table(head, goals), ""]
    return "\n".join([*parts, *_trouble(systems, results)]).strip()


def _throughput(systems: Mapping[str, System], results: Sequence[Result]) -> list[str]:
    cold = [result for result in results if result.kind == COLD]
    # Of all kinds together, so that one row of a table can hold what each has found.
    more = [
        Result(system, COLD, 0, 0, {title: ratio})
        for title, (name, of) in _OF_LIMIT.items()
        for system, ratio in ratios(results, name, RAW, of).items()
    ]
    (rows,) = {result.rows for result in results}
    title = f"### {rows:,} records, {rounds(cold or results)}"
    return [title, "", _of(systems, [*results, *more], _RATES), "", _of(systems, cold, COSTS), ""]


def rounds(results: Sequence[Result]) -> str:
    """Return how often all was measured, for a heading."""
    count = max(result.round for result in results)
    return "one round" if count == 1 else f"median of {count} rounds"


def _of(systems: Mapping[str, System], results: Sequence[Result], columns: Sequence[Column]) -> str:
    """Without a column that nobody has a value for."""
    found = medians(results)
    measured = [column for column in columns if any(map(column.shown, found.values()))]
    rows = [
        [system.label, system.guarantee, *(column.shown(found[name]) for column in measured)]
        for name, system in systems.items()
        if name in found
    ]
    return table(["system", "guarantee", *(column.title for column in measured)], rows)


def _number(name: str, digits: int, values: Mapping[str, float]) -> str:
    return f"{values[name]:,.{digits}f}" if name in values else _NONE


def column(title: str, name: str, digits: int = 0) -> Column:
    """Return a column of the medians of one value."""
    return Column(title, partial(_number, name, digits))


_START, _FIRST_READ, _WARM = "rows_per_s_from_start", "rows_per_s_from_first_read", "rows_per_s_warm"
_VISIBLE, _WARM_VISIBLE = "rows_per_s_first_to_all_visible", "rows_per_s_warm_first_to_all_visible"
_OF_LIMIT = {  # what is divided, and what of the limit it is divided by
    "of_limit_from_first_read": (_FIRST_READ, _FIRST_READ),
    "of_limit_first_to_all_visible": (_VISIBLE, _VISIBLE),
    "warm_of_limit_from_first_read": (_WARM, _FIRST_READ),
    "warm_of_limit_first_to_all_visible": (_WARM_VISIBLE, _VISIBLE),
}
_RATES = (
    column("rows/s from the process's start", _START),
    column("from the first record read", _FIRST_READ),
    column("of the limit", "of_limit_from_first_read", 2),
    column("from the first to all visible", _VISIBLE),
    column("of the limit", "of_limit_first_to_all_visible", 2),
    column("warm, in one checkpoint, from the first record read", _WARM),
    column("of the limit", "warm_of_limit_from_first_read", 2),
    column("warm, in several, from the first to all visible", _WARM_VISIBLE),
    column("of the limit", "warm_of_limit_first_to_all_visible", 2),
)
COSTS = (
    column("CPU s of the start", "cpu_s_start", 1),
    column("and per million records: the system", "cpu_s_per_million_system", 1),
    column("of that Java's compiling", "cpu_s_per_million_compiling", 1),
    column("database", "cpu_s_per_million_database", 1),
    column("broker", "cpu_s_per_million_broker", 1),
    column("peak RSS of all processes, MiB", "peak_rss_mb"),
    column("connections to MySQL", "connections"),
)
_LATENCY = (
    column("p50 ms", "ms_p50"),
    column("p90", "ms_p90"),
    column("p99", "ms_p99"),
    column("greatest", "ms_max"),
    column("cores busy with it", "cores_busy", 2),
)


def place(machine: Machine) -> str:
    """Return where the runs were, as a sentence."""
    where = {"docker": " in containers", "native": " as processes beside it"}.get(machine.kind, "")
    servers = f"{machine.broker} and {machine.database}{where}"
    return f"{machine.date}: {machine.cores} cores, {machine.memory_gib} GiB, everything on one machine, {servers}.\n"


def _trouble(systems: Mapping[str, System], results: Sequence[Result]) -> list[str]:
    disturbed = sum(result.disturbed for result in results)
    told = [f"{disturbed} of {len(results)} runs were disturbed: other processes took over a tenth of the machine."]
    failed = [result for result in results if result.error]
    told += [
        f"Failed: {systems[each.system].label if each.system in systems else each.system}, {each.kind}, "
        f"{each.rows:,} records, round {each.round}."
        for each in failed
    ]
    return told if disturbed else told[1:]

"""Puts the measured formats into the docs: tables between two marks of a page."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.bench.comparison.report import replaced
from benchmarks.bench.comparison.results import JSON, Machine, Result, read
from benchmarks.bench.comparison.statistics import medians
from benchmarks.bench.comparison.tables import COSTS, column, place, rounds, table
from benchmarks.bench.comparison.work import System
from benchmarks.bench.formats import eos
from benchmarks.bench.formats.forms import FORMS
from benchmarks.bench.formats.plan import systems

BEGIN: Final = "<!-- formats: made by scripts/bench report -->"
END: Final = "<!-- end of the formats -->"
_WANTED: Final = 1.5
_CPU: Final = "cpu_s_per_million_system"
_RATES: Final = {
    "rows_per_s_from_start": "records/s from the process's start",
    "rows_per_s_from_first_read": "from the first record read",
    "rows_per_s_first_to_all_visible": "from the first to all visible",
}
_COLUMNS: Final = (*(column(title, name) for name, title in _RATES.items()), *COSTS)


class _Measure(NamedTuple):
    """A value that is compared with the best peer's in the same round."""

    title: str
    name: str
    best: Callable[[Sequence[float]], float]
    is_reached: Callable[[float], bool]


_MEASURES: Final = (
    *(_Measure(title, name, max, lambda ratio: ratio >= _WANTED) for name, title in _RATES.items()),
    _Measure("CPU of the system per million records", _CPU, min, lambda ratio: ratio < 1),
)


def is_of_formats(path: Path) -> bool:
    """Return whether a file of results has runs of this kind. Raises ValueError if it is not a file of results."""
    _, results = read([path])
    return any(result.format != JSON for result in results)


def report(files: Sequence[Path], page: Path) -> None:
    """Write the tables into the page. Raises ValueError if no run of the files went well."""
    machines, results = read(files)
    if not any(result.values for result in results):
        raise ValueError(f"{', '.join(map(str, files))}: there is no run that went well")
    page.write_text(replaced(page.read_text(), text(machines, results), BEGIN, END))


def text(machines: Sequence[Machine], results: Sequence[Result]) -> str:
    """Return the tables, a section for each number of records."""
    parts = [place(machine) for machine in dict.fromkeys(machines)]
    for rows in sorted({result.rows for result in results}):
        sized = [result for result in results if result.rows == rows]
        parts += [f"### {rows:,} records of each format, {rounds(sized)}", "", _figures(sized), ""]
        if beside := _beside_peers(sized):
            parts += [beside, ""]
    return "\n".join([*parts, *_trouble(results)]).strip()


def ratio(results: Sequence[Result], name: str, best: Callable[[Sequence[float]], float]) -> float | None:
    """Return this project's value by the best peer's in the same round, the median of all rounds.

    `results` are of one format and size. None: no round has both.
    """
    own: dict[int, float] = {}
    peers: dict[int, list[float]] = defaultdict(list)
    for result in results:
        if name in result.values and result.system == eos.NAME:
            own[result.round] = result.values[name]
        elif name in result.values:
            peers[result.round].append(result.values[name])
    found = [value / best(peers[number]) for number, value in own.items() if number in peers]
    return statistics.median(found) if found else None


def _figures(results: Sequence[Result]) -> str:
    found = {name: medians(_of(results, name)) for name in FORMS}
    shown = [
        each for each in _COLUMNS if any(each.shown(values) for form in found.values() for values in form.values())
    ]
    rows = [
        [form.label, system.label, system.guarantee, *(each.shown(found[form.name][system.name]) for each in shown)]
        for form in FORMS.values()
        for system in systems(form)
        if system.name in found[form.name]
    ]
    return table(["format", "system", "guarantee", *(each.title for each in shown)], rows)


def _beside_peers(results: Sequence[Result]) -> str:
    """Return a table of the ratios, without formats that no peer has read. What is wanted is bold."""
    rows = []
    for form in FORMS.values():
        found = [ratio(_of(results, form.name), each.name, each.best) for each in _MEASURES]
        if any(value is not None for value in found):
            rows.append([form.label, *map(_cell, _MEASURES, found)])
    head = ["eos by the best peer of the round", *(each.title for each in _MEASURES)]
    return table(head, rows) if rows else ""


def _cell(measure: _Measure, value: float | None) -> str:
    if value is None:
        return ""
    return f"**{value:.2f}**" if measure.is_reached(value) else f"{value:.2f}"


def _of(results: Sequence[Result], form: str) -> list[Result]:
    return [result for result in results if result.format == form]


def _trouble(results: Sequence[Result]) -> list[str]:
    disturbed = sum(result.disturbed for result in results)
    told = [f"{disturbed} of {len(results)} runs were disturbed: other processes took over a tenth of the machine."]
    failed = [
        f"Failed: {FORMS[each.format].label}, {_label(each)}, {each.rows:,} records, round {each.round}."
        for each in results
        if each.error
    ]
    return [*(told if disturbed else []), *failed]


def _label(result: Result) -> str:
    by_name: Mapping[str, System] = {system.name: system for system in systems(FORMS[result.format])}
    return by_name[result.system].label

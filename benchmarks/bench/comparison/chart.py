"""The comparison as a picture: rates, latency and CPU of every system, side by side."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from benchmarks.bench.comparison.results import COLD, LATENCY, WARM, Result
from benchmarks.bench.comparison.statistics import medians
from benchmarks.bench.comparison.work import System

_OURS: Final = "#1f6feb"
_OTHERS: Final = "#8c959f"
_FAINT: Final = 0.45
_LIMIT: Final = "#d4a72c"
_LEAST_MS: Final = 10  # where the scale begins: it has no zero
_STYLE: Final[dict[Any, Any]] = {
    "svg.hashsalt": "eos",
    "svg.fonttype": "none",
    "font.size": 9,
    "font.family": "sans-serif",
}
"""The salt makes the same figures the same file; text stays text, in the reader's own font."""


def svg(systems: Mapping[str, System], results: Sequence[Result], rows: int) -> str:
    """Of the runs with so many records, and of latency, at whatever rate that was."""
    cold = medians(result for result in results if result.kind == COLD and result.rows == rows)
    warm = medians(result for result in results if result.kind == WARM and result.rows == rows)
    waits = medians(result for result in results if result.kind == LATENCY)
    names = [name for name in systems if name in cold or name in waits][::-1]  # the first one on top
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(11, 0.42 * len(names) + 1.3), layout="constrained")
        rates, delays, costs = figure.subplots(1, 3, sharey=True)
        _bars(rates, systems, names, _of(cold, "rows_per_s_from_first_read"), "thousand rows/s", 1e-3)
        _marks(rates, names, _of(warm, "rows_per_s_warm"), 1e-3)
        rates.set_title(f"{rows:,} records, from the first one read\n(diamond: warm)", fontsize=9)
        _bars(delays, systems, names, _of(waits, "ms_p99"), "ms", faint=True)
        _bars(delays, systems, names, _of(waits, "ms_p50"), "ms")
        delays.set_xscale("log")
        delays.set_xlim(left=_LEAST_MS)
        delays.xaxis.set_major_formatter("{x:,.0f}")
        delays.xaxis.set_minor_formatter(NullFormatter())
        delays.set_title("latency: p50, and p99 behind it", fontsize=9)
        _bars(costs, systems, names, _of(cold, "cpu_s_per_million_system"), "CPU s per million records")
        costs.set_title("CPU of the system itself, without its start", fontsize=9)
        rates.set_yticks(range(len(names)), [systems[name].label for name in names])
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    return "\n".join(text.rstrip() for text in out.getvalue().splitlines()) + "\n"


def _of(found: Mapping[str, Mapping[str, float]], name: str) -> dict[str, float]:
    return {system: values[name] for system, values in found.items() if name in values}


def _bars(
    axes: Axes,
    systems: Mapping[str, System],
    names: Sequence[str],
    values: Mapping[str, float],
    unit: str,
    scale: float = 1.0,
    *,
    faint: bool = False,
) -> None:
    at = [number for number, name in enumerate(names) if name in values]
    lengths = [scale * values[names[number]] for number in at]
    colours = [_colour(systems[names[number]]) for number in at]
    axes.barh(at, lengths, color=colours, alpha=_FAINT if faint else 1.0, height=0.7)
    axes.set_xlabel(unit)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _marks(axes: Axes, names: Sequence[str], values: Mapping[str, float], scale: float) -> None:
    at = [number for number, name in enumerate(names) if name in values]
    axes.plot([scale * values[names[number]] for number in at], at, "D", color="black", markersize=4)


def _colour(system: System) -> str:
    if not system.streams:
        return _LIMIT
    return _OURS if system.warm is not None else _OTHERS

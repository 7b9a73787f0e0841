"""The plots of docs/explanation/scale.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

_OF = {
    "tasks": "tasks of a checkpoint",
    "sinks": "sinks (of 100 tasks each)",
    "splits": "partitions of the source",
    "stored": "checkpoints that head keeps",
    "left prepared": "transactions that a killed driver left prepared",
    "left in the log": "segments that a killed driver left in the log",
}


def draw(found: Sequence[Mapping[str, Any]], slopes: Mapping[str, float], folder: Path) -> None:
    """`scale-growth.svg`: CPU time and memory over each number, both axes logarithmic."""
    mpl.rcParams.update({"svg.hashsalt": "eos", "svg.fonttype": "none", "font.size": 9})
    figure, places = plt.subplots(2, 3, figsize=(11, 6.5), layout="constrained")
    for axes, (of, label) in zip(places.flat, _OF.items(), strict=True):
        lines = [each for each in found if each.get("series") == of]
        numbers = [each["number"] for each in lines]
        axes.loglog(numbers, [each["cpu_ms"] for each in lines], "o-", label=f"CPU time, ms (slope {slopes[of]:g})")
        if "peak_mb" in lines[0]:
            axes.loglog(numbers, [each["peak_mb"] for each in lines], "s--", label="memory at its height, MB")
            axes.loglog(numbers, [each["head_bytes"] / 1000 for each in lines], "^:", label="head, kB")
        last = lines[-1]
        axes.loglog(numbers, [last["cpu_ms"] * n / numbers[-1] for n in numbers], color="0.7", label="linear")
        axes.set_xlabel(label)
        axes.grid(which="both", alpha=0.2)
        axes.legend(fontsize=7)
    figure.savefig(folder / "scale-growth.svg", metadata={"Date": None})

"""`python -m benchmarks.coordinator`: the coordinator alone, at the sizes of docs/explanation/scale.md."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.coordinator.measuring import points, series, slope, starts

_WORST = 1.3  # slope of times: caches fill and others run. tests/benchmarks/ asks for 1, of counted steps


def main(
    rounds: Annotated[int, typer.Option(help="of which the least is taken")] = 5,
    plots: Annotated[Path | None, typer.Option(help="a folder for the plots")] = None,
) -> None:
    """Print what was measured, and at the end the slope of each growth. Exit code 1 if one is worse than linear."""
    growths: dict[str, list[tuple[float, float]]] = defaultdict(list)
    found = []
    for line in chain(points(rounds), series(rounds), starts(rounds)):
        print(json.dumps(line), flush=True)
        found.append(line)
        if "series" in line:
            growths[line["series"]].append((line["number"], line["cpu_ms"]))
    slopes = {of: round(slope(each), 2) for of, each in growths.items()}
    print(json.dumps({"slopes": slopes}))
    if plots is not None:
        from benchmarks.coordinator.plots import draw

        draw(found, slopes, plots)
    sys.exit(1 if any(each > _WORST for each in slopes.values()) else 0)


typer.run(main)

"""Goes through this project's own cases and prints a JSON line for each: `rows_per_s`, `ratio_to`, `peak_rss_mb`."""

from __future__ import annotations

import json
import secrets
import statistics
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path

from benchmarks.bench.cases import CASES, Measured
from benchmarks.bench.targets import Place
from integration_tests.services import Services


def with_those_beside(wanted: Collection[str]) -> list[str]:
    """In the order of CASES, where each one stands behind those that it is compared with."""
    needed = set(wanted)
    for name in reversed(list(CASES)):
        if name in needed:
            needed.update(*CASES[name].against.values())
    return [name for name in CASES if name in needed]


def measure(services: Services, rows: int, runs: int, cases: list[str]) -> None:
    """Every case once in each round; prints the medians."""
    rounds: list[dict[str, Measured]] = []
    for number in range(1, runs + 1):
        rounds.append({})
        for case in cases:
            rounds[-1][case] = measured = _in_place(services, rows, case)
            print(f"round {number} of {runs}: {rows:,} rows, {case}: {measured.seconds:.2f} s", file=sys.stderr)
    for case in cases:
        line = {
            "case": case,
            "rows": rows,
            "rows_per_s": round(statistics.median(rows / measured[case].seconds for measured in rounds)),
            "ratio_to": {label: _ratio(rounds, case, others) for label, others in CASES[case].against.items()},
            "peak_rss_mb": round(max(measured[case].peak_rss_mb for measured in rounds)),
            "database": str(services.database),
            "runs": runs,
        }
        print(json.dumps(line), flush=True)


def _ratio(rounds: list[dict[str, Measured]], case: str, others: tuple[str, ...]) -> float:
    """Of each round by itself: a machine that others use as well is slower at one time than at another."""
    ratios = [sum(measured[other].seconds for other in others) / measured[case].seconds for measured in rounds]
    return round(statistics.median(ratios), 3)


def _in_place(services: Services, rows: int, case: str) -> Measured:
    """Run a case with a topic, databases and a folder of its own."""
    name = f"eos_bench_{secrets.token_hex(4)}"
    with tempfile.TemporaryDirectory() as folder, Place(services, name, Path(folder)) as place:
        return CASES[case].run(place, rows)

"""Which runs there are, and in which order: each system once in a round, one after another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.bench.comparison import latency
from benchmarks.bench.comparison.results import COLD, JSON, LATENCY, WARM
from benchmarks.bench.comparison.work import System


@dataclass(frozen=True, slots=True)
class Step:
    """One run."""

    system: System
    kind: str
    rows: int
    round: int
    format: str = JSON  # of the records


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure."""

    systems: Sequence[System]
    kinds: Sequence[str]
    rows: Sequence[int]
    runs: int
    latency_runs: int

    def steps(self) -> Iterator[Step]:
        """In the order of the runs; a system is left out where it has no such case."""
        for kind in self.kinds:
            for rows, runs in self._sizes(kind):
                for number in range(1, runs + 1):
                    yield from (Step(system, kind, rows, number) for system in self.systems if _has(system, kind))

    def _sizes(self, kind: str) -> list[tuple[int, int]]:
        if kind == LATENCY:
            return [(latency.rows(), self.latency_runs)]
        return [(rows, self.runs) for rows in self.rows]


def _has(system: System, kind: str) -> bool:
    return {COLD: True, WARM: system.warm is not None, LATENCY: system.streams}[kind]

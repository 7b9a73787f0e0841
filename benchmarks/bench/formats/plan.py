"""Which runs of formats there are: in each round, every system once for every format."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from benchmarks.bench.comparison.plan import Step
from benchmarks.bench.comparison.results import COLD
from benchmarks.bench.comparison.work import System
from benchmarks.bench.formats import connect, eos, flink
from benchmarks.bench.formats.forms import FORMS, Form

SYSTEMS: Final = (eos.NAME, flink.NAME, connect.NAME)


def systems(form: Form) -> list[System]:
    """Return those that can read a format, this project first."""
    found = [eos.system(form)]
    if form.name in flink.FORMATS:
        found.append(flink.system(form))
    if form.name in connect.FORMATS:
        found.append(connect.system(form))
    return found


@dataclass(frozen=True, slots=True)
class FormatsPlan:
    """What to measure."""

    formats: Collection[str]
    systems: Collection[str]
    rows: Collection[int]
    runs: int

    def steps(self) -> Iterator[Step]:
        """Yield the runs in their order. A system is left out where it cannot read the format."""
        for rows in self.rows:
            for number in range(1, self.runs + 1):
                for form in FORMS.values():
                    if form.name in self.formats:
                        chosen = [system for system in systems(form) if system.name in self.systems]
                        yield from (Step(system, COLD, rows, number, form.name) for system in chosen)

"""Goes through a plan of formats, as `comparison.run` does through its own."""

from __future__ import annotations

from pathlib import Path

from benchmarks.bench.comparison.run import Patience, run_steps
from benchmarks.bench.formats.arena import FormatsArena
from benchmarks.bench.formats.plan import FormatsPlan
from integration_tests.services import Services


def run(plan: FormatsPlan, services: Services, out: Path, patience: Patience) -> bool:
    """Block until all is measured. Return whether every run was well. Raises ServiceError if there is no registry."""
    steps = list(plan.steps())
    with FormatsArena(services) as arena:
        for step in steps:  # before the first run, since a broker is busy for some time after its topic is filled
            arena.fill(step)
        return run_steps(steps, arena.measure, services, out, patience)

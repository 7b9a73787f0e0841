"""Goes through a plan of formats, as `comparison.run` does through its own."""

from __future__ import annotations

from pathlib import Path

from benchmarks.bench.comparison.run import Patience, run_steps
from benchmarks.bench.formats.arena import FormatsArena
from benchmarks.bench.formats.plan import FormatsPlan
from integration_tests.services import Services


def run(plan: FormatsPlan, services: Services, out: Path, patience: Patience) -> bool:
    """Block until all is measured. Return whether every run was well."""
    with FormatsArena(services) as arena:
        return run_steps(plan.steps(), arena.measure, services, out, patience)

"""Goes through a plan: waits for a quiet machine, runs, prints and keeps a line for each run."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from benchmarks.bench.comparison import processes
from benchmarks.bench.comparison.arena import Arena
from benchmarks.bench.comparison.plan import Plan, Step
from benchmarks.bench.comparison.results import COLD, LATENCY, WARM, Machine, Measured, Result, line
from benchmarks.bench.comparison.work import System
from integration_tests.services import ServiceError, Services

_LOOK_S: Final = 2.0
_QUIET: Final = 0.1
"""With less than this share of the machine in use, it is quiet."""


@dataclass(frozen=True, slots=True)
class Patience:
    """With a machine that others use as well."""

    retries: int  # of a run that they have disturbed
    wait_quiet_s: float  # before each run, at most


def run(plan: Plan, services: Services, out: Path, patience: Patience) -> bool:
    """Blocks until all is measured; tells whether every run was well. One that fails is told, and the others go on."""
    with Arena(services) as arena:

        def measure(step: Step) -> Measured:
            runs: dict[str, Callable[[System, int], Measured]] = {
                COLD: arena.cold,
                WARM: arena.warm,
                LATENCY: arena.latency,
            }
            return runs[step.kind](step.system, step.rows)

        return run_steps(plan.steps(), measure, services, out, patience)


def run_steps(
    steps: Iterable[Step], measure: Callable[[Step], Measured], services: Services, out: Path, patience: Patience
) -> bool:
    """The same of any steps, each by `measure`, which raises RuntimeError or ServiceError where one fails."""
    well = True
    with out.open("w") as file:

        def keep(entry: Result | Machine) -> None:
            print(text := line(entry), flush=True)
            file.write(f"{text}\n")
            file.flush()

        keep(_machine(services))
        for step in steps:
            result = _undisturbed(measure, step, patience)
            keep(result)
            well = well and not result.error
    return well


def _undisturbed(measure: Callable[[Step], Measured], step: Step, patience: Patience) -> Result:
    """The last of all tries, if none was."""
    for _ in range(patience.retries):
        if not (result := _once(measure, step, patience)).disturbed:
            return result
        _say("disturbed by other processes: once more")
    return _once(measure, step, patience)


def _once(measure: Callable[[Step], Measured], step: Step, patience: Patience) -> Result:
    _await_quiet(patience.wait_quiet_s)
    _say(f"{step.kind}, {step.format}, {step.rows:,} rows, round {step.round}: {step.system.label}")
    name, kind, rows, number = step.system.name, step.kind, step.rows, step.round
    try:
        found = measure(step)
    except (RuntimeError, ServiceError, subprocess.SubprocessError) as error:  # also one that could not be built
        _say(f"failed: {error}")
        return Result(name, kind, rows, number, {}, error=str(error), format=step.format)
    values = {each: round(value, 3) for each, value in found.values.items()}
    return Result(name, kind, rows, number, values, found.disturbed, format=step.format)


def _await_quiet(limit_s: float) -> None:
    """What the last run has left to do would be measured with this one."""
    deadline = time.time() + limit_s
    while time.time() < deadline:
        before, at = processes.busy_s(), time.time()
        time.sleep(_LOOK_S)
        if processes.busy_s() - before < _QUIET * (os.cpu_count() or 1) * (time.time() - at):
            return


def _machine(services: Services) -> Machine:
    return Machine(
        datetime.datetime.now(datetime.UTC).date().isoformat(),
        os.cpu_count() or 1,
        round(psutil.virtual_memory().total / 2**30),
        str(services.kafka),
        str(services.database),
        services.kind,
    )


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)

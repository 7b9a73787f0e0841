"""What a run has found, and the file that keeps all runs: one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

COLD, WARM, LATENCY = "cold", "warm", "latency"
JSON = "json"
KINDS = (COLD, WARM, LATENCY)


class Measured(NamedTuple):
    """Of one run; the names of values tell their units."""

    values: Mapping[str, float]
    disturbed: bool


@dataclass(frozen=True, slots=True)
class Result:
    """One run."""

    system: str
    kind: str  # one of KINDS
    rows: int
    round: int
    values: Mapping[str, float]
    disturbed: bool = False  # others took over a tenth of the machine
    error: str = ""  # then there are no values
    format: str = JSON  # of the records


@dataclass(frozen=True, slots=True)
class Machine:
    """Where the runs were."""

    date: str
    cores: int
    memory_gib: int
    broker: str
    database: str
    kind: str  # of the services


def line(entry: Result | Machine) -> str:
    """One line of the file."""
    name = "machine" if isinstance(entry, Machine) else "run"
    return json.dumps({name: asdict(entry)})


def read(paths: Iterable[Path]) -> tuple[list[Machine], list[Result]]:
    """All of some files. Raises ValueError with the place of a line that is none of ours."""
    machines, results = [], []
    for path in paths:
        for number, text in enumerate(path.read_text().splitlines(), 1):
            try:
                (name, content), *more = json.loads(text).items()
                if name == "machine" and not more:
                    machines.append(Machine(**content))
                elif name == "run" and not more:
                    results.append(Result(**content))
                else:
                    raise ValueError(name)
            except (ValueError, TypeError, AttributeError) as error:
                raise ValueError(f"{path}, line {number}, is not of a comparison: {error}") from None
    return machines, results

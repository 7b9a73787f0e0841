"""The record of how long tests and parts of a run take, from which a run foretells its own time.

`durations.json` has the tests and seconds of each file of tests, and the seconds of each part of `scripts/test`, on two
idle cores. `scripts/test --record` rewrites the entries of what it runs. `long_tests.json` (turns.py) has the durations
of long tests, one by one.

`python -m integration_tests.harness.durations about PART...` prints the sum of some parts' time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

import typer

from integration_tests.harness.turns import Passed, plain_name, read_passed

RECORD: Final = Path(__file__).parents[1] / "durations.json"

_UNKNOWN_S: Final = 1.0  # for a test of a file without a record


@dataclass(frozen=True, slots=True)
class Durations:
    """The durations of files of tests, of long tests and of parts of a run."""

    files: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    """Number of tests, and their seconds together."""
    parts_s: Mapping[str, float] = field(default_factory=dict)
    long: Mapping[str, Passed] = field(default_factory=dict)

    def of_tests(self, names: Collection[str]) -> dict[str, float]:
        """Return the seconds of each of these node ids."""
        return {name: self._of_test(name) for name in names}

    def _of_test(self, name: str) -> float:
        if found := self.long.get(plain_name(name)):
            return found.duration_s
        tests, seconds = self.files.get(_file(name), (0, 0.0))
        return seconds / tests if tests else _UNKNOWN_S


def about(seconds: float) -> str:
    """Return a time as a person says it."""
    if seconds < 60:
        return "less than a minute"
    minutes = math.ceil(seconds / 60)
    return f"about {minutes} minute{'s' if minutes > 1 else ''}"


def read(path: Path = RECORD) -> Durations:
    """Return the record; an empty one without a file."""
    if not path.exists():
        return Durations(long=read_passed())
    found = json.loads(path.read_text())
    files = {name: (int(tests), float(seconds)) for name, (tests, seconds) in found["files"].items()}
    return Durations(files, found["parts_s"], read_passed())


def write_tests(tests_s: Mapping[str, float], path: Path = RECORD) -> None:
    """Replace the entries of the files of these tests, given by node id. Files that are gone are forgotten.

    Long tests have a record of their own, and so do not count here. An entry of more than twice as many tests stays:
    this run has taken a part of the file, such as the tests that are marked `alone`.
    """
    old = read(path)
    files: dict[str, tuple[int, float]] = {}
    for name, seconds in tests_s.items():
        if plain_name(name) not in old.long:
            tests, together = files.get(_file(name), (0, 0.0))
            files[_file(name)] = (tests + 1, together + seconds)
    kept = {name: each for name, each in old.files.items() if (RECORD.parents[1] / name).exists()}
    whole = {name: each for name, each in files.items() if 2 * each[0] >= kept.get(name, each)[0]}
    _write({**kept, **whole}, old.parts_s, path)


def write_part(name: str, seconds: float, path: Path = RECORD) -> None:
    """Replace the seconds of a part."""
    old = read(path)
    _write(old.files, {**old.parts_s, name: seconds}, path)


def _write(files: Mapping[str, tuple[int, float]], parts_s: Mapping[str, float], path: Path) -> None:
    """Write a line for each entry, so that a difference names what has changed."""
    parts = [f"  {json.dumps(name)}: {round(parts_s[name])}" for name in sorted(parts_s)]
    lines = [f"  {json.dumps(name)}: [{files[name][0]}, {files[name][1]:.1f}]" for name in sorted(files)]
    path.write_text('{\n "parts_s": {\n' + ",\n".join(parts) + '\n },\n "files": {\n' + ",\n".join(lines) + "\n }\n}\n")


def _file(name: str) -> str:
    return name.partition("::")[0]


app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@app.command("about")
def print_about(parts: Annotated[list[str], typer.Argument(help="parts of a run")]) -> None:
    """Print how long these parts take together; nothing if one has no record."""
    known = read().parts_s
    if all(part in known for part in parts):
        typer.echo(about(sum(known[part] for part in parts)))


@app.command()
def note(
    part: Annotated[str, typer.Argument(help="a part of a run")],
    seconds: Annotated[float, typer.Argument(help="the time that it took")],
) -> None:
    """Record how long a part took."""
    write_part(part, seconds)


if __name__ == "__main__":
    app()

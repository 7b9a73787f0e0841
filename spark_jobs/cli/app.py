"""The application: its commands, and what happens to an error."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from io import TextIOWrapper
from typing import Annotated, Any, Final

import typer
from typer.main import get_command, get_group

from connectors.spec.composing import PROFILE
from eos.errors import ConnectorError, SpecError
from spark_jobs.cli.options import Debug
from spark_jobs.cli.output import out
from twophase.version import installed_version

app = typer.Typer(
    name="eos",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
FIRST_STEPS: Final = "First steps"
RUN: Final = "Run and watch"
MOVE: Final = "State and rejected records"
REPAIR: Final = "Repair"
"""Groups of commands in `--help`, in their order there."""

_COMMANDS: Final = {
    **dict.fromkeys(("demo", "init", "schema", "connectors", "validate", "doctor", "preview", "explain"), FIRST_STEPS),
    **dict.fromkeys(("run", "submit", "status", "ui", "checkpoint", "pause", "resume", "stop"), RUN),
    **dict.fromkeys(("savepoint", "rescale", "upgrade", "dead-letters"), MOVE),
    **dict.fromkeys(("repair", "reset", "transactions"), REPAIR),
}
"""The group of each command."""

_MODULES: Final = {
    "schema": "init",
    "connectors": "installed",
    "preview": "preview_command",
    "run": "run_command",
    **dict.fromkeys(("checkpoint", "stop"), "requests"),
    **dict.fromkeys(("pause", "resume"), "pausing"),
}
"""Where a command is defined, if not in a module of its name."""


class Commands(Mapping[str, Any]):
    """The commands by name, each imported when it is looked up: all of them take a second of a CPU."""

    def __init__(self, root: typer.Context) -> None:
        self._root = root
        self._found: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._found:
            self._found[name] = _load(name, _COMMANDS[name])
            _hide_types_of_flags(self._found[name], self._root)
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


def _load(name: str, group: str) -> Any:
    """Return the parser of a command."""
    python_name = name.replace("-", "_")
    command = getattr(importlib.import_module(f"spark_jobs.cli.{_MODULES.get(name, python_name)}"), python_name)
    alone = typer.Typer(rich_markup_mode="markdown")
    if isinstance(command, typer.Typer):
        alone.add_typer(command, name=name, rich_help_panel=group)
    else:
        alone.command(rich_help_panel=group)(command)
    return get_group(alone).commands[name]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"eos {installed_version()}")
        raise typer.Exit


@app.callback()
def eos(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    profile: Annotated[
        str,
        typer.Option(metavar="NAME", envvar=PROFILE, show_default=False, help="Profile of the specs, see `profiles`."),
    ] = "",
    debug: Debug = False,
) -> None:
    """Run exactly-once pipelines from Kafka to databases on Spark, from one YAML file.

    Start with `eos init`, which writes a spec. `eos validate SPEC` reports its mistakes and its guarantees. `eos doctor
    SPEC` checks the real services. `eos preview SPEC` shows the first rows. `eos run SPEC` runs it.

    Exit codes: 0 done; 1 a run failed, or a check found a fatal problem; 2 the spec or the command line is wrong.
    """
    if profile:
        os.environ[PROFILE] = profile


def command_line() -> Any:
    """Return the parser of the command line. Its help shows no type for a flag."""
    command: Any = get_command(app)
    command.commands = Commands(_hide_types_of_flags(command, None))
    return command


def _hide_types_of_flags(command: Any, parent: typer.Context | None) -> typer.Context:
    context = typer.Context(command, parent=parent, **command.context_settings)
    for each in command.get_params(context):
        if getattr(each, "is_flag", False):
            each.metavar = ""
    for inner in getattr(command, "commands", {}).values():
        _hide_types_of_flags(inner, context)
    return context


def run_command_line(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code. Errors are printed; what nobody foresaw is raised."""
    try:
        command_line().main(args=list(arguments), prog_name="eos")
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 1 if done.code else 0
    except SpecError as error:
        out.error(error)
        return 2
    except ConnectorError as error:
        out.error(error)
        return 1
    return 0


def main() -> None:
    """The console script `eos`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal of another alphabet is no reason to fail
    sys.excepthook = out.unexpected
    sys.exit(run_command_line(sys.argv[1:]))

"""The application: its commands, and what happens to an error."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from typing import Annotated, Any, Final

import typer
from typer.main import get_command

from connectors.spec.composing import PROFILE
from eos.errors import ConnectorError, SpecError
from spark_jobs.cli.dead_letters import dead_letters
from spark_jobs.cli.demo import demo
from spark_jobs.cli.doctor import doctor
from spark_jobs.cli.explain import explain
from spark_jobs.cli.init import init, schema
from spark_jobs.cli.installed import connectors
from spark_jobs.cli.options import Debug
from spark_jobs.cli.output import out
from spark_jobs.cli.pausing import pause, resume
from spark_jobs.cli.preview_command import preview
from spark_jobs.cli.repair import repair
from spark_jobs.cli.requests import checkpoint, stop
from spark_jobs.cli.rescale import rescale
from spark_jobs.cli.reset import reset
from spark_jobs.cli.run_command import run
from spark_jobs.cli.savepoint import savepoint
from spark_jobs.cli.status import status
from spark_jobs.cli.submit import submit
from spark_jobs.cli.transactions import transactions
from spark_jobs.cli.ui import ui
from spark_jobs.cli.validate import validate
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


def _add(group: str, *commands: Callable[..., None]) -> None:
    for each in commands:
        app.command(rich_help_panel=group)(each)


_add(FIRST_STEPS, demo, init, schema, connectors, validate, doctor, preview, explain)
_add(RUN, run, submit, status, ui, checkpoint, pause, resume, stop)
app.add_typer(savepoint, name="savepoint", rich_help_panel=MOVE)
_add(MOVE, rescale)
app.add_typer(dead_letters, name="dead-letters", rich_help_panel=MOVE)
_add(REPAIR, repair, reset)
app.add_typer(transactions, name="transactions", rich_help_panel=REPAIR)


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
    command = get_command(app)
    _hide_types_of_flags(command, None)
    return command


def _hide_types_of_flags(command: Any, parent: Any) -> None:
    context = typer.Context(command, parent=parent, **command.context_settings)
    for each in command.get_params(context):
        if getattr(each, "is_flag", False):
            each.metavar = ""
    for inner in getattr(command, "commands", {}).values():
        _hide_types_of_flags(inner, context)


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

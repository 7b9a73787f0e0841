"""`eos submit`: runs a spec on a cluster by spark-submit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from connectors.spec import load_spec
from spark_jobs.cli.options import AsJson, Debug, SpecPath
from spark_jobs.cli.output import out
from spark_jobs.cli.page_options import UiHost, UiPort
from spark_jobs.cli.run_command import Ui, UntilCaughtUp
from spark_jobs.session.private_settings import private_file
from twophase.errors import SparkUnavailableError


class DeployMode(StrEnum):
    """Where the driver runs."""

    CLIENT = "client"
    CLUSTER = "cluster"


def submit(
    spec: SpecPath,
    options: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- OPTION...]", show_default=False, help="Options of spark-submit, passed on to it."),
    ] = None,
    master: Annotated[str | None, typer.Option(help="The cluster, where the spec does not name it.")] = None,
    deploy_mode: Annotated[DeployMode, typer.Option(help="Where the driver runs: here, or there.")] = DeployMode.CLIENT,
    environment: Annotated[
        str | None,
        typer.Option(
            metavar="ARCHIVE", help="A packed Python environment for the workers, by venv-pack or conda-pack."
        ),
    ] = None,
    until_caught_up: UntilCaughtUp = False,
    ui: Ui = False,
    ui_host: UiHost = "127.0.0.1",
    ui_port: UiPort = 8080,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the line of spark-submit, and run nothing.")
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Run a pipeline on a cluster, by spark-submit.

    As `eos run` with a cluster as spark.master, and with what only spark-submit can do: it sends a packed environment
    to workers that have no packages (`--environment`), and runs the driver in the cluster (`--deploy-mode cluster`, on
    YARN and Kubernetes). The driver sends the project and the Python modules beside the spec itself.

    Settings come from the spec. What stands behind `--` goes to spark-submit as it is; where it contradicts the spec,
    the driver says so and does not start. Signals end it as they end `eos run`.

    In cluster mode the driver finds the spec, but not this machine: `checkpoint.location` must be a disk that it finds
    again, and variables must be given to its container. What can be seen from here is checked, the rest is said.

    spark-submit takes the settings from a file that no other user can read, so that `ps` shows no secret of them. With
    `--dry-run` the line can be run by hand. What it names is written, and the file has the spec's secrets.

    Exit code: 0 after a clean stop, else that of spark-submit; 2 if the spec or the command line is wrong.

    Examples:

        eos submit orders.yaml --environment environment.tar.gz

        eos submit orders.yaml --master yarn --dry-run -- --queue etl
    """
    from spark_jobs.submit import Request, submission

    loaded = out.load(spec)
    arguments = ["--until-caught-up"] if until_caught_up else []
    arguments += ["--ui", "--ui-host", ui_host, "--ui-port", str(ui_port)] if ui else []
    request = Request(spec, master, deploy_mode.value, environment, tuple(arguments), tuple(options or ()))
    wanted = submission(loaded, request, os.environ, _variables(spec), debug=out.debug)
    wanted.prepare()
    if dry_run:
        wanted.write_settings()
    if dry_run and as_json:
        facts = {
            "command": wanted.command(wanted.settings_file),
            "variables": dict(wanted.variables),
            "folder": wanted.folder,
        }
        out.facts({"ok": True, **facts, "conditions": wanted.conditions})
        return
    for condition in wanted.conditions:
        out.say(f"this must hold: {condition}")
    if dry_run:
        out.say(f"{wanted.settings_file} has the settings, with the spec's secrets: delete it when it is not needed")
        print(out.mask(wanted.line()))
        return
    try:
        if wanted.folder is not None:
            os.chdir(wanted.folder)
        command = wanted.command(private_file(wanted.settings))
        os.execve(wanted.program, command, {**os.environ, **wanted.variables})
    except OSError as error:
        message = f"{wanted.program} does not run: {error.strerror}"
        raise SparkUnavailableError(message, remedy="set SPARK_HOME to an installation of Spark, or unset it") from None


class _Asked(Mapping[str, str]):
    """The environment; remembers what it was asked for."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.names.add(name)
        return os.environ[name]

    def __iter__(self) -> Iterator[str]:
        return iter(os.environ)

    def __len__(self) -> int:
        return len(os.environ)


def _variables(spec: Path) -> frozenset[str]:
    asked = _Asked()
    load_spec(spec, asked)
    return frozenset(asked.names)

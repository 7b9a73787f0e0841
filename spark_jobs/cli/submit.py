"""`eos submit`: runs a spec on a cluster by spark-submit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from connectors.spec import load_spec
from eos.errors import SparkUnavailableError
from spark_jobs.cli.options import AsJson, Debug, SpecPath
from spark_jobs.cli.output import out
from spark_jobs.cli.run_command import Standby, Ui, UntilCaughtUp
from spark_jobs.cli.ui import UiHost, UiPort
from spark_jobs.session.private_settings import private_file


class DeployMode(StrEnum):
    """Where the driver runs."""

    CLIENT = "client"
    CLUSTER = "cluster"


def submit(
    spec: SpecPath,
    options: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- OPTION", show_default=False, help="Options of spark-submit, passed on to it."),
    ] = None,
    master: Annotated[str | None, typer.Option(help="The cluster, if the spec does not name one.")] = None,
    deploy_mode: Annotated[
        DeployMode, typer.Option(help="Where the driver runs: on this machine, or in the cluster.")
    ] = DeployMode.CLIENT,
    environment: Annotated[
        str | None,
        typer.Option(
            metavar="ARCHIVE", help="A packed Python environment for the workers, by venv-pack or conda-pack."
        ),
    ] = None,
    until_caught_up: UntilCaughtUp = False,
    standby: Standby = False,
    ui: Ui = False,
    ui_host: UiHost = "127.0.0.1",
    ui_port: UiPort = 8080,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the spark-submit command line, and run nothing.")
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Run a pipeline on a cluster with spark-submit.

    Like `eos run` with a cluster as spark.master, with two additions that need spark-submit: a packed environment for
    workers without the packages (`--environment`), and a driver in the cluster (`--deploy-mode cluster`, on YARN and
    Kubernetes). The driver itself sends the project and the Python modules beside the spec.

    Settings come from the spec. Options after `--` are passed to spark-submit unchanged. If one contradicts the spec,
    the driver reports it and does not start. Signals end it as they end `eos run`.

    In cluster mode the driver receives the spec, but nothing else of this machine: `checkpoint.location` must be an
    object store, HDFS, or a disk that it finds again, and its container needs the variables. The command checks what it
    can, and prints the other requirements.

    spark-submit reads the settings from a file that no other user can read, so `ps` shows no secret. `--dry-run` prints
    a line that you can run by hand, and writes the files that it names. One of them has the spec's secrets.

    Exit code: 0 after a clean stop, else the exit code of spark-submit; 2 if the spec or the command line is wrong.

    Examples:

        eos submit orders.yaml --environment environment.tar.gz

        eos submit orders.yaml --master yarn --deploy-mode cluster --standby

        eos submit orders.yaml --master yarn --dry-run -- --queue etl
    """
    from spark_jobs.submit import Request, submission

    loaded = out.load(spec)
    arguments = ["--until-caught-up"] if until_caught_up else []
    arguments += ["--standby"] if standby else []
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
        out.say(f"required: {condition}")
    if dry_run:
        out.say(f"{wanted.settings_file} has the settings and the spec's secrets: delete it after use")
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
        value = os.environ[name]
        self.names.add(name)  # not of a variable that is not set: the reference has a default
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(os.environ)

    def __len__(self) -> int:
        return len(os.environ)


def _variables(spec: Path) -> frozenset[str]:
    asked = _Asked()
    load_spec(spec, asked)
    return frozenset(asked.names)

"""The line of `spark-submit`, from a spec and what was asked for."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from connectors.spec import Spec
from spark_jobs.session.java import logging_options
from spark_jobs.session.master import is_loopback
from spark_jobs.session.private_settings import PrivateFile, file_option, names_file, settings_text
from spark_jobs.session.properties import spark_defaults, spark_home_of
from spark_jobs.session.protection import gaps, require
from spark_jobs.submit.refusals import check, conditions, modules
from spark_jobs.submit.request import Request, from_here, master_of, passed_on
from wal.private import make_private

APPLICATION: Final = Path(__file__).resolve().parents[1] / "cli" / "application" / "eos_run.py"
_UNPACKED: Final = "environment"
_PYTHON: Final = f"{_UNPACKED}/bin/python"
"""Of a packed environment, from the folder where the cluster unpacks it."""


@dataclass(frozen=True, slots=True)
class Submission:
    """What is to be run, and where."""

    program: str  # spark-submit
    cluster: tuple[str, ...]  # options that say where
    others: tuple[str, ...]  # options, the application and its arguments
    settings: bytes  # content of a properties file
    settings_file: Path  # for a line that is run by hand
    variables: Mapping[str, str] = field(default_factory=dict)  # beside those that are there
    folder: Path | None = None  # in which to start it, if that matters
    conditions: tuple[str, ...] = ()  # that must hold elsewhere

    def command(self, file: PrivateFile | Path) -> tuple[str, ...]:
        """Return the command that takes its settings from a file."""
        return (self.program, *self.cluster, *file_option(file), *self.others)

    def line(self) -> str:
        """Return the line for a shell, which takes its settings from `settings_file`."""
        before = [f"cd {shlex.quote(str(self.folder))} &&"] if self.folder is not None else []
        variables = (f"{name}={shlex.quote(value)}" for name, value in self.variables.items())
        return " ".join([*before, *variables, shlex.join(self.command(self.settings_file))])

    def write_settings(self) -> None:
        """Write `settings_file`, for this user alone: it has the spec's secrets. Raises OSError."""
        make_private(self.settings_file.parent)
        self.settings_file.unlink(missing_ok=True)  # whoever may read that one
        with os.fdopen(os.open(self.settings_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(self.settings)

    def prepare(self) -> None:
        """Write what the line names, except its settings.

        A driver on this machine plans its sources by the workers' Python, which the cluster unpacks only for workers.
        Under the same path in the driver's folder stands its own.
        """
        if self.folder is not None:
            python = self.folder / _PYTHON
            python.parent.mkdir(parents=True, exist_ok=True)
            python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
            python.chmod(0o755)


def submission(
    spec: Spec, request: Request, environ: Mapping[str, str], variables: frozenset[str], *, debug: bool = False
) -> Submission:
    """What runs this spec. `variables`: those that it names. Raises SpecError for what cannot run."""
    master = master_of(spec, request)
    asked = passed_on(request.options)
    settings = {**spec.spark.conf, **asked}
    check(spec, request, master, settings, variables)
    defaults = {} if names_file(request.options) else spark_defaults(environ)
    require(gaps(master, {**defaults, **settings}), spec.spark)
    conf = dict(spec.spark.conf)
    sent: dict[str, list[str]] = {"--archives": [], "--files": [], "--py-files": []}
    if request.environment is not None:
        conf["spark.pyspark.python"] = _PYTHON
        sent["--archives"].append(f"{_url(request.environment)}#{_UNPACKED}")
    if request.in_cluster:
        if request.environment is not None:
            conf["spark.pyspark.driver.python"] = _PYTHON
        sent["--files"].append(str(request.file.absolute()))
        sent["--py-files"] += map(str, modules(spec))
    else:
        conf.setdefault("spark.pyspark.driver.python", sys.executable)
    content, others = settings_text(conf, from_here(request.options))
    cluster = ("--master", master, "--deploy-mode", request.deploy_mode, "--name", f"eos {spec.pipeline}")
    command = [word for option, files in sent.items() if files for word in (option, ",".join(files))]
    command += [*others, str(APPLICATION)]
    command.append(request.file.name if request.in_cluster else str(request.file.absolute()))
    command += request.arguments
    own = spec.checkpoint.location / "submit"
    program = str(spark_home_of(environ) / "bin" / "spark-submit")
    line = (program, cluster, tuple(command), content)
    if request.in_cluster:  # the location is on another machine
        beside = request.file.absolute().with_suffix(".spark.conf")
        return Submission(*line, beside, conditions=tuple(conditions(spec, request)))
    folder = own if request.environment is not None else None
    return Submission(*line, own / "spark.conf", _for_java(spec, master, environ, debug=debug), folder)


def _for_java(spec: Spec, master: str, environ: Mapping[str, str], *, debug: bool) -> dict[str, str]:
    """As `eos run` gives them to the JVM that it starts. Writes how it logs."""
    options = [environ.get("SPARK_SUBMIT_OPTS", ""), *logging_options(spec.checkpoint.location, debug=debug)]
    variables = {"SPARK_SUBMIT_OPTS": " ".join(filter(None, options))}
    return (
        {**variables, "SPARK_LOCAL_IP": environ.get("SPARK_LOCAL_IP", "127.0.0.1")}
        if is_loopback(master)
        else variables
    )


def _url(place: str) -> str:
    """With a blank in it, Spark would take what stands behind `#` for a part of the path."""
    return place if "://" in place else Path(place).absolute().as_uri()

"""The line of `spark-submit`, from a spec and what was asked for."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from connectors.spec import Spec
from spark_jobs.java import logging_options
from spark_jobs.master import is_loopback
from spark_jobs.submit.refusals import check, conditions, modules
from spark_jobs.submit.request import Request, from_here, master_of, passed_on

APPLICATION: Final = Path(__file__).resolve().parents[1] / "application" / "eos_run.py"
_UNPACKED: Final = "environment"
_PYTHON: Final = f"{_UNPACKED}/bin/python"
"""Of a packed environment, from the folder where the cluster unpacks it."""


@dataclass(frozen=True, slots=True)
class Submission:
    """What is to be run, and where."""

    command: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)  # beside those that are there
    folder: Path | None = None  # in which to start it, if that matters
    conditions: tuple[str, ...] = ()  # that must hold elsewhere

    def line(self) -> str:
        """For a shell."""
        before = [f"cd {shlex.quote(str(self.folder))} &&"] if self.folder is not None else []
        return " ".join(
            [*before, *(f"{k}={shlex.quote(v)}" for k, v in self.variables.items()), shlex.join(self.command)]
        )

    def prepare(self) -> None:
        """Write what the line names.

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
    check(spec, request, master, {**spec.spark.conf, **asked}, variables)
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
    command = [_program(environ), "--master", master, "--deploy-mode", request.deploy_mode]
    command += ["--name", f"eos {spec.pipeline}"]
    command += [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    command += [word for option, files in sent.items() if files for word in (option, ",".join(files))]
    command += [*from_here(request.options), str(APPLICATION)]
    command.append(request.file.name if request.in_cluster else str(request.file.absolute()))
    command += request.arguments
    if request.in_cluster:
        return Submission(tuple(command), conditions=tuple(conditions(spec, request)))
    folder = spec.checkpoint.location / "submit" if request.environment is not None else None
    return Submission(tuple(command), _for_java(spec, master, environ, debug=debug), folder)


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


def _program(environ: Mapping[str, str]) -> str:
    """Of the installation that the user has chosen, else of PySpark's package."""
    home = environ.get("SPARK_HOME") or str(Path(str(getattr(find_spec("pyspark"), "origin", ""))).parent)
    return str(Path(home, "bin", "spark-submit"))

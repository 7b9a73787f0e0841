"""The line of `spark-submit`, from a spec and what was asked for.

What cannot work is refused before anything is sent.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from connectors.spec import Spec
from eos.errors import SpecError
from spark_jobs.session.java import logging_options
from spark_jobs.session.master import is_local, is_loopback
from spark_jobs.session.private_settings import PrivateFile, file_option, names_file, settings_text
from spark_jobs.session.properties import spark_defaults, spark_home_of
from spark_jobs.session.protection import gaps, require
from spark_jobs.session.settings import redaction
from spark_jobs.submit.request import Request, from_here, master_of, passed_on
from wal.private import make_private

APPLICATION: Final = Path(__file__).resolve().parents[1] / "cli" / "application" / "eos_run.py"
_UNPACKED: Final = "environment"
_PYTHON: Final = f"{_UNPACKED}/bin/python"
"""Of a packed environment, from the folder where the cluster unpacks it."""
_VARIABLE: Final = ("spark.kubernetes.driver.secretKeyRef.", "spark.kubernetes.driverEnv.", "spark.yarn.appMasterEnv.")
"""Settings that give the driver's container a variable."""
_MOUNT: Final = re.compile(
    r"spark\.kubernetes\.driver\.volumes\.(?:persistentVolumeClaim|hostPath)\.[^.]+\.mount\.path"
)
_FOR_IMAGES: Final = ("spark.kubernetes.container.image", "spark.kubernetes.file.upload.path")


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
            make_private(python.parent)
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
    conf = dict(spec.spark.conf) | redaction(spec, variables)  # YARN logs the variables of containers
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
    own = spec.checkpoint.folder / "submit"
    program = str(spark_home_of(environ) / "bin" / "spark-submit")
    line = (program, cluster, tuple(command), content)
    if request.in_cluster:  # the location is on another machine
        beside = request.file.absolute().with_suffix(".spark.conf")
        return Submission(*line, beside, conditions=tuple(conditions(spec, request)))
    folder = own if request.environment is not None else None
    return Submission(*line, own / "spark.conf", _for_java(spec, master, environ, debug=debug), folder)


def _for_java(spec: Spec, master: str, environ: Mapping[str, str], *, debug: bool) -> dict[str, str]:
    """As `eos run` gives them to the JVM that it starts. Writes how it logs."""
    options = [environ.get("SPARK_SUBMIT_OPTS", ""), *logging_options(spec.checkpoint.folder, debug=debug)]
    variables = {"SPARK_SUBMIT_OPTS": " ".join(filter(None, options))}
    return (
        {**variables, "SPARK_LOCAL_IP": environ.get("SPARK_LOCAL_IP", "127.0.0.1")}
        if is_loopback(master)
        else variables
    )


def _url(place: str) -> str:
    """With a blank in it, Spark would take what stands behind `#` for a part of the path."""
    return place if "://" in place else Path(place).absolute().as_uri()


def check(spec: Spec, request: Request, master: str, conf: Mapping[str, str], variables: frozenset[str]) -> None:
    """Raise SpecError. `variables`: those that the spec names as `${env:…}`; `conf`: all settings that are sent."""
    if not spec.sources:
        message = f"{request.file} names no sources"
        raise SpecError(message, remedy="it is for a job of your own, by ExactlyOnce: submit that job")
    if is_local(master):
        raise SpecError(f"{master} is this machine, no cluster", remedy="use `eos run`, or name a cluster")
    if request.environment and "spark.pyspark.python" in conf:
        message = (
            f"--environment brings the workers' Python, and spark.pyspark.python is {conf['spark.pyspark.python']}"
        )
        raise SpecError(message, remedy="take one of them out")
    if request.environment and "://" not in request.environment and not Path(request.environment).is_file():
        message = f"{request.environment} is not there"
        raise SpecError(message, remedy="pack an environment first, as in: venv-pack -o environment.tar.gz")
    if request.in_cluster:
        _check_cluster_mode(spec, master, conf, variables)


def _check_cluster_mode(spec: Spec, master: str, conf: Mapping[str, str], variables: frozenset[str]) -> None:
    location = spec.checkpoint.folder
    if spec.included:
        files = ", ".join(map(str, spec.included))
        message = f"the driver in the cluster gets the spec, and not what it includes: {files}"
        raise SpecError(message, remedy="write the spec as one file, or run the driver here: --deploy-mode client")
    if master.startswith("spark://"):
        message = f"{master}: Spark's standalone cluster runs no Python driver of its own"
        raise SpecError(message, remedy="leave out --deploy-mode cluster: the driver runs here")
    if location.is_relative_to(spec.folder) and not spec.checkpoint.is_scratch:
        message = f"checkpoint.location ({location}) is in the spec's folder, which is the driver's container there"
        raise SpecError(message, remedy="give an absolute path on a disk that outlives the driver")
    if master.startswith("k8s://"):
        _check_kubernetes(spec, conf)
    missing = sorted(name for name in variables if not any(f"{prefix}{name}" in conf for prefix in _VARIABLE))
    if missing:
        prefix = _VARIABLE[0 if master.startswith("k8s://") else 2]
        value = "SECRET:KEY" if master.startswith("k8s://") else "VALUE"
        message = f"the driver will not have {', '.join(missing)}, which the spec names"
        remedy = f"give --conf {prefix}{missing[0]}={value}, best in a file, by --properties-file"
        raise SpecError(message, remedy=remedy)
    packages = [path.name for path in _beside(spec) if path.is_dir()]
    if packages:
        message = f"{', '.join(packages)} beside the spec: a package cannot be sent to the driver so"
        raise SpecError(message, remedy="install it into the environment, or write its steps as single modules")


def _check_kubernetes(spec: Spec, conf: Mapping[str, str]) -> None:
    absent = [key for key in _FOR_IMAGES if key not in conf]
    if absent:
        message = f"Kubernetes needs {' and '.join(absent)}"
        raise SpecError(
            message, remedy=f"give --conf {absent[0]}=…, or let the image run `eos run`: docs/how-to/deploying.md"
        )
    location = spec.checkpoint.folder
    mounts = [Path(path) for key, path in conf.items() if _MOUNT.fullmatch(key)]
    if not spec.checkpoint.is_scratch and not any(location.is_relative_to(mount) for mount in mounts):
        message = f"checkpoint.location ({location}) is on no volume of the driver's, and would be gone with its pod"
        remedy = "mount a claim there: --conf spark.kubernetes.driver.volumes.persistentVolumeClaim.NAME.mount.path=…"
        raise SpecError(message, remedy=remedy)


def modules(spec: Spec) -> list[Path]:
    """Single modules beside the spec, where a step may need them."""
    return [path for path in _beside(spec) if path.is_file()]


def _beside(spec: Spec) -> list[Path]:
    if not spec.has_python_steps:
        return []
    from spark_jobs.session.shipping import beside  # imports Spark

    return [path for path, _ in beside(spec.folder)]


def conditions(spec: Spec, request: Request) -> Iterator[str]:
    """What must hold in cluster mode, for the one who submits."""
    if not spec.checkpoint.is_scratch:
        yield (
            f"{spec.checkpoint.folder} is the same local disk wherever the driver starts: a claim on Kubernetes, on "
            "YARN one node (spark.yarn.am.nodeLabelExpression)"
        )
    yield "files that the spec names, such as ${file:…}, are there, under the same paths"
    if request.environment is None:
        yield "the Python of the driver and of the workers has the package eos-spark"
    else:
        yield f"{request.environment} has the package eos-spark"

"""What was asked for on the command line of `eos submit`, and the settings that come of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from connectors.spec import Spec
from eos.errors import SpecError
from spark_jobs.session.properties import read_properties

_OWN: Final = ("--master", "--deploy-mode", "--name", "--archives", "--files", "--py-files", "--class")
"""Options of spark-submit that are written here; it takes the last of two."""
_PATHS: Final = {
    "--properties-file": "\0",
    "--keytab": "\0",
    "--jars": ",",
    "--driver-class-path": ":",
    "--driver-library-path": ":",
}
"""Options that name files, and what stands between two: nothing between those that name one."""


@dataclass(frozen=True, slots=True)
class Request:
    """A spec's file, and how it is to run."""

    file: Path
    master: str | None = None
    deploy_mode: Literal["client", "cluster"] = "client"
    environment: str | None = None  # a packed Python environment: a path, or a URL that the cluster can read
    arguments: tuple[str, ...] = ()  # for `eos run`, behind the spec
    options: tuple[str, ...] = ()  # of spark-submit's, passed on

    @property
    def in_cluster(self) -> bool:
        """Whether the driver runs there, too."""
        return self.deploy_mode == "cluster"


def master_of(spec: Spec, request: Request) -> str:
    """Where tasks run. Raises SpecError where nobody says so, or two say different things."""
    if "master" in spec.spark.model_fields_set:
        if request.master not in (None, spec.spark.master):
            message = f"spark.master is {spec.spark.master} in the spec, and --master is {request.master}"
            raise SpecError(message, remedy="take one of them out")
        return spec.spark.master
    if request.master is None:
        message = "neither the spec nor the command line names a cluster"
        raise SpecError(message, remedy="give --master, or spark.master in the spec, such as spark://host:7077 or yarn")
    return request.master


def passed_on(options: tuple[str, ...]) -> dict[str, str]:
    """Settings of Spark's among the options that are passed on, those of a properties file too.

    Raises SpecError for options that `eos submit` writes itself.
    """
    settings: dict[str, str] = {}
    for name, value in _pairs(options):
        if name in _OWN:
            raise SpecError(f"`eos submit` writes {name} itself", remedy="see eos submit --help for what says it there")
        if name == "--properties-file":
            settings |= read_properties(Path(value))
        elif name in ("--conf", "-c"):
            key, _, text = value.partition("=")
            settings[key] = text
    return settings


def from_here(options: tuple[str, ...]) -> Iterator[str]:
    """The options, with absolute paths: spark-submit may be started in another folder than `eos submit`."""
    for before, option in zip(("", *options), options, strict=False):
        name, sign, value = option.partition("=")
        if before in _PATHS:
            yield _absolute(option, _PATHS[before])
        elif sign and name in _PATHS:
            yield f"{name}={_absolute(value, _PATHS[name])}"
        else:
            yield option


def _absolute(places: str, between: str) -> str:
    return between.join(
        each if "://" in each or not each else str(Path(each).absolute()) for each in places.split(between)
    )


def _pairs(options: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Every option, with what stands behind it: `--name value` or `--name=value`."""
    for at, option in enumerate(options):
        name, sign, value = option.partition("=")
        if option.startswith("--") and sign:
            yield name, value
        elif option.startswith("-"):
            yield option, options[at + 1] if at + 1 < len(options) else ""

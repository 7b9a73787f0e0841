"""A driver that `spark-submit` has started: its JVM runs already, with a master and settings of its own.

`eos run` starts a JVM for its spec. Started the other way round, what the JVM was given holds, and the spec must not
say otherwise: Spark would take one of the two, and nobody would hear of the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from pyspark import SparkConf, SparkContext

from connectors.api.masking import MASK, is_secret_name
from connectors.spec import Spec
from eos.errors import SpecError
from spark_jobs.session.settings import REDACTED, REQUIRED, state_settings

_AT_LAUNCH: Final = frozenset(
    {
        "spark.driver.defaultJavaOptions",
        "spark.driver.extraClassPath",
        "spark.driver.extraJavaOptions",
        "spark.driver.extraLibraryPath",
        "spark.driver.memory",
        "spark.jars.excludes",
        "spark.jars.ivy",
        "spark.jars.packages",
        "spark.jars.repositories",
    }
)
"""What a JVM takes when it starts, and no later."""
_EXTENDED: Final = "spark.executorEnv.PYTHONPATH"
"""Behind its value, `spark-submit` puts PySpark's own archives on YARN, each behind this mark (`yarn.Client`)."""
_MARK: Final = "<CPS>"


def is_submitted(environ: Mapping[str, str]) -> bool:
    """Whether this process belongs to a JVM that `spark-submit` has started. Says so at once, without Spark."""
    return "PYSPARK_GATEWAY_PORT" in environ


def given_settings() -> dict[str, str]:
    """What the JVM was given: by the command line, a properties file, spark-defaults.conf. Connects to it."""
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def settle(spec: Spec, given: Mapping[str, str], folder: Path) -> Spec:
    """The spec with the master and the settings that hold. `folder`: where the driver was started.

    Raises SpecError with everything that the spec or the protocol wants otherwise.
    """
    problems = [*_contradictions(spec, given), *_misplaced(spec, given, folder)]
    if problems:
        message = "settings of spark-submit do not fit:\n" + "\n".join(f"- {problem}" for problem in problems)
        raise SpecError(message, remedy="change one of the two; `eos submit --dry-run` prints a line that fits")
    conf = {**given, **{key: wanted for key, wanted in spec.spark.conf.items() if not _is_extended(key, wanted, given)}}
    spark = spec.spark.model_copy(update={"master": conf.pop("spark.master", spec.spark.master), "conf": conf})
    return spec.model_copy(update={"spark": spark})


def _contradictions(spec: Spec, given: Mapping[str, str]) -> Iterator[str]:
    master = given.get("spark.master", spec.spark.master)
    if "master" in spec.spark.model_fields_set and spec.spark.master != master:
        yield f"spark.master is {spec.spark.master} in the spec, and {master} for spark-submit"
    for key, wanted in spec.spark.conf.items():
        if key == REDACTED:
            continue  # `eos submit` has given this expression and others
        if key in given and given[key] != wanted and not _is_extended(key, wanted, given):
            there = MASK if _is_secret(key, wanted, spec) else given[key]
            yield f"{key} is {wanted} in the spec, and {there} for spark-submit or in spark-defaults.conf"
        elif key not in given and key in _AT_LAUNCH:
            yield f"{key} is {wanted} in the spec, which only spark-submit can set: --conf {key}={wanted}"
    for key, wanted in REQUIRED.items():
        if given.get(key, wanted) != wanted:
            yield f"{key} is {given[key]}, and exactly-once needs --conf {key}={wanted}"
    for key, wanted in state_settings(spec).items() if spec.has_backend else ():
        if given.get(key, wanted) != wanted:
            yield f"{key} is {given[key]}, and state.backend: {spec.state.backend} needs --conf {key}={wanted}"


def _is_secret(key: str, wanted: str, spec: Spec) -> bool:
    """Whether the value of a setting is a secret, in the spec or elsewhere."""
    return is_secret_name(key) or spec.mask(wanted) != wanted


def _is_extended(key: str, wanted: str, given: Mapping[str, str]) -> bool:
    return key == _EXTENDED and given.get(key, "").startswith(f"{wanted}{_MARK}")


def _misplaced(spec: Spec, given: Mapping[str, str], folder: Path) -> Iterator[str]:
    location = spec.checkpoint.folder
    if is_cluster_mode(given) and location.is_relative_to(folder) and not spec.checkpoint.is_scratch:
        yield f"checkpoint.location is {location}, inside the driver's container, and would be gone with it"


def is_cluster_mode(given: Mapping[str, str]) -> bool:
    """Whether the driver runs in a container of the cluster's. On Kubernetes it then calls itself a client."""
    return given.get("spark.submit.deployMode") == "cluster" or given.get("spark.kubernetes.submitInDriver") == "true"

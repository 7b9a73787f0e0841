"""Jars from Maven, resolved by the Ivy that comes with Spark and kept in a folder of the user's."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from integration_tests.services.state import exclusive, tail
from integration_tests.services.values import ServiceError


def cache_folder() -> Path:
    """What was fetched once and is used again, by every work tree of this user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "eos-spark"


def resolved(name: str, packages: Sequence[str], log: Path, without: Sequence[str] = ()) -> list[Path]:
    """The jars of these packages (`group:artifact:version`) and of what they need, but for what Spark itself brings.

    Blocks for a minute the first time; then they lie in the folder `name` of the cache. Raises ServiceError.
    `without`: packages (`group:artifact`) that are left out.
    """
    cache = cache_folder() / name
    complete = cache / "complete"
    with exclusive(cache / "lock"):
        if not complete.exists():
            _resolve(cache, packages, log, without)
            complete.touch()
    return sorted((cache / "jars").glob("*.jar"))


def spark_home() -> Path:
    """Of the Spark in this environment."""
    # Not by importing it: PySpark takes a second to load, and only its folder is wanted.
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise ServiceError("pyspark is not installed; run scripts/setup")
    return Path(found.origin).parent


def _resolve(ivy: Path, packages: Sequence[str], log: Path, without: Sequence[str]) -> None:
    # spark-submit resolves packages before it runs the main class; this one only prints Scala's version.
    command = [
        str(spark_home() / "bin" / "spark-submit"),
        *("--conf", f"spark.jars.ivy={ivy}"),
        *("--packages", ",".join(packages)),
        *(("--exclude-packages", ",".join(without)) if without else ()),
        *("--class", "scala.util.Properties", "spark-internal"),
    ]
    environment = {**os.environ, "SPARK_HOME": str(spark_home()), "PYSPARK_PYTHON": sys.executable}
    with log.open("wb") as output:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, check=False
        )
    # Ivy names a jar <group>_<artifact>-<version>.jar.
    wanted = ["{}_{}-{}.jar".format(*package.split(":")) for package in packages]
    if done.returncode != 0 or not all((ivy / "jars" / jar).exists() for jar in wanted):
        raise ServiceError(
            f"{', '.join(packages)} could not be fetched from Maven Central ({log}):\n{tail(log)}\n"
            "  Is the network there? A mirror can be named in Spark's spark.jars.ivySettings (spark-defaults.conf)."
        )

"""Kafka's jars from Maven, resolved by the Ivy that comes with Spark and kept in a folder of the user's."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from integration_tests.services.state import State, exclusive, tail
from integration_tests.services.values import ServiceError

KAFKA_VERSION = "4.3.0"
_PACKAGE = f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}"


def classpath(state: State) -> str:
    """Return the class path of a broker that logs through Spark's log4j."""
    jars = sorted(
        jar
        for jar in _resolved(state).glob("*.jar")
        # An older SLF4J, which finds no logging and so would leave a broker without a log.
        if not jar.name.startswith("org.slf4j_")
    )
    # Spark's resolver leaves Scala out, since Spark itself brings it.
    borrowed = [
        jar
        for prefix in ("scala-library-", "slf4j-api-", "log4j-slf4j2-impl-", "log4j-api-", "log4j-core-")
        for jar in sorted((_spark_home() / "jars").glob(f"{prefix}*.jar"))
    ]
    return ":".join(str(jar) for jar in [*jars, *borrowed])


def _resolved(state: State) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "eos-spark" / f"kafka-{KAFKA_VERSION}"
    complete = cache / "complete"
    with exclusive(cache / "lock"):
        if not complete.exists():
            _resolve(cache, state.log("jars"))
            complete.touch()
    return cache / "jars"


def _resolve(ivy: Path, log: Path) -> None:
    # spark-submit resolves packages before it runs the main class; this one only prints Scala's version.
    command = [
        str(_spark_home() / "bin" / "spark-submit"),
        *("--conf", f"spark.jars.ivy={ivy}"),
        *("--packages", _PACKAGE),
        *("--class", "scala.util.Properties", "spark-internal"),
    ]
    environment = {**os.environ, "SPARK_HOME": str(_spark_home()), "PYSPARK_PYTHON": sys.executable}
    with log.open("wb") as output:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, check=False
        )
    if done.returncode != 0 or not list((ivy / "jars").glob("org.apache.kafka_kafka_2.13-*.jar")):
        raise ServiceError(
            f"{_PACKAGE} could not be fetched from Maven Central ({log}):\n{tail(log)}\n"
            "  Is the network there? A mirror can be named in Spark's spark.jars.ivySettings (spark-defaults.conf)."
        )


def _spark_home() -> Path:
    # Not by importing it: PySpark takes a second to load, and only its folder is wanted.
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise ServiceError("pyspark is not installed; run scripts/setup")
    return Path(found.origin).parent

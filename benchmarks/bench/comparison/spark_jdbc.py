"""Spark without this project: its own Kafka source, and `foreachBatch` with its own JDBC writer.

It is a Spark of its own, in a cache: the newest whose Kafka source Maven Central has.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.bench.comparison.work import RECORDS_AT_ONCE, TABLE, Launch, System, Work, planned_at
from integration_tests.services.maven_jars import cache_folder, resolved
from integration_tests.services.state import State, exclusive
from integration_tests.services.values import ServiceError

VERSION: Final = "4.2.0"
_PACKAGES: Final = (f"org.apache.spark:spark-sql-kafka-0-10_2.13:{VERSION}", "com.mysql:mysql-connector-j:9.7.0")
_JOB: Final = Path(__file__).parent / "spark_jdbc_job.py"


def systems() -> list[System]:
    """The one that there is."""
    return [System("spark-jdbc", "Spark, foreachBatch JDBC", "at-least-once", _prepare)]


def _prepare(work: Work) -> Launch:
    home = _spark()
    jars = resolved(f"spark-{VERSION}", _PACKAGES, State("bench").log("spark-jars"))
    url, checkpoint = work.url, work.folder / "checkpoint"
    jdbc = f"jdbc:mysql://{url.host}:{url.port or 3306}/{url.database}"
    command = [
        *(str(home / "bin" / "spark-submit"), "--master", "local[2]", "--driver-memory", "3g"),
        *("--jars", ",".join(map(str, jars)), "--conf", "spark.log.level=WARN"),
        *(str(_JOB), work.bootstrap, work.topic, jdbc, url.username or "", str(url.password or ""), TABLE),
        *(str(checkpoint), "" if work.live else str(RECORDS_AT_ONCE)),
    ]
    environment = {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    return Launch(command, partial(planned_at, checkpoint), environment)


def _spark() -> Path:
    """Its home; fetched the first time, which takes a minute."""
    folder = cache_folder() / f"spark-{VERSION}"
    home, complete = folder / "python" / "pyspark", folder / "installed"
    with exclusive(folder / "lock-python"):
        if not complete.exists():
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
            target = ["--target", str(folder / "python"), f"pyspark=={VERSION}"]
            done = subprocess.run([*command, *target], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise ServiceError(f"pyspark {VERSION} could not be installed:\n{done.stderr[-2000:]}")
            complete.touch()
    return home

"""One cell of the matrix, in the interpreter of its environment: python -m integration_tests.compatibility.cell WAY.

The services are given by EOS_TEST_KAFKA and EOS_TEST_DATABASE. The last line is the result as JSON. Each way moves
records from a topic into a table of the database, is killed in the middle (SIGKILL to the driver and all that it has
started), and is started once more. It passes if each record is in the table exactly once, and nothing stays prepared.
"""

from __future__ import annotations

import json
import secrets
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pyspark

from integration_tests import databases, topics
from integration_tests.harness.jobs import Jobs
from integration_tests.harness.kills import Kill, kill_at_each
from integration_tests.harness.oracle import SinkTable, compare
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, Pipeline
from integration_tests.harness.pipeline_process import PROJECT
from integration_tests.harness.workload import Workload
from integration_tests.services import Services, obtain
from integration_tests.services.maven_jars import resolved
from spark_jobs.session.versions import parsed
from twophase.local_head import LocalHead
from twophase.status import read_status

RECORDS: Final = 10 * CHECKPOINT_RECORDS
_KILLS: Final = (Kill("before-decide@1", 1, (2,)), Kill("between-commits@3", 3.5, (1,)))
_JOB: Final = PROJECT / "integration_tests" / "jobs" / "spark_kafka.py"
_CONNECTORS: Final = {
    (3, 5): "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.7",
    (4, 0): "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
    (4, 1): "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1",
    (4, 2): "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
}
"""Kafka sources of Spark. For a version without one the job reads by `eos_kafka`."""


@dataclass(frozen=True, slots=True)
class World:
    """The services, a topic with records, an empty database and a folder."""

    services: Services
    folder: Path
    topic: str
    database: str


def run_yaml(world: World) -> int:
    """`eos run`: killed at four points of its checkpoints, then run until caught up."""
    with Pipeline(world.folder, world.services.kafka_bootstrap, world.topic, world.database) as pipeline:
        pipeline.table.create()
        pipeline.workload.produce(RECORDS)
        kill_at_each(pipeline, _KILLS)
        pipeline.catch_up()
        pipeline.assert_exact(at_least=RECORDS)
        assert pipeline.head.epoch == len(_KILLS) + 1
        return pipeline.verdict().in_sink


def run_job(world: World, sink: str) -> int:
    """A job of one's own, killed at two points of its checkpoints."""
    table = SinkTable(world.database, "records")
    table.create()
    workload = Workload(world.services.kafka_bootstrap, world.topic, PARTITIONS)
    workload.produce(RECORDS)
    jobs = Jobs(world.folder, world.database)
    package = _CONNECTORS.get(parsed(pyspark.__version__))
    if package is not None:
        jars = resolved(package.replace(":", "-"), [package], world.folder / "jars.log")
        jobs.environment["PYSPARK_SUBMIT_ARGS"] = f"--jars {','.join(map(str, jars))} pyspark-shell"
    arguments = (world.services.kafka_bootstrap, world.topic, "kafka" if package else "eos_kafka", sink)
    try:
        for kill in _KILLS:
            process = jobs.start(_JOB, *arguments, arm=[kill.stem])
            process.await_point(kill.stem)
            verdict = compare(workload.expected, table.rows())
            assert verdict.clean, f"{kill}: {verdict}"
            assert verdict.in_sink == kill.checkpoints * CHECKPOINT_RECORDS, f"{kill}: {verdict}"
            process.kill()
        jobs.start(_JOB, *arguments).succeed()
    finally:
        jobs.close()
    verdict = compare(workload.expected, table.rows())
    assert verdict.exact, str(verdict)
    found = read_status(LocalHead(world.folder / "checkpoints" / "copy-files"))
    assert found is not None
    assert table.prepared(found.head.incarnation) == []
    return verdict.in_sink


WAYS: Final[dict[str, Callable[[World], int]]] = {
    "eos run": run_yaml,
    "foreachBatch": partial(run_job, sink="foreachBatch"),
    "format eos": partial(run_job, sink="eos"),
}
"""By name, functions that return how many rows are in the table at the end."""


def main(way: str) -> int:
    """Run a way, and print its result."""
    services = obtain()
    name = f"eos_{secrets.token_hex(5)}"
    databases.share_tls_context()
    databases.create(services, name)
    topics.create(services.kafka_bootstrap, name, PARTITIONS, {})
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="eos-matrix-") as folder:
        world = World(services, Path(folder), name, f"{services.database_url.rstrip('/')}/{name}")
        rows = WAYS[way](world)
    seconds = round(time.monotonic() - began, 1)
    databases.drop(services, name)
    topics.delete(services.kafka_bootstrap, [name])
    python = ".".join(map(str, sys.version_info[:3]))
    print(json.dumps({"pyspark": pyspark.__version__, "python": python, "way": way, "rows": rows, "seconds": seconds}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

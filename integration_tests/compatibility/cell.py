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
from pathlib import Path
from typing import Final

import pyspark

from integration_tests import databases, topics
from integration_tests.harness.kills import Kill, kill_at_each
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, Pipeline
from integration_tests.harness.pipeline_process import PROJECT
from integration_tests.services import Services, obtain

RECORDS: Final = 10 * CHECKPOINT_RECORDS
_KILLS: Final = (
    Kill("prepared@0", 0, (1, 2)),
    Kill("after-decide@0", 0, (2,)),
    Kill("between-commits@0", 0.5, (1,)),
    Kill("before-decide@3", 3, (2,)),
)
_JOBS: Final = PROJECT / "integration_tests" / "jobs"
_COUNTED: Final = "SELECT max(id) AS id, word, CAST(count(*) AS STRING) AS payload FROM incoming GROUP BY word"


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


WAYS: Final[dict[str, Callable[[World], int]]] = {"eos run": run_yaml}
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

"""Golden checkpoint locations: each written once, by the version that changed a format, and read by all that follow.

`python -m integration_tests.golden NAME` writes `tests/golden/NAME`, from a run on Kafka that is killed between a
decision and its commit: head, records, Spark's checkpoint with state, segments that wait, and the sink, a SQLite file.
It refuses a name that exists: an old location is never written over, since users have locations like it.
"""

from __future__ import annotations

import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Final

from integration_tests import topics
from integration_tests.harness.pipeline import CHECKPOINT_RECORDS, PARTITIONS, TABLE, Pipeline
from integration_tests.harness.pipeline_process import PROJECT
from integration_tests.services import obtain

LOCATIONS: Final = {
    "location": "row digests of method 1, all segments in one folder",
    "location-2": "row digests of method 2, records with the version that wrote them",
}
"""Folder of tests/golden -> what tells it from the others."""
TOPIC: Final = "eos-golden"
RECORDS: Final = 3 * CHECKPOINT_RECORDS
LAST: Final = 2
"""The checkpoint that is decided and not committed."""

_GOLDEN: Final = PROJECT / "tests" / "golden"
_KEPT: Final = ("head", "records", "spark", "log")
_SINK: Final = "sink.db"


class GoldenPipeline(Pipeline):
    """Counts records by word; each checkpoint has a row for each word, with the number so far."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        super().__init__(folder, bootstrap, TOPIC, "sqlite://")
        counted = "SELECT max(id) AS id, word, CAST(count(*) AS STRING) AS payload FROM incoming GROUP BY word"
        self.spec["transforms"] = [{"name": "rows", "sql": counted, "output_mode": "update"}]
        self.spec["spark"]["conf"] = {"spark.sql.shuffle.partitions": 2}
        sink = {"name": "warehouse", "connector": "sqlite", "from": "rows", "path": _SINK, "table": TABLE}
        self.spec["sinks"] = [{**sink, "commit": "write-ahead-log"}]

    def counts(self) -> list[tuple[str, int]]:
        """Word and count of each row in the sink."""
        with closing(sqlite3.connect(self.folder / _SINK)) as sink:
            return sink.execute(f"SELECT word, CAST(payload AS INTEGER) FROM {TABLE}").fetchall()

    def create(self) -> None:
        """The sink's table."""
        with closing(sqlite3.connect(self.folder / _SINK)) as sink:
            sink.execute(f"CREATE TABLE {TABLE} (id INTEGER, word TEXT, payload TEXT)")

    def put(self, name: str) -> None:
        """Copy the golden location of this name, and its sink, into this pipeline's folder."""
        shutil.copytree(_GOLDEN / name, self.location)
        (self.location / _SINK).rename(self.folder / _SINK)

    def keep(self, name: str) -> None:
        """Copy this pipeline's location and sink to the golden location of this name, which must not exist."""
        for part in _KEPT:
            shutil.copytree(self.location / part, _GOLDEN / name / part)
        shutil.copy(self.folder / _SINK, _GOLDEN / name)

    def close(self) -> None:
        """See Pipeline. SQLite holds nothing prepared."""
        for process in self.processes:
            process.kill()


def main() -> None:
    """Write one."""
    (name,) = sys.argv[1:] or [""]
    if name not in LOCATIONS or (_GOLDEN / name).exists():
        sys.exit(f"name a golden location of LOCATIONS that does not exist yet, not {name!r}")
    services = obtain("native")
    topics.create(services.kafka_bootstrap, TOPIC, PARTITIONS, {})
    try:
        with tempfile.TemporaryDirectory() as folder, GoldenPipeline(Path(folder), services.kafka_bootstrap) as made:
            made.create()
            made.workload.produce(RECORDS)
            process = made.start(arm=[f"after-decide@{LAST}"])
            process.await_point(f"after-decide@{LAST}")
            process.kill()
            made.keep(name)
    finally:
        topics.delete(services.kafka_bootstrap, [TOPIC])


if __name__ == "__main__":
    main()

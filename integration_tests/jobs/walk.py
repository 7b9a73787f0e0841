"""A job of two batches into SQLite, which prints the functions of this project in the order in which they first ran.

python -m integration_tests.jobs.walk FOLDER: one line for each function, `depth module:function`. A
generator counts when it first runs. `depth`: frames of this project below and with it.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

from pyspark.sql import SparkSession

from eos import ExactlyOnce

_ROOT = Path(__file__).resolve().parents[2]
_OURS = ("eos", "wal", "twophase", "connectors", "spark_jobs")
_SPEC = """
pipeline: walk
checkpoint: {location: head}
sinks:
  - {name: rows, connector: sqlite, path: rows.sqlite, table: rows, commit: write-ahead-log}
"""


class Walk:
    """The functions that ran, each once, with the depth of their first call."""

    def __init__(self) -> None:
        self.steps: dict[str, int] = {}
        self._modules: dict[str, str | None] = {}

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Python calls this for each call in a thread that is watched."""
        if event == "call" and (name := self._name(frame)) is not None and name not in self.steps:
            depth, below = 1, frame.f_back
            while below is not None:
                depth += self._name(below) is not None
                below = below.f_back
            self.steps[name] = depth

    def _name(self, frame: FrameType) -> str | None:
        code = frame.f_code
        if code.co_filename not in self._modules:
            path = Path(code.co_filename)
            ours = path.is_relative_to(_ROOT) and path.relative_to(_ROOT).parts[0] in _OURS
            self._modules[code.co_filename] = ".".join(path.relative_to(_ROOT).with_suffix("").parts) if ours else None
        module = self._modules[code.co_filename]
        return f"{module}:{code.co_qualname}" if module is not None else None


def main(folder: Path) -> None:
    """Two batches of ten rows, of which the first one starts the pipeline."""
    os.chdir(folder)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    Path("sink.yaml").write_text(_SPEC)
    with sqlite3.connect("rows.sqlite") as database:
        database.execute("CREATE TABLE rows (id INTEGER)")
    walk = Walk()
    threading.setprofile(walk)  # of threads that begin from here on: the one in which Spark calls back
    spark = SparkSession.builder.master("local[1]").config("spark.authenticate", "true").getOrCreate()
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    once = ExactlyOnce("sink.yaml")
    batches: list[int] = []

    def write(frame: Any, number: int) -> None:
        once(frame, number)
        batches.append(number)

    query = (
        source.selectExpr("value AS id").writeStream.foreachBatch(write).option("checkpointLocation", "spark").start()
    )
    while len(batches) < 2 and query.isActive:
        query.awaitTermination(1)
    query.stop()
    once.close()
    with sqlite3.connect("rows.sqlite") as database:
        rows, distinct = database.execute("SELECT count(*), count(DISTINCT id) FROM rows").fetchone()
    assert rows == distinct == 10 * len(batches) > 10, (rows, distinct, batches)
    for name, depth in walk.steps.items():
        print(depth, name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

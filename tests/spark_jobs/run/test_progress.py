"""State, watermark and tasks of a query of real Spark, read while it runs and after its batches."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession, functions

from spark_jobs.observe.activity import TaskCounts
from spark_jobs.observe.history.model import StateSize
from spark_jobs.observe.report import Listener
from spark_jobs.query.plan import state_operators
from spark_jobs.query.running_query import job_group
from spark_jobs.query.task_counts import task_counts
from spark_jobs.run.progress import Progress, QueryProgress, newest, state_size

_TEN_ROWS = {"rowsPerBatch": "10", "advanceMillisPerBatch": "1000", "startTimestamp": "0"}


class _Sizes(Listener):
    def __init__(self) -> None:
        self.found: list[StateSize] = []

    def on_state_size(self, size: StateSize) -> None:
        self.found.append(size)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        session = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    yield session
    session.stop()


def test_state_and_watermark_after_a_batch_and_tasks_within_one(spark: SparkSession, tmp_path: Path) -> None:
    counted: list[TaskCounts | None] = []

    def batch(frame: DataFrame, _number: int) -> None:
        group = job_group(frame)
        slow = frame.select(functions.udf(_slowly, "long")("count"))
        thread = _Looking(lambda: task_counts(spark, group), counted)
        slow.collect()
        thread.stop()

    rows = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    counts = rows.withWatermark("timestamp", "1 second").groupBy(functions.window("timestamp", "1 second")).count()
    query = (
        counts.writeStream.foreachBatch(batch)
        .outputMode("update")
        .option("checkpointLocation", str(tmp_path))
        .trigger(processingTime="0 seconds")
        .start()
    )
    sizes = _Sizes()
    progress = QueryProgress(sizes, query, has_state=True, steps=["totals"])
    until = time.monotonic() + 120
    try:
        number = 0
        while time.monotonic() < until and not (sizes.found and sizes.found[-1].watermark and any(counted)):
            last_progress: Any = query.lastProgress
            number = last_progress["batchId"] if last_progress else number
            progress.decided(number)
            progress.report_plan()
            time.sleep(0.2)
    finally:
        query.stop()
    last = sizes.found[-1]
    (operator,) = last.by_operator
    assert (operator.number, operator.step, operator.operator) == (0, "totals", "stateStoreSave")
    assert (last.operators, last.rows, last.memory_bytes) == (1, operator.rows, operator.memory_bytes)
    assert last.checkpoint_id == number
    assert last.rows > 0
    assert last.memory_bytes > 0
    assert any(each.by_operator[0].commit_ms > 0 for each in sizes.found)
    assert last.watermark is not None
    assert abs(last.watermark - time.time()) < 120
    tasks = next(each for each in counted if each is not None)
    assert 0 <= tasks.done <= tasks.total
    assert tasks.failed == 0
    assert task_counts(spark, "another group") is None
    assert task_counts(cast(Any, SimpleNamespace(sparkContext=SimpleNamespace(_jsc=None))), "g") is None, "stopped"


def _total(rows: DataFrame) -> DataFrame:
    """A step that counts the rows of another one, which leaves out duplicates."""
    once = rows.withWatermark("timestamp", "10 seconds").dropDuplicatesWithinWatermark(["value"])
    once.createOrReplaceTempView("once")
    return rows.sparkSession.sql("SELECT window(timestamp, '1 second') AS w, COUNT(*) AS n FROM once GROUP BY 1")


def test_each_operator_has_the_step_that_it_belongs_to(spark: SparkSession, tmp_path: Path) -> None:
    totals = _total(spark.readStream.format("rate-micro-batch").options(**_TEN_ROWS).load())
    operators = state_operators(totals, "totals")
    assert [(step, kind) for step, kind, _ in operators] == [
        ("totals", "Aggregate"),
        ("once", "DeduplicateWithinWatermark"),
    ]
    query = totals.writeStream.format("noop").outputMode("update").option("checkpointLocation", str(tmp_path)).start()
    try:
        until = time.monotonic() + 120
        found: Progress | None = None
        while time.monotonic() < until and (found is None or found.batch_id < 3):
            time.sleep(0.1)
            found = newest(query)
    finally:
        query.stop()
    assert found is not None
    size = state_size(found, 1.0, [step for step, _, _ in operators])
    totals_state, once_state = size.by_operator
    assert (totals_state.step, totals_state.operator) == ("totals", "stateStoreSave")
    assert (once_state.step, once_state.operator) == ("once", "dedupeWithinWatermark")
    assert once_state.updated == 10, "each batch has ten rows"
    assert once_state.rows >= 30
    assert totals_state.updated < once_state.updated
    assert size.rows == totals_state.rows + once_state.rows
    unnamed = state_size(found, 1.0, ["totals"])
    assert [each.step for each in unnamed.by_operator] == ["", ""], "Spark has other operators than the plan"


def _slowly(value: int) -> int:
    time.sleep(0.5)
    return value


class _Looking:
    """A thread that reads a value again and again, as a page does."""

    def __init__(self, read: Any, into: list[Any]) -> None:
        self._over = threading.Event()

        def look() -> None:
            while not self._over.wait(0.05):
                into.append(read())

        self._thread = threading.Thread(target=look)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

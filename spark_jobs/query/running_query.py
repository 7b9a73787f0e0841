"""The running query that a batch belongs to, found from inside `foreachBatch`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame

from eos.errors import SpecError
from spark_jobs.query.file_sources import FileSources, sources_of
from spark_jobs.query.plan import is_stateful_plan
from spark_jobs.query.source_lists import SourceLists
from spark_jobs.query.spark_log import JobSparkLog, path_of
from spark_jobs.query.stored_spark_log import StoredSparkLog
from spark_jobs.session.hadoop_files import HadoopFolder
from spark_jobs.session.versions import STATE, require_spark

_MICRO_BATCH: Final = "MicroBatchExecution"
_WRAPPERS: Final = {
    "AdaptiveSparkPlanExec": "executedPlan",
    "ResultQueryStageExec": "plan",
    "WholeStageCodegenExec": "child",
}
"""Operators that run a whole plan, with the method that returns it."""


@dataclass(frozen=True, slots=True)
class Query:
    """A streaming query that somebody else has started."""

    run_id: str  # another one after each start
    log: JobSparkLog | StoredSparkLog
    """Its `checkpointLocation`: a path of the driver's machine, or a URL that only Spark's file systems read."""
    stateful: bool

    @property
    def location(self) -> str:
        """The `checkpointLocation`: an absolute path, or a URL."""
        return str(self.log.folder(""))


def run_of(frame: DataFrame) -> str:
    """The id of the run whose batch this is. From Spark's own object: a job may set its thread's properties."""
    return str(_execution(frame).runId().toString())


def asked_to_stop(frame: DataFrame) -> Callable[[], bool]:
    """Tells, while a batch is under way, whether somebody has called the query's `stop`.

    Spark calls the query inactive at once, and interrupts its thread, which the batch's Python does not feel; then it
    waits for the batch without a limit (`spark.sql.streaming.stopTimeout`).
    """
    execution = _execution(frame)
    return lambda: not execution.isActive()


def job_group(frame: DataFrame) -> str:
    """The group of the jobs that this thread starts: the run's, unless the job has named another."""
    group: str | None = frame.sparkSession.sparkContext.getLocalProperty("spark.jobGroup.id")
    assert group is not None, "called outside of foreachBatch"
    return group


def observed(frame: DataFrame, name: str) -> tuple[int | None, ...] | None:
    """The counts that this batch's job has given an observation (`DataFrame.observe`); None where it met none.

    Its texts are left out. Called when the job has ended: its tasks' counts are in then.
    """
    row = observed_metrics(frame).get(name)
    if not row.isDefined():
        return None
    found = row.get()
    values = [found.get(at) for at in range(found.size())]
    return tuple(value for value in values if not isinstance(value, str))


def observed_text(frame: DataFrame, name: str, field: str) -> str:
    """Return a text that this batch's job has given an observation; empty where it met none. See `observed`."""
    row = observed_metrics(frame).get(name)
    return row.get().getAs(field) or "" if row.isDefined() else ""


def observed_metrics(frame: DataFrame) -> Any:
    """Return what all observations of the query's part of this batch have counted so far, as Spark's map by name."""
    return _execution(frame).lastExecution().observedMetrics()


def executed_plan(frame: DataFrame) -> Any:
    """Return Spark's physical plan of the query's part of this batch, without the operators that only wrap it."""
    plan = _execution(frame).lastExecution().executedPlan()
    while inner := _WRAPPERS.get(str(plan.getClass().getSimpleName())):
        plan = getattr(plan, inner)()
    return plan


class EndsHeld:
    """Where the batches of one run of a query end, as Spark has it in memory: Java's `hashCode` of each offset.

    Not their text: 60 kB, of a thousand partitions, would take 40 ms. Called once a batch; Spark's own object is looked
    up for the first one, which takes longer than the rest.
    """

    def __init__(self) -> None:
        self._execution: Any = None
        self._sources: list[Any] = []

    def __call__(self, frame: DataFrame) -> list[int]:
        """Of the batch that this frame is of."""
        if self._execution is None:
            self._execution = _execution(frame)
            self._sources = sources_of(self._execution)
        ends = self._execution.availableOffsets()
        held = [ends.get(source) for source in self._sources]
        return [int(each.get().hashCode()) for each in held if each.isDefined()]


def query_of(frame: DataFrame) -> Query:
    """The query that this batch is of. Called once per run.

    Raises SpecError where exactly-once cannot hold: with speculation (R5), asynchronous progress, or state that a
    losing task may overwrite (H22). Raises SparkUnavailableError where the checkpoint's file system does not answer.
    """
    context = frame.sparkSession.sparkContext
    execution = _execution(frame)
    if context.getConf().get("spark.speculation", "false") != "false":
        message = "speculation cannot be on: two attempts of one task would write the same rows at once"
        raise SpecError(message, remedy="set spark.speculation to false")
    kind = execution.getClass().getSimpleName()
    if kind != _MICRO_BATCH:
        message = f"{kind}: Spark would mark batches done before they are committed"
        raise SpecError(message, remedy="leave asynchronous progress tracking off, and use a micro-batch trigger")
    stateful = is_stateful_plan(execution.analyzedPlan())
    if stateful:
        require_spark(STATE)
    name = "spark.sql.streaming.stateStore.checkpointFormatVersion"
    if stateful and frame.sparkSession.conf.get(name, "1") != "2":
        message = "the query keeps state in a format that a losing task may overwrite"
        raise SpecError(message, remedy=f"set {name} to 2, and the RocksDB state store, before the first start")
    return Query(run_of(frame), _log_at(frame, str(execution.resolvedCheckpointRoot())), stateful)


def _log_at(frame: DataFrame, location: str) -> JobSparkLog | StoredSparkLog:
    """Read a local disk without Spark, which is faster, and can be synced."""
    path = path_of(location)
    if path is not None:
        return JobSparkLog(path)
    files, sources = HadoopFolder(frame.sparkSession, location), FileSources(_execution(frame))
    return StoredSparkLog(files, SourceLists(files, sources.folders, sources.held))


def _execution(frame: DataFrame) -> Any:
    """Spark's own object of the query: the session of a batch is a clone that does not list it."""
    session = frame.sparkSession
    query_id = session.sparkContext.getLocalProperty("sql.streaming.queryId")
    jvm: Any = session.sparkContext._jvm
    execution = (
        session._jsparkSession.sharedState().activeStreamingQueries().get(jvm.java.util.UUID.fromString(query_id))
    )
    assert execution is not None, f"Spark does not know query {query_id}"
    return execution

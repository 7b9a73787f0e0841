"""Tasks of the running jobs of a query, as Spark counts them."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from spark_jobs.observe.activity import TaskCounts


def task_counts(session: SparkSession, group: str) -> TaskCounts | None:
    """Return the tasks of the group's running jobs; None if no job runs. A few calls into the JVM for each job.

    PySpark's own tracker reads the ids of the group's former jobs one by one: a thousand calls.
    """
    total = done = running = failed = 0
    java: Any = session.sparkContext._jsc
    if java is None:  # the session has stopped
        return None
    try:
        context = java.sc()
        store = context.statusStore()
        for job_id in context.statusTracker().getActiveJobIds():
            job = store.job(job_id)
            name = job.jobGroup()
            if name.isDefined() and name.get() == group:
                total += job.numTasks()
                done += job.numCompletedTasks()
                running += job.numActiveTasks()
                failed += job.numFailedTasks()
    except (Py4JError, ConnectionError):  # the job or the JVM has just ended
        return None
    return TaskCounts(total, done, running, failed) if total else None

"""Protection of Spark in a job of one's own, whose session the job has configured."""

from __future__ import annotations

from pyspark.sql import SparkSession

from spark_jobs.session.protection import SPARKS_OWN, Gap, gaps


def session_gaps(session: SparkSession) -> list[Gap]:
    """Return the missing protections of a session that runs."""
    context = session.sparkContext
    return list(gaps(str(context.master), {**SPARKS_OWN, **dict(context.getConf().getAll())}))

"""Spark Connect: sessions of a server, in which Python has neither Spark's context nor its JVM."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from eos.errors import SparkUnavailableError


def refuse_connect() -> None:
    """Raise SparkUnavailableError if this process uses Spark Connect. Called where `ExactlyOnce` is created."""
    if is_remote():
        message = (
            "ExactlyOnce cannot run with Spark Connect: it calls the function of foreachBatch in a Python process of "
            "the server, which can reach neither the query's plan nor its checkpoint"
        )
        remedy = 'write with format("eos"), or run the job with a classic session (SparkSession.builder.master)'
        raise SparkUnavailableError(message, remedy=remedy)


def is_connect(session: SparkSession) -> bool:
    """Return whether a session is one of Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


def settings_of(session: SparkSession) -> dict[str, str]:
    """Return the settings of Spark in a session that runs."""
    if is_connect(session):
        return dict(session.conf.getAll)
    context = session.sparkContext
    return {"spark.master": str(context.master), **dict(context.getConf().getAll())}

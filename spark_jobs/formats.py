"""Makes a session of Spark's know the formats: `register_formats(spark)`, once, before the first query."""

from __future__ import annotations

from pyspark.sql import SparkSession

from spark_jobs.eos_format import eos_sink
from spark_jobs.kafka_format import EosKafka
from spark_jobs.shipping import ship


def register_formats(session: SparkSession) -> None:
    """`eos` to write and `eos_kafka` to read. On a cluster, the project is sent to the workers first."""
    ship(session)
    for source in (EosKafka, eos_sink()):
        session.dataSource.register(source)

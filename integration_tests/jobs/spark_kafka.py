"""A job of one's own from a topic into a table, exactly once, with the sources and sinks that a version of Spark has.

python spark_kafka.py SPEC CHECKPOINT BOOTSTRAP_SERVERS TOPIC kafka|eos_kafka foreachBatch|eos
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import DataFrame, SparkSession, functions

import eos

_SCHEMA = "id BIGINT, word STRING, payload STRING"


def main(spec: str, checkpoint: str, bootstrap_servers: str, topic: str, source: str, sink: str) -> None:
    """Read what is in the topic, 500 records at a time, and end."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2]").config("spark.authenticate", "true").getOrCreate()
    if source == "eos_kafka" or sink == "eos":
        eos.register_formats(spark)
    read = _by_eos if source == "eos_kafka" else _by_spark
    rows = read(spark, bootstrap_servers, topic, checkpoint).writeStream.option("checkpointLocation", checkpoint)
    writer = rows.format("eos").option("spec", spec) if sink == "eos" else rows.foreachBatch(eos.ExactlyOnce(spec))
    writer.trigger(availableNow=True).start().awaitTermination()


def _by_spark(spark: SparkSession, bootstrap_servers: str, topic: str, _checkpoint: str) -> DataFrame:
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 500)
        .load()
    )
    return records.select(functions.from_json(functions.col("value").cast("string"), _SCHEMA).alias("r")).select("r.*")


def _by_eos(spark: SparkSession, bootstrap_servers: str, topic: str, checkpoint: str) -> DataFrame:
    records = (
        spark.readStream.format("eos_kafka")
        .option("bootstrap_servers", bootstrap_servers)
        .option("topics", topic)
        .option("schema", _SCHEMA)
        .option("max_records_per_checkpoint", 500)
        .option("join_below", 0)
        .option("location", f"{checkpoint}/begin")
        .load()
    )
    return records.select("id", "word", "payload")


if __name__ == "__main__":
    main(*sys.argv[1:])

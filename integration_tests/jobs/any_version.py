"""A job of one's own into a table, exactly once, with the sources and sinks that a version of Spark has.

python any_version.py SPEC CHECKPOINT kafka|eos_kafka|files PLACE foreachBatch|eos

PLACE: `BOOTSTRAP_SERVERS/TOPIC`, or a folder of JSON files.
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import DataFrame, SparkSession, functions

import eos

_SCHEMA = "id BIGINT, word STRING, payload STRING"


def main(spec: str, checkpoint: str, source: str, place: str, sink: str) -> None:
    """Read what is there, 500 records or one file at a time, and end."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2]").config("spark.authenticate", "true").getOrCreate()
    if source == "eos_kafka" or sink == "eos":
        eos.register_formats(spark)
    read = {"kafka": _by_spark, "eos_kafka": _by_eos, "files": _files}[source]
    rows = read(spark, place, checkpoint).writeStream.option("checkpointLocation", checkpoint)
    writer = rows.format("eos").option("spec", spec) if sink == "eos" else rows.foreachBatch(eos.ExactlyOnce(spec))
    writer.trigger(availableNow=True).start().awaitTermination()


def _by_spark(spark: SparkSession, place: str, _checkpoint: str) -> DataFrame:
    bootstrap_servers, topic = place.split("/")
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 500)
        .load()
    )
    return records.select(functions.from_json(functions.col("value").cast("string"), _SCHEMA).alias("r")).select("r.*")


def _by_eos(spark: SparkSession, place: str, checkpoint: str) -> DataFrame:
    bootstrap_servers, topic = place.split("/")
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


def _files(spark: SparkSession, place: str, _checkpoint: str) -> DataFrame:
    return spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", 1).json(place)


if __name__ == "__main__":
    main(*sys.argv[1:])

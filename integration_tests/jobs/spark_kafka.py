"""A job of one's own that reads with the Kafka source of Spark, and writes exactly once.

python spark_kafka.py SPEC CHECKPOINT BOOTSTRAP_SERVERS TOPIC
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession, functions

from eos import ExactlyOnce


def main(spec: str, checkpoint: str, bootstrap_servers: str, topic: str) -> None:
    """Read what is in the topic, 500 records at a time, and end."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2]").config("spark.authenticate", "true").getOrCreate()
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 500)
        .load()
    )
    row = functions.from_json(functions.col("value").cast("string"), "id BIGINT, word STRING, payload STRING")
    rows = records.select(row.alias("row")).select("row.*")
    query = (
        rows.writeStream.foreachBatch(ExactlyOnce(spec))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])

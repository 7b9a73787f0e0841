"""A streaming job of one's own with the Kafka source: a topic of JSON into the table of a spec, exactly once.

python kafka_to_table.py SPEC CHECKPOINT BOOTSTRAP_SERVERS TOPIC
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from eos import ExactlyOnce, register_formats


def main(spec: str, checkpoint: str, bootstrap_servers: str, topic: str) -> None:
    """Run until stopped, from what comes after the very first start."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the workers must have what this process has
    builder = SparkSession.builder.master("local[2]").appName("kafka to table")
    spark = builder.config("spark.authenticate", "true").getOrCreate()  # keeps others out of Spark's ports
    register_formats(spark)
    records = (
        spark.readStream.format("eos_kafka")
        .option("bootstrap_servers", bootstrap_servers)
        .option("topics", topic)
        .option("schema", "id BIGINT, word STRING, payload STRING")
        .option("starting_offsets", "latest")
        .option("max_records_per_checkpoint", 500)
        .option("location", f"{checkpoint}-begin")  # not inside the checkpoint: a restore fills a new one
        .load()
    )
    query = (
        records.select("id", "word", "payload")
        .writeStream.foreachBatch(ExactlyOnce(spec))
        .option("checkpointLocation", checkpoint)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])

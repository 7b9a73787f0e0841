"""A job on Spark's own rate source, by either way into a sink, until it is killed.

python rate.py SPEC CHECKPOINT foreachBatch|format|format-with-state
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from spark_jobs.adapters.exactly_once import ExactlyOnce
from spark_jobs.adapters.formats import register_formats


def main(spec: str, checkpoint: str, way: str) -> None:
    """Rows are numbered from 0 on, without a gap."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2]").config("spark.authenticate", "true").getOrCreate()
    register_formats(spark)
    numbers = spark.readStream.format("rate").option("rowsPerSecond", 50).option("numPartitions", 2).load()
    rows = numbers.selectExpr("value AS id", "'rate' AS word", "CAST(value * 2 AS STRING) AS payload")
    if way == "format-with-state":
        rows = rows.dropDuplicates(["id"])
    writer = rows.writeStream.option("checkpointLocation", checkpoint)
    writer = (
        writer.format("eos").option("spec", spec)
        if way.startswith("format")
        else writer.foreachBatch(ExactlyOnce(spec))
    )
    writer.start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A job that labels its jobs, and then either writes two frames of one batch, or two queries by one object.

python careless.py SPEC CHECKPOINT FOLDER frames|queries
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import DataFrame, SparkSession

from spark_jobs.adapters.exactly_once import ExactlyOnce


def main(spec: str, checkpoint: str, folder: str, mode: str) -> None:
    """Ends with the error of the query that is refused."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2]").config("spark.authenticate", "true").getOrCreate()
    exactly_once = ExactlyOnce(spec)

    def write(frame: DataFrame, number: int) -> None:
        frame.sparkSession.sparkContext.setJobGroup("etl", "labelled")
        exactly_once(frame, number)
        if mode == "frames":
            exactly_once(frame, number)

    for name in ("a", "b"):
        rows = spark.readStream.schema("id BIGINT, word STRING, payload STRING").json(f"{folder}/{name}")
        query = rows.writeStream.foreachBatch(write).option("checkpointLocation", f"{checkpoint}/{name} %20#")
        query.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])

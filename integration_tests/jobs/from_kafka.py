"""A job on several `eos_kafka` sources, whose rows are put together in the order of the arguments, until caught up.

python from_kafka.py SPEC CHECKPOINT BOOTSTRAP_SERVERS NAME=TOPICS_PATTERN...
"""

from __future__ import annotations

import os
import sys
from functools import reduce

from pyspark.sql import DataFrame, SparkSession

from spark_jobs.adapters.exactly_once import ExactlyOnce
from spark_jobs.adapters.formats import register_formats


def main(spec: str, checkpoint: str, bootstrap_servers: str, *sources: str) -> None:
    """Run until what there is at the start is written."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2]").config("spark.authenticate", "true").getOrCreate()
    register_formats(spark)

    def records(source: str) -> DataFrame:
        name, _, pattern = source.partition("=")
        reader = spark.readStream.format("eos_kafka").option("bootstrap_servers", bootstrap_servers)
        reader = reader.option("topics_pattern", pattern).option("schema", "id BIGINT, word STRING, payload STRING")
        return reader.option("location", f"{checkpoint}-{name}").load().select("id", "word", "payload")

    rows = reduce(DataFrame.union, map(records, sources))
    writer = rows.writeStream.foreachBatch(ExactlyOnce(spec)).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])

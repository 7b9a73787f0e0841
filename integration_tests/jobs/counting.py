"""A job that reads JSON files one after another, and writes each row, or with each file the newest count of its words.

python counting.py SPEC CHECKPOINT FOLDER counts|rows until-read|until-stopped
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from eos import ExactlyOnce, register_formats

_STATE = {
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.shuffle.partitions": "2",
}


def main(spec: str, checkpoint: str, folder: str, way: str, until: str) -> None:
    """`counts`: by `ExactlyOnce`, with state. `rows`: by `format("eos")`.

    `until-stopped`: until it is killed.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").config("spark.authenticate", "true")
    for key, value in _STATE.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    register_formats(spark)
    rows = spark.readStream.schema("id BIGINT, word STRING").option("maxFilesPerTrigger", 1).json(folder)
    if way == "counts":
        counted = rows.groupBy("word").count().withColumnRenamed("count", "id").select("id", "word")
        writer = counted.writeStream.outputMode("update").foreachBatch(ExactlyOnce(spec))
    else:
        writer = rows.select("id", "word").writeStream.format("eos").option("spec", spec)
    writer = writer.option("checkpointLocation", checkpoint)
    writer = (
        writer.trigger(availableNow=True)
        if until == "until-read"
        else writer.trigger(processingTime="200 milliseconds")
    )
    writer.start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A job of one's own that runs on a cluster: JSON files into the table of a spec, file by file.

python on_cluster.py SPEC CHECKPOINT FOLDER foreachBatch|format MASTER CONF
"""

from __future__ import annotations

import json
import os
import sys

from pyspark.sql import SparkSession

from spark_jobs.adapters.exactly_once import ExactlyOnce
from spark_jobs.adapters.formats import register_formats


def main(spec: str, checkpoint: str, folder: str, way: str, master: str, conf: str) -> None:
    """`conf`: Spark's settings, as JSON."""
    settings = json.loads(conf)
    os.environ["PYSPARK_PYTHON"] = settings["spark.pyspark.python"]  # which counts only where spark-submit reads it
    spark = SparkSession.builder.master(master).config(map=settings).getOrCreate()
    rows = (
        spark.readStream.schema("id BIGINT, word STRING, payload STRING").option("maxFilesPerTrigger", 1).json(folder)
    )
    writer = rows.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    if way == "format":
        register_formats(spark)
        writer = writer.format("eos").option("spec", spec)
    else:
        writer = writer.foreachBatch(ExactlyOnce(spec))
    writer.start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A job that stops its query when a file is there, and says so.

python stopping.py SPEC CHECKPOINT FOLDER FILE
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

from spark_jobs.adapters.exactly_once import ExactlyOnce


def main(spec: str, checkpoint: str, folder: str, file: str) -> None:
    """Ends after the stop."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2]").config("spark.authenticate", "true").getOrCreate()
    rows = spark.readStream.schema("id BIGINT, word STRING, payload STRING").option("maxFilesPerTrigger", 1)
    writer = rows.json(folder).writeStream.foreachBatch(ExactlyOnce(spec))
    query = writer.option("checkpointLocation", checkpoint).start()
    while query.isActive and not Path(file).exists():
        time.sleep(0.1)
    query.stop()
    print("the query is stopped", query.exception() or "cleanly", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

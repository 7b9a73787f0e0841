"""A streaming job of one's own that writes exactly once: JSON files into the table of a spec.

python copy_files.py SPEC CHECKPOINT FOLDER
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from eos import ExactlyOnce


def main(spec: str, checkpoint: str, folder: str) -> None:
    """Write what is in the folder, file by file, and end. Started again, it goes on where it was, however it ended."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the workers must have what this process has
    builder = SparkSession.builder.master("local[2]").appName("copy files")
    spark = builder.config("spark.authenticate", "true").getOrCreate()  # keeps others out of Spark's ports
    rows = (
        spark.readStream.schema("id BIGINT, word STRING, payload STRING").option("maxFilesPerTrigger", 1).json(folder)
    )
    query = (
        rows.writeStream.foreachBatch(ExactlyOnce(spec))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""As copy_files.py, without a function of one's own: the sink as a format of Spark's.

python files_to_table.py SPEC CHECKPOINT FOLDER
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from eos import register_formats


def main(spec: str, checkpoint: str, folder: str) -> None:
    """Write what is in the folder, file by file, and end. Started again, it goes on where it was, however it ended."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the workers must have what this process has
    builder = SparkSession.builder.master("local[2]").appName("files to table")
    spark = builder.config("spark.authenticate", "true").getOrCreate()  # keeps others out of Spark's ports
    register_formats(spark)
    rows = (
        spark.readStream.schema("id BIGINT, word STRING, payload STRING").option("maxFilesPerTrigger", 1).json(folder)
    )
    query = (
        rows.writeStream.format("eos")
        .option("spec", spec)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])

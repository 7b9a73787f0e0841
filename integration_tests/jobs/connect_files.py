"""A job on Spark Connect: JSON files into the table of a spec, by the format `eos`.

python connect_files.py SPEC CHECKPOINT FOLDER
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

import eos


def main(spec: str, checkpoint: str, folder: str) -> None:
    """Start a server on this machine, write what is in the folder, file by file, and end."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    try:
        eos.ExactlyOnce(spec)
    except eos.EosError as refusal:
        print(refusal)
    eos.register_formats(spark)
    rows = spark.readStream.schema("id BIGINT, word STRING, payload STRING").option("maxFilesPerTrigger", 1)
    query = (
        rows.json(folder)
        .writeStream.format("eos")
        .option("spec", spec)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])

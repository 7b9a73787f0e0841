"""The definitions of a declarative pipeline: JSON files of the folder FILES into the table of the spec SPEC."""

from __future__ import annotations

import os

from pyspark import pipelines
from pyspark.sql import DataFrame, SparkSession

from eos import register_formats

spark = SparkSession.active()
register_formats(spark)
pipelines.create_sink("warehouse", "eos", {"spec": os.environ["SPEC"]})


@pipelines.append_flow(target="warehouse", name="rows")
def rows() -> DataFrame:
    """Read each file once."""
    files = spark.readStream.schema("id BIGINT, word STRING, payload STRING").option("maxFilesPerTrigger", 1)
    return files.json(os.environ["FILES"])

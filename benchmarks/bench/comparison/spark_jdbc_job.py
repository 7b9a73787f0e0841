"""Run by `spark-submit`: a topic of JSON into a table, as Spark's own guide to `foreachBatch` does it."""

from __future__ import annotations

import sys
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json

_SCHEMA = "id BIGINT, user STRING, amount DOUBLE, ts TIMESTAMP"


def main() -> None:
    """Runs until it is stopped."""
    bootstrap, topic, url, user, password, table, checkpoint, at_once = sys.argv[1:]
    source = SparkSession.builder.getOrCreate().readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    source = source.option("subscribe", topic).option("startingOffsets", "earliest")
    if at_once:
        source = source.option("maxOffsetsPerTrigger", at_once)
    rows = source.load().select(from_json(col("value").cast("string"), _SCHEMA).alias("row")).select("row.*")
    target = {
        "url": f"{url}?rewriteBatchedStatements=true&useSSL=false&allowPublicKeyRetrieval=true",
        "driver": "com.mysql.cj.jdbc.Driver",
        "user": user,
        "password": password,
        "dbtable": table,
        "batchsize": "5000",
    }
    query = rows.writeStream.foreachBatch(partial(_write, target)).option("checkpointLocation", checkpoint)
    query.start().awaitTermination()


def _write(target: dict[str, str], batch: DataFrame, _number: int) -> None:
    batch.write.format("jdbc").options(**target).mode("append").save()


if __name__ == "__main__":
    main()

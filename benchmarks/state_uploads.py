"""Bytes that a checkpoint sends to the store of its state, for each state backend.

A query counts rows by key. Its first batch creates the whole state; each later batch changes few keys. The state is
stored after each batch, as a pipeline with its location in an object store does.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession, functions

from connectors.spec.spec import CHANGELOG
from integration_tests.services.minio_native import Minio
from spark_jobs.query.kept_state import StateStore
from spark_jobs.session.settings import DEFAULTS, LOOPBACK, REQUIRED
from tests.object_store import Bucket
from wal.local import LocalStorage
from wal.object import ObjectStorage
from wal.storage import Storage

BACKENDS: Final = {"rocksdb": "false", "rocksdb-changelog": "true"}
_COLUMNS: Final = "key STRING, payload STRING"
_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Uploads:
    """Bytes sent after each checkpoint, and bytes that a restore of the newest state reads."""

    backend: str
    sent: tuple[int, ...]  # the first one is the whole state
    sent_s: tuple[float, ...]  # the time for each
    batch_ms: float  # median of the later batches, from their begin to the begin of the next one
    restored: int  # bytes
    restored_s: float


def measure(
    spark: SparkSession, backend: str, keys: int, changes: int, checkpoints: int, folder: Path, storage: Storage
) -> Uploads:
    """Run the query in an empty folder. Block until its checkpoints are done."""
    spark.conf.set(CHANGELOG, BACKENDS[backend])
    rows, state = folder / "rows", folder / "spark"
    _write(spark, rows, keys, changes, checkpoints)
    store = StateStore(storage, "incarnation", 1)
    sent: list[int] = []
    sent_s: list[float] = []
    began: list[float] = []

    def keep(number: int) -> None:
        began_s = time.monotonic()
        sent.append(store.keep(state, number))
        sent_s.append(time.monotonic() - began_s)

    def on_batch(frame: DataFrame, number: int) -> None:
        began.append(time.monotonic())
        if number > 0:
            keep(number - 1)
        frame.write.format("noop").mode("overwrite").save()

    found = spark.readStream.schema(_COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(rows))
    counts = found.groupBy("key").agg(functions.max("payload").alias("payload"), functions.count("*").alias("rows"))
    query = counts.writeStream.foreachBatch(on_batch).outputMode("update").trigger(availableNow=True)
    query.option("checkpointLocation", f"file://{state}").start().awaitTermination()
    keep(checkpoints - 1)
    restore_began_s = time.monotonic()
    kept = StateStore(storage, "incarnation", 2).restore(folder / "other", checkpoints - 1)
    restored_s = time.monotonic() - restore_began_s
    assert kept is not None
    gaps = [after - before for before, after in pairwise(began[1:])]
    batch_ms = 1000 * statistics.median(gaps)
    return Uploads(backend, tuple(sent), tuple(sent_s), batch_ms, kept.bytes, restored_s)


def _write(spark: SparkSession, folder: Path, keys: int, changes: int, checkpoints: int) -> None:
    """Write one file for each checkpoint. Spark's file source reads them in the order of their times."""
    for number in range(checkpoints):
        numbers = (
            spark.range(keys)
            if number == 0
            else spark.range(changes).select((functions.col("id") * 7919 + number) % keys)
        )
        key = numbers.toDF("id").select(functions.sha2(functions.col("id").cast("string"), 256).alias("key"))
        found = key.select(
            "key", functions.sha2(functions.concat("key", functions.lit(str(number))), 256).alias("payload")
        )
        found.coalesce(1).write.mode("append").parquet(str(folder))
        time.sleep(0.01)


def session(partitions: int) -> SparkSession:
    """Start Spark on this machine with the settings of a pipeline."""
    own = {"spark.sql.shuffle.partitions": str(partitions), "spark.driver.memory": "2g"}
    return SparkSession.builder.master("local[2]").config(map={**REQUIRED, **DEFAULTS, **LOOPBACK, **own}).getOrCreate()


def _bucket() -> Storage:
    server = Minio()
    server.up()
    return ObjectStorage(Bucket(server.port).address("state"))


def main() -> None:
    """Print a line for each backend."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.state_uploads", description=__doc__)
    parser.add_argument("--keys", type=int, default=400_000, help="keys of the state, of about 150 bytes each")
    parser.add_argument("--changes", type=int, default=200, help="keys that a later checkpoint changes")
    parser.add_argument("--checkpoints", type=int, default=241)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--minio", action="store_true", help="store it in a bucket of this machine, not in a folder")
    given = parser.parse_args()
    spark = session(given.partitions)
    spark.sparkContext.setLogLevel("ERROR")
    for backend in BACKENDS:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            storage = _bucket() if given.minio else LocalStorage(folder / "store")
            found = measure(spark, backend, given.keys, given.changes, given.checkpoints, folder, storage)
        later = found.sent[1:]
        print(f"{backend}: first checkpoint {found.sent[0] / _MIB:.1f} MiB, sent in {found.sent_s[0]:.1f} s")
        figures = statistics.median(later), statistics.mean(later), max(later)
        print("  bytes of a later one: median {:,.0f}, mean {:,.0f}, largest {:,}".format(*figures))
        whole = sum(each > found.sent[0] / 10 for each in later)
        print(f"  later ones of more than a tenth of the state: {whole} of {len(later)}")
        print(f"  checkpoint {found.batch_ms:.0f} ms")
        print(f"  restore {found.restored / _MIB:.1f} MiB in {found.restored_s:.1f} s")
    spark.stop()


if __name__ == "__main__":
    main()

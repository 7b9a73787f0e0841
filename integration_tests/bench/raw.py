"""The raw limit: two plain processes read Kafka into Arrow and LOAD DATA. No Spark, no transaction, no checkpoint.

Written apart from the product on purpose, so that a slow part of the product cannot slow its own yardstick.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pymysql
from confluent_kafka import Consumer, TopicPartition
from sqlalchemy.engine import make_url

from integration_tests.bench.topic import PARTITIONS

_SCHEMA = pa.schema([("id", pa.int64()), ("user", pa.string()), ("amount", pa.float64()), ("ts", pa.timestamp("us"))])
_ROWS = 100_000  # of one LOAD DATA


@dataclass(frozen=True, slots=True)
class RawResult:
    """Of one run."""

    seconds: float  # from the start of the first reader to the last row committed
    peak_rss_mb: float  # of the larger process


def copy(bootstrap: str, topic: str, url: str, table: str, rows: int) -> RawResult:
    """Copy the first `rows` records of the topic into the table, by two processes."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        futures = [pool.submit(_worker, bootstrap, topic, url, table, rows, half) for half in (0, 1)]
        halves = [future.result() for future in futures]
    begun, ended, rss = zip(*halves, strict=True)
    return RawResult(max(ended) - min(begun), max(rss))


def _worker(bootstrap: str, topic: str, url: str, table: str, rows: int, half: int) -> tuple[float, float, float]:
    """When this half began and ended, and its memory in MiB."""
    where = make_url(url)
    connection = pymysql.connect(
        host=where.host,
        port=where.port or 3306,
        user=where.username,
        password=where.password or "",
        database=where.database,
        local_infile=True,
        autocommit=True,
    )
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "raw",
            "enable.auto.commit": False,
            "queued.min.messages": 1_000_000,
            "fetch.message.max.bytes": 8 * 1024 * 1024,
            "auto.offset.reset": "earliest",
        }
    )
    partitions = [p for p in range(PARTITIONS) if p % 2 == half]
    consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
    left = sum((rows - p + PARTITIONS - 1) // PARTITIONS for p in partitions)
    begun = time.time()
    values: list[bytes] = []
    while left:
        messages = consumer.consume(min(10_000, left), 1.0)
        values += [message.value() or b"" for message in messages]
        left -= len(messages)
        if len(values) >= _ROWS or not left:
            _load(connection, table, values)
            values = []
    ended = time.time()
    consumer.close()
    connection.close()
    return begun, ended, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _load(connection: pymysql.Connection, table: str, values: list[bytes]) -> None:
    options = pa.json.ParseOptions(explicit_schema=_SCHEMA)
    read = pa.json.read_json(io.BytesIO(b"\n".join(values)), parse_options=options)
    columns = [pc.cast(column, pa.string()) for column in read.columns]
    out = io.BytesIO()
    pa.csv.write_csv(pa.table(columns, names=read.column_names), out, pa.csv.WriteOptions(include_header=False))
    descriptor = os.memfd_create("rows")
    try:
        os.write(descriptor, out.getbuffer())
        os.lseek(descriptor, 0, os.SEEK_SET)
        with connection.cursor() as cursor:
            loaded = cursor.execute(
                f"LOAD DATA LOCAL INFILE '/proc/self/fd/{descriptor}' INTO TABLE `{table}` "
                "FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' LINES TERMINATED BY '\\n'"
            )
        if loaded != len(values):
            raise RuntimeError(f"{loaded} rows loaded, {len(values)} sent")
    finally:
        os.close(descriptor)

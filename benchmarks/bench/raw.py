"""The raw limits: two plain processes read Kafka, and LOAD DATA or produce in transactions. No Spark, no checkpoint.

Written apart from the product on purpose, so that a slow part of the product cannot slow its own yardstick.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pymysql
from confluent_kafka import Consumer, Producer, TopicPartition
from sqlalchemy.engine import make_url

from benchmarks.bench.topic import PARTITIONS

_SCHEMA = pa.schema([("id", pa.int64()), ("user", pa.string()), ("amount", pa.float64()), ("ts", pa.timestamp("us"))])
_ROWS = 100_000  # of one LOAD DATA, and of one transaction


@dataclass(frozen=True, slots=True)
class RawResult:
    """Of one run."""

    begun_at: float  # by the clock: when the first reader began
    seconds: float  # from then to the last row committed
    peak_rss_mb: float  # of the larger process


class Target(Protocol):
    """Where one of the processes writes to."""

    def write(self, values: list[bytes]) -> None:
        """Take what was read at once."""

    def close(self) -> None:
        """Commit the rest, and disconnect."""


def copy(bootstrap: str, topic: str, rows: int, target: Callable[[], Target]) -> RawResult:
    """Copy the first `rows` records of the topic into the target, by two processes that make one each."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        futures = [pool.submit(_worker, bootstrap, topic, rows, half, target) for half in (0, 1)]
        halves = [future.result() for future in futures]
    begun, ended, rss = zip(*halves, strict=True)
    return RawResult(min(begun), max(ended) - min(begun), max(rss))


def _worker(bootstrap: str, topic: str, rows: int, half: int, make: Callable[[], Target]) -> tuple[float, float, float]:
    """When this half began and ended, and its memory in MiB."""
    target = make()
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
    while left:
        messages = consumer.consume(min(10_000, left), 1.0)
        target.write([message.value() or b"" for message in messages])
        left -= len(messages)
    target.close()
    ended = time.time()
    consumer.close()
    return begun, ended, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Table:
    """LOAD DATA into a table of MySQL, each in a transaction of its own."""

    def __init__(self, url: str, table: str) -> None:
        where = make_url(url)
        self._table = table
        self._values: list[bytes] = []
        self._connection = pymysql.connect(
            host=where.host,
            port=where.port or 3306,
            user=where.username,
            password=where.password or "",
            database=where.database,
            local_infile=True,
            autocommit=True,
        )

    def write(self, values: list[bytes]) -> None:
        """See Target."""
        self._values += values
        if len(self._values) >= _ROWS:
            self._load()

    def close(self) -> None:
        """See Target."""
        if self._values:
            self._load()
        self._connection.close()

    def _load(self) -> None:
        values, self._values = self._values, []
        options = pa.json.ParseOptions(explicit_schema=_SCHEMA)
        read = pa.json.read_json(io.BytesIO(b"\n".join(values)), parse_options=options)
        columns = [pc.cast(column, pa.string()) for column in read.columns]
        out = io.BytesIO()
        pa.csv.write_csv(pa.table(columns, names=read.column_names), out, pa.csv.WriteOptions(include_header=False))
        descriptor = os.memfd_create("rows")
        try:
            os.write(descriptor, out.getbuffer())
            os.lseek(descriptor, 0, os.SEEK_SET)
            with self._connection.cursor() as cursor:
                loaded = cursor.execute(
                    f"LOAD DATA LOCAL INFILE '/proc/self/fd/{descriptor}' INTO TABLE `{self._table}` "
                    "FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' LINES TERMINATED BY '\\n'"
                )
            if loaded != len(values):
                raise RuntimeError(f"{loaded} rows loaded, {len(values)} sent")
        finally:
            os.close(descriptor)


class Topic:
    """A plain transactional producer that copies each record's bytes into a topic."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._count = 0  # of the open transaction
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": f"{topic}-{os.getpid()}",
                "linger.ms": 20,
                "batch.size": 1_000_000,
                "queue.buffering.max.messages": 1_000_000,
            }
        )
        self._producer.init_transactions()
        self._producer.begin_transaction()

    def write(self, values: list[bytes]) -> None:
        """See Target."""
        produce, topic = self._producer.produce, self._topic
        for value in values:
            produce(topic, value)
        self._producer.poll(0)
        self._count += len(values)
        if self._count >= _ROWS:
            self._producer.commit_transaction()
            self._producer.begin_transaction()
            self._count = 0

    def close(self) -> None:
        """See Target."""
        self._producer.commit_transaction()

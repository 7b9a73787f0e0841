"""One pipeline that copies many tables, and checkpoints in which only a few of them get rows."""

from __future__ import annotations

import json
import random
import secrets
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

import sqlalchemy
from confluent_kafka import Producer

from benchmarks.bench.product import Product, spec
from benchmarks.bench.targets import number
from benchmarks.scale.measured import phases_s
from integration_tests import databases, topics
from integration_tests.services import Services
from spark_jobs.observe.history.store import History

_COLUMNS: Final = 10
_COLD: Final = 2
"""Checkpoints in which Spark and its workers still load what they need."""
_PATIENCE_S: Final = 1200
_FIELDS: Final = [{"field": f"c{number}", "type": "int64", "optional": number > 0} for number in range(_COLUMNS)]
_OF_ROW: Final = {"type": "struct", "fields": _FIELDS, "optional": True}
_EVENT: Final = [{**_OF_ROW, "field": "before"}, {**_OF_ROW, "field": "after"}]
_OF_EVENT: Final = {"type": "struct", "optional": False, "fields": [*_EVENT, {"field": "op", "type": "string"}]}
_OF_KEY: Final = {"type": "struct", "optional": False, "fields": _FIELDS[:1]}


@dataclass(frozen=True, slots=True)
class ManyTables:
    """What the pipeline has to do."""

    tables: int
    touched: int  # tables that get rows in a checkpoint, after the first one
    records: int  # of each of them
    checkpoints: int

    @property
    def first(self) -> int:
        """Records of the first checkpoint, which has rows of each table."""
        return self.tables * self.records

    def after(self, checkpoint: int) -> int:
        """Records up to this checkpoint; the first one has the number 0."""
        return self.first + checkpoint * self.touched * self.records


@dataclass(slots=True)
class _Shop:
    """The topics of a shop's tables, and the rows that their copies must have."""

    bootstrap: str
    name: str
    rows: list[int]  # by table
    _producer: Producer = field(init=False)

    def __post_init__(self) -> None:
        self._producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 20, "enable.idempotence": True})
        topics.create_all(self.bootstrap, self.topics, 1, {})

    @property
    def topics(self) -> Sequence[str]:
        return [f"{self.name}.t{number:04}" for number in range(len(self.rows))]

    def insert(self, tables: Iterable[int], count: int) -> None:
        """Add so many rows to each of these tables; returns when the broker has their events."""
        for table in tables:
            for key in range(self.rows[table], self.rows[table] + count):
                after = {f"c{column}": key + column for column in range(_COLUMNS)}
                value = {"schema": _OF_EVENT, "payload": {"before": None, "after": after, "op": "c"}}
                named = {"schema": _OF_KEY, "payload": {"c0": key}}
                self._producer.produce(self.topics[table], json.dumps(value), json.dumps(named))
                self._producer.poll(0)
            self.rows[table] += count
        if left := self._producer.flush(60):
            raise RuntimeError(f"{left} records were not delivered")

    def delete(self) -> None:
        topics.delete(self.bootstrap, self.topics)


def measure_tables(services: Services, work: ManyTables) -> dict[str, Any]:
    """Return the figures, for a line of JSON. Raises RuntimeError if a table has other rows than each once."""
    name = f"eos_tables_{secrets.token_hex(4)}"
    chance = random.Random(work.tables)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as at_end:
        databases.create(services, name)
        at_end.callback(databases.drop, services, name)
        url = sqlalchemy.make_url(services.database_url).set(database=name)
        engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.StaticPool, isolation_level="AUTOCOMMIT")
        at_end.callback(engine.dispose)
        shop = _Shop(services.kafka_bootstrap, name, [0] * work.tables)
        at_end.callback(shop.delete)
        shop.insert(range(work.tables), work.records)
        began_s, before = time.monotonic(), _status(engine, "Threads_connected")
        with Product(Path(folder), _spec(shop, url.render_as_string(hide_password=False))) as product:
            product.wait_for(work.first, _PATIENCE_S)
            first_s, connections, cpu_s, logins = time.monotonic() - began_s, 0, 0.0, 0
            for checkpoint in range(1, work.checkpoints + 1):
                if checkpoint == _COLD + 1:
                    cpu_s, logins = product.cpu_s(), _status(engine, "Connections")
                shop.insert(chance.sample(range(work.tables), work.touched), work.records)
                product.wait_for(work.after(checkpoint), _PATIENCE_S)
                connections = max(connections, _status(engine, "Threads_connected") - before)
            warm = work.checkpoints - _COLD
            cpu_s, logins = product.cpu_s() - cpu_s, _status(engine, "Connections") - logins
            memory = _memory_mb(product)
        _check(engine, shop.rows)
        found = History.at(Path(folder) / "checkpoint").checkpoints(limit=warm)
        newest = max((Path(folder) / "checkpoint" / "head").glob("*.json"))
        return {
            "tables": work.tables,
            "first_s": round(first_s, 1),
            "duration_s": round(median(each.duration_s or 0.0 for each in found), 3),
            "cpu_s": round(cpu_s / warm, 2),
            "logins": logins / warm,
            "connections": connections,
            **memory,
            "head_bytes": newest.stat().st_size,
            "phases_s": phases_s(found),
        }


def _spec(shop: _Shop, url: str) -> str:
    sink: dict[str, object] = {"connector": "mysql", "url": url, "table": "${topic}", "create": "if-missing"}
    sink |= {"commit": "upsert", "rewrite": [{"match": r".*[.](\w+)", "to": r"\1"}], "deleted": "_deleted"}
    text = spec(shop.bootstrap, shop.name, "debezium", {}, [sink], reading={"topics_pattern": f"{shop.name}[.].*"})
    document = json.loads(text)
    del document["sources"][0]["topics"]
    return json.dumps(document)


def _check(engine: sqlalchemy.Engine, rows: Sequence[int]) -> None:
    wrong = []
    with engine.connect() as connection:
        for table, expected in enumerate(rows):
            asked = f"SELECT COUNT(*), COALESCE(SUM(c0), 0) FROM t{table:04}"
            if tuple(connection.exec_driver_sql(asked).one()) != (expected, expected * (expected - 1) // 2):
                wrong.append(table)
    if wrong:
        raise RuntimeError(f"{len(wrong)} of {len(rows)} tables have other rows than expected, the first is {wrong[0]}")


def _status(engine: sqlalchemy.Engine, name: str) -> int:
    return number(engine, f"SHOW GLOBAL STATUS LIKE '{name}'")


def _memory_mb(product: Product) -> dict[str, int]:
    """Return the memory of the driver, its JVM, and the largest worker."""
    found = product.tree()
    by_name = [(process.name(), process.pid, process.memory_info().rss >> 20) for process in found]
    java = sum(size for name, _, size in by_name if "java" in name)
    workers = [size for name, pid, size in by_name if "java" not in name and pid != product.pid]
    return {"driver_mb": by_name[0][2], "jvm_mb": java, "worker_mb": max(workers)}

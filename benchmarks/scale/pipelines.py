"""Many pipelines: in one driver, or each in its own. What they cost while they wait, and when all get records."""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any, Final

import psutil
import sqlalchemy
from confluent_kafka import Producer

from benchmarks.bench.product import Product, spec, visible
from benchmarks.bench.targets import count, execute, number
from integration_tests import databases, topics
from integration_tests.services import Services
from twophase.local_head import LocalHead

_PATIENCE_S: Final = 1800
_POLL_S: Final = 0.1
_SETTLED_S: Final = 35
"""Longer than an idle connection is kept (docs/explanation/scale.md)."""
_COLD: Final = 2
"""Rounds in which Spark and its workers still load what they need."""
_SCHEMA: Final = "id BIGINT, word STRING"


@dataclass(frozen=True, slots=True)
class ManyPipelines:
    """The pipelines to start, and the records that they get."""

    pipelines: int
    in_one_driver: bool
    records: int  # of each pipeline, in each round
    rounds: int  # after the first one
    idle_s: float  # for which nothing is produced, and CPU is measured
    interval: str  # of their checkpoints


@dataclass(frozen=True, slots=True)
class _Shops:
    """A topic and a table of each pipeline."""

    services: Services
    name: str
    url: str
    count: int
    interval: str

    @property
    def names(self) -> Sequence[str]:
        return [f"{self.name}_{each:03}" for each in range(self.count)]

    def create(self) -> None:
        topics.create_all(self.services.kafka_bootstrap, self.names, 1, {})
        for each in self.names:
            execute(self.url, f"CREATE TABLE {each} (id BIGINT, word VARCHAR(20)) ENGINE=InnoDB")

    def produce(self, first: int, records: int) -> None:
        """Give each pipeline the records of these numbers. Return when the broker has them."""
        producer = Producer({"bootstrap.servers": self.services.kafka_bootstrap, "linger.ms": 20})
        for each in self.names:
            for identity in range(first, first + records):
                producer.produce(each, f'{{"id": {identity}, "word": "w"}}')
            producer.poll(0)
        if left := producer.flush(60):
            raise RuntimeError(f"{left} records were not delivered")

    def spec(self, name: str) -> str:
        source = {"type": "json", "schema": _SCHEMA}
        sink = {"connector": "mysql", "url": self.url, "table": name, "commit": "two-phase"}
        checkpoint = {"interval": self.interval, "location": f"./{name}"}
        return spec(self.services.kafka_bootstrap, name, source, checkpoint, [sink])

    def check(self, records: int) -> None:
        """Raise RuntimeError unless each table has each record once."""
        wrong = [each for each in self.names if count(self.url, each) != (records, records)]
        if wrong:
            raise RuntimeError(f"{len(wrong)} of {self.count} tables have not {records} rows, the first is {wrong[0]}")


def measure_pipelines(services: Services, work: ManyPipelines) -> dict[str, Any]:
    """Return the figures, for a line of JSON. Raises RuntimeError if a table lacks a record or has one twice."""
    name = f"eos_many_{secrets.token_hex(4)}"
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as at_end:
        folder = Path(temporary)
        databases.create(services, name)
        at_end.callback(databases.drop, services, name)
        url = sqlalchemy.make_url(services.database_url).set(database=name)
        engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.StaticPool, isolation_level="AUTOCOMMIT")
        at_end.callback(engine.dispose)
        shops = _Shops(services, name, url.render_as_string(hide_password=False), work.pipelines, work.interval)
        at_end.callback(topics.delete, services.kafka_bootstrap, shops.names)
        shops.create()
        heads = [LocalHead(folder / each) for each in shops.names]
        before = _connections(engine)

        shops.produce(0, work.records)
        began_s = time.monotonic()
        drivers = [at_end.enter_context(each) for each in _drivers(shops, folder, in_one=work.in_one_driver)]
        _await(drivers, heads, work.records)
        first_s = time.monotonic() - began_s
        rounds = []
        for each in range(1, work.rounds + 1):
            began_s, before_s = time.monotonic(), _cpu_s(drivers)
            shops.produce(each * work.records, work.records)
            _await(drivers, heads, (each + 1) * work.records)
            rounds.append((time.monotonic() - began_s, _used_s(before_s, _cpu_s(drivers))))
        busy = _connections(engine) - before
        time.sleep(_SETTLED_S)
        began_s, before_s = time.monotonic(), _cpu_s(drivers)
        time.sleep(work.idle_s)
        idle_cores = _used_s(before_s, _cpu_s(drivers)) / (time.monotonic() - began_s)
        idle, sizes = _connections(engine) - before, _sizes(drivers)
        shops.check((work.rounds + 1) * work.records)
        warm = rounds[_COLD:] or rounds
        return {
            "pipelines": work.pipelines,
            "interval": work.interval,
            "drivers": len(drivers),
            "first_s": round(first_s, 1),
            "round_s": round(median(took for took, _ in warm), 2),
            "round_cpu_s": round(median(cpu_s for _, cpu_s in warm), 2),
            "idle_cores": round(idle_cores, 3),
            "connections": busy,
            "idle_connections": idle,
            **sizes,
        }


def _drivers(shops: _Shops, folder: Path, *, in_one: bool) -> list[Product]:
    if not in_one:
        made = [(folder / f"driver-{each}", shops.spec(each).replace('"./', f'"{folder}/')) for each in shops.names]
        for home, _ in made:
            home.mkdir()
        return [Product(home, text) for home, text in made]
    first, *others = shops.names
    also = [folder / f"{each}.yaml" for each in others]
    for path, each in zip(also, others, strict=True):
        path.write_text(shops.spec(each))
    return [Product(folder, shops.spec(first), also=also)]


def _await(drivers: Sequence[Product], heads: Iterable[LocalHead], records: int) -> None:
    """Block until each pipeline has committed so many records."""
    deadline_s, waiting = time.monotonic() + _PATIENCE_S, list(heads)
    while waiting := [each for each in waiting if visible(each) < records]:
        for driver in drivers:
            driver.check()
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"{len(waiting)} pipelines have not committed {records} records")
        time.sleep(_POLL_S)


def _cpu_s(drivers: Iterable[Product]) -> dict[int, float]:
    """Return the CPU time of each process so far, by its id."""
    found = {}
    for process in chain.from_iterable(each.tree() for each in drivers):
        with suppress(psutil.NoSuchProcess):  # a worker may have ended
            found[process.pid] = sum(process.cpu_times()[:2])
    return found


def _used_s(before_s: Mapping[int, float], after_s: Mapping[int, float]) -> float:
    """Return the CPU time in between, without that of processes which have ended."""
    return sum(cpu_s - before_s.get(pid, 0.0) for pid, cpu_s in after_s.items())


def _connections(engine: sqlalchemy.Engine) -> int:
    return number(engine, "SHOW GLOBAL STATUS LIKE 'Threads_connected'")


def _sizes(drivers: Iterable[Product]) -> dict[str, int]:
    """Return the memory (PSS: what processes share is counted once) and threads, and the number of Python workers."""
    found = {"driver_mb": 0, "jvm_mb": 0, "workers_mb": 0, "driver_threads": 0, "jvm_threads": 0, "workers": 0}
    for driver in drivers:
        for process in driver.tree():
            with suppress(psutil.NoSuchProcess):  # a worker may have ended
                kind = "driver" if process.pid == driver.pid else "jvm" if "java" in process.name() else "workers"
                found[f"{kind}_mb"] += process.memory_full_info().pss >> 20
                if kind == "workers":
                    found["workers"] += 1
                else:
                    found[f"{kind}_threads"] += process.num_threads()
    return found

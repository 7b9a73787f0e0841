"""From `produce()` to a row that everybody sees, of each record, while records come at a steady rate."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import Producer

from benchmarks.bench import topic
from benchmarks.bench.comparison.expected import numbered
from benchmarks.bench.comparison.meter import Meter, Servers
from benchmarks.bench.comparison.results import Measured
from benchmarks.bench.comparison.started import RunFailedError, Started
from benchmarks.bench.comparison.statistics import percentile
from benchmarks.bench.comparison.table import POLL_S, Table
from benchmarks.bench.comparison.work import System, Work, table_statement

RATE: Final = 2000
SECONDS: Final = 60
LEFT_OUT_S: Final = 20
_LATE_S: Final = 120.0
_PACE_S: Final = 0.005


def measure(system: System, work: Work, servers: Servers) -> Measured:
    """One record of each partition first, until they are seen, so that no start is in it; then the rest. Of these the
    first seconds are left out. Raises RunFailedError."""
    launch = system.prepare(work)
    statement = table_statement(keyed=system.keyed)
    with Table(work, statement, numbered(work.rows)) as table, Started(launch, work.log) as started:
        topic.produce(work.bootstrap, work.topic, 0, topic.PARTITIONS)
        _await_first(table, started)
        begun_at = time.time()
        with Meter(servers, started.pid) as meter, Load(work.bootstrap, work.topic, work.rows) as load:
            seen_at = _watch(table, started, work.rows)
        ended_at = time.time()
        if not table.holds_all():
            raise RunFailedError(f"{table.count()} rows are there, {work.rows} records were: not each once")
    first = topic.PARTITIONS + RATE * LEFT_OUT_S
    waited = [1000 * (seen - sent) for seen, sent in zip(seen_at[first:], load.sent_at[first:], strict=True)]
    shares = {f"ms_p{part}": percentile(waited, part / 100) for part in (50, 90, 99)}
    used = meter.used(begun_at, ended_at)
    busy = used.cpu_s["system"] / (ended_at - begun_at)
    return Measured({**shares, "ms_max": max(waited), "cores_busy": busy}, used.disturbed)


def _await_first(table: Table, started: Started) -> None:
    while table.count() < topic.PARTITIONS:
        if trouble := started.trouble(_LATE_S):
            raise RunFailedError(trouble)
        time.sleep(POLL_S)


def _watch(table: Table, started: Started, rows: int) -> list[float]:
    """When each row was seen first."""
    seen_at = [0.0] * rows
    low = topic.PARTITIONS  # all below it were seen
    while low < rows:
        found, now = table.ids_from(low), time.time()
        for number in found:
            seen_at[number] = seen_at[number] or now
        while low < rows and seen_at[low]:
            low += 1
        if low < rows and (trouble := started.trouble(SECONDS + 2 * _LATE_S)):
            raise RunFailedError(trouble)
        time.sleep(POLL_S)
    return seen_at


@dataclass(slots=True)
class Load:
    """Produces at RATE in a thread; use as a context manager. `sent_at` is by record, with none for the first few."""

    bootstrap: str
    topic: str
    rows: int
    sent_at: list[float] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _failures: list[object] = field(default_factory=list)
    _thread: threading.Thread = field(init=False)

    def __enter__(self) -> Load:
        self.sent_at = [0.0] * topic.PARTITIONS
        self._thread = threading.Thread(target=self._produce, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._failures:
            raise RunFailedError(f"{len(self._failures)} records were not delivered: {self._failures[0]}")

    def _produce(self) -> None:
        settings = {"bootstrap.servers": self.bootstrap, "linger.ms": 5, "enable.idempotence": True}
        producer = Producer({**settings, "on_delivery": self._delivered})
        begun_at = time.time()
        while len(self.sent_at) < self.rows and not self._over.is_set():
            due = topic.PARTITIONS + int((time.time() - begun_at) * RATE) + 1
            for number in range(len(self.sent_at), min(due, self.rows)):
                self.sent_at.append(time.time())
                producer.produce(self.topic, topic.value(number), partition=number % topic.PARTITIONS)
            producer.poll(0)
            time.sleep(_PACE_S)
        producer.flush()

    def _delivered(self, error: object, _message: object) -> None:
        if error:
            self._failures.append(error)


def rows() -> int:
    """Of a run."""
    return topic.PARTITIONS + RATE * SECONDS

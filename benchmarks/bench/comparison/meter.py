"""What a run takes, twice a second: of the system, the database, the broker and everything else."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import numpy as np

from benchmarks.bench.comparison import processes
from benchmarks.bench.comparison.java_threads import JavaThreads
from integration_tests.services import Services
from integration_tests.services.containers import Containers

_EVERY_S: Final = 0.5
_DISTURBED: Final = 0.1
"""A share of the machine: where others take more, a run tells little."""


@dataclass(frozen=True, slots=True)
class Servers:
    """Their processes on this machine, and the port of the database."""

    database: frozenset[int]
    broker: frozenset[int]
    port: int

    @classmethod
    def of(cls, services: Services) -> Servers:
        """A container's proxy is told to its server: all bytes of a client on this machine go through it."""
        database, broker = _port(services.database_url), _port(services.kafka_bootstrap)
        control = services.control
        inside = [control.pid(name) for name in ("mysql", "kafka")] if isinstance(control, Containers) else [None, None]
        return cls(
            _found(processes.listener(database), inside[0]), _found(processes.listener(broker), inside[1]), database
        )


@dataclass(frozen=True, slots=True)
class Used:
    """CPU seconds of some time, by system, database, broker, harness and others."""

    cpu_s: Mapping[str, float]
    of_java: Mapping[str, float]  # parts of the system's, by the groups of java_threads
    disturbed: bool  # others took over a tenth of the machine


class Meter:
    """Use as a context manager around what is measured; ask it afterwards."""

    def __init__(self, servers: Servers, system: int) -> None:
        self.peak_rss_mb = 0.0
        self.connections = 0  # at most, to the database
        self._port = servers.port
        self._roots = {"system": {system}, "database": servers.database, "broker": servers.broker}
        self._at: list[float] = []
        self._seen: dict[str, list[float]] = defaultdict(list)  # CPU seconds at these times
        self._of_java: dict[str, list[float]] = defaultdict(list)  # likewise
        self._java = JavaThreads()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._look()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._look()

    def used(self, begun_at: float, ended_at: float) -> Used:
        """Between two times, by the clock; between two looks it is taken for steady."""

        def between(series: Mapping[str, list[float]]) -> dict[str, float]:
            return {
                name: float(np.subtract(*np.interp([ended_at, begun_at], self._at, seen)))
                for name, seen in series.items()
            }

        cpu_s = between(self._seen)
        machine = cpu_s.pop("machine")
        cpu_s["others"] = max(machine - sum(cpu_s.values()), 0.0)
        disturbed = cpu_s["others"] > _DISTURBED * (os.cpu_count() or 1) * (ended_at - begun_at)
        return Used(cpu_s, between(self._of_java), disturbed)

    def _watch(self) -> None:
        while not self._over.wait(_EVERY_S):
            self._look()

    def _look(self) -> None:
        found = processes.all_processes()
        now = {"machine": processes.busy_s(), "harness": sum(os.times()[:2])}
        self._at.append(time.time())
        for name, roots in self._roots.items():
            now[name], rss_mb = processes.used(found, roots)
            if name == "system":
                self.peak_rss_mb = max(self.peak_rss_mb, rss_mb)
        for name, cpu_s in now.items():  # of one that has ended, what was seen last
            self._seen[name].append(max([cpu_s, *self._seen[name][-1:]]))
        system = processes.tree(found, self._roots["system"])
        for name, cpu_s in self._java.look(system).items():
            self._of_java[name].append(cpu_s)
        self.connections = max(self.connections, processes.connections(system, self._port))


def _found(*pids: int | None) -> frozenset[int]:
    return frozenset(pid for pid in pids if pid)


def _port(address: str) -> int:
    return int(address.rstrip("/").rpartition(":")[2])

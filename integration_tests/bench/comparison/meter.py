"""What a run takes, twice a second: of the system, the database, the broker and everything else."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from integration_tests.bench.comparison import processes
from integration_tests.services import Services
from integration_tests.services.containers import Containers

_EVERY_S: Final = 0.5
_OWN_CONNECTIONS: Final = 1  # the one that watches the table
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
    """Of one run."""

    cpu_s: Mapping[str, float]  # by system, database, broker, harness and others
    peak_rss_mb: float
    connections: int  # at most, to the database
    disturbed: bool


class Meter:
    """Use as a context manager around what is measured; `used` tells at its end."""

    def __init__(self, servers: Servers, system: int) -> None:
        self._servers = servers
        self._roots = {"system": {system}, "database": servers.database, "broker": servers.broker}
        self._peak: dict[str, float] = {}
        self._rss_mb, self._connections = 0.0, 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._begun: dict[str, float] = {}

    def __enter__(self) -> Self:
        self._look()
        # What the system has taken until now is its own.
        self._begun = {**self._peak, "system": 0.0}
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._look()

    def used(self, seconds: float) -> Used:
        """In so many seconds of the clock."""
        cpu_s = {name: peak - self._begun[name] for name, peak in self._peak.items()}
        machine = cpu_s.pop("machine")
        cpu_s["others"] = max(machine - sum(cpu_s.values()), 0.0)
        disturbed = cpu_s["others"] > _DISTURBED * (os.cpu_count() or 1) * seconds
        return Used(cpu_s, self._rss_mb, self._connections, disturbed)

    def _watch(self) -> None:
        while not self._over.wait(_EVERY_S):
            self._look()

    def _look(self) -> None:
        found = processes.all_processes()
        now = {"machine": processes.busy_s(), "harness": sum(os.times()[:2])}
        for name, roots in self._roots.items():
            now[name], rss_mb = processes.used(found, roots)
            if name == "system":
                self._rss_mb = max(self._rss_mb, rss_mb)
        for name, cpu_s in now.items():  # of one that has ended, what was seen last
            self._peak[name] = max(self._peak.get(name, 0.0), cpu_s)
        self._connections = max(self._connections, processes.connections(self._servers.port) - _OWN_CONNECTIONS)


def _found(*pids: int | None) -> frozenset[int]:
    return frozenset(pid for pid in pids if pid)


def _port(address: str) -> int:
    return int(address.rstrip("/").rpartition(":")[2])
